//! The loop that touches every record: XOR the selected ones into a sum for each key.
//!
//! Selection is by mask, without branches: a server may know its own key's bits, but half of the branches would be mispredicted.
//! Records are taken eight at a time, the eight that share a byte of every key's bits: they are read into the first-level
//! cache once, used by all keys there, and a sum is loaded and stored once for eight records and not for each.
//!
//! The back ends are those of the ring's kernels. The scalar one is the definition; the others are the same source, compiled for
//! wider vectors.

use restante_ring::Backend;

/// The bytes that are handled at once; they fit the vector registers.
const CHUNK: usize = 64;
/// The part of a long record that is handled at once: eight records' worth are half of a first-level cache.
const COLUMN: usize = 2048;
/// The CPU fetches streams of consecutive addresses ahead of time, and tells them apart by their pages.
const PAGE: usize = 4096;

/// The functions of a back end.
struct Operations {
    accumulate: fn(&[u8], usize, &[u8], usize, &mut [u8]),
    read: fn(&[u8]) -> u64,
}

impl Operations {
    /// Those of the widest back end up to this one that the processor can run.
    fn of(backend: Backend) -> &'static Self {
        static SCALAR: Operations = Operations { accumulate: scalar_accumulate, read: scalar_read };
        match backend {
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 if backend.is_available() => &x86::AVX512,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 | Backend::Avx512 if Backend::Avx2.is_available() => &x86::AVX2,
            _ => &SCALAR,
        }
    }
}

/// Adds to each sum the records that the key's bits select.
///
/// `sums` holds one of `record_bytes` bytes for each key. The bits of key k start at byte `k * row` of `bits`: bit i is bit
/// i mod 8 of byte i / 8.
pub(crate) fn accumulate(
    backend: Backend,
    records: &[u8],
    record_bytes: usize,
    bits: &[u8],
    row: usize,
    sums: &mut [u8],
) {
    (Operations::of(backend).accumulate)(records, record_bytes, bits, row, sums);
}

/// The XOR of all words of `bytes`: a pass that does nothing but read, which no answer can be quicker than.
pub fn read(backend: Backend, bytes: &[u8]) -> u64 {
    (Operations::of(backend).read)(bytes)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! The same source for wider vectors.

    use super::Operations;

    macro_rules! back_end {
        ($operations:ident, $features:literal) => {
            pub(super) static $operations: Operations = {
                #[target_feature(enable = $features)]
                fn accumulate(records: &[u8], record_bytes: usize, bits: &[u8], row: usize, sums: &mut [u8]) {
                    super::scalar_accumulate(records, record_bytes, bits, row, sums);
                }

                #[target_feature(enable = $features)]
                fn read(bytes: &[u8]) -> u64 {
                    super::scalar_read(bytes)
                }

                Operations {
                    // SAFETY: these operations are only handed out after the features were detected.
                    accumulate: |records, record_bytes, bits, row, sums| unsafe {
                        accumulate(records, record_bytes, bits, row, sums)
                    },
                    // SAFETY: as above.
                    read: |bytes| unsafe { read(bytes) },
                }
            };
        };
    }

    back_end!(AVX2, "avx2");
    back_end!(AVX512, "avx512f,avx512bw,avx512vl");
}

#[inline(always)]
fn scalar_accumulate(records: &[u8], record_bytes: usize, bits: &[u8], row: usize, sums: &mut [u8]) {
    let whole = records.len() / (8 * record_bytes);
    let (blocks, rest) = records.split_at(whole * 8 * record_bytes);
    match record_bytes {
        8 => short::<8>(blocks, bits, row, sums),
        16 => short::<16>(blocks, bits, row, sums),
        32 => short::<32>(blocks, bits, row, sums),
        _ => long(blocks, record_bytes, bits, row, sums),
    }
    for (index, record) in rest.chunks_exact(record_bytes).enumerate() {
        for (key, sum) in sums.chunks_exact_mut(record_bytes).enumerate() {
            let mask = masks(bits[key * row + whole])[index];
            sum.iter_mut().zip(record).for_each(|(sum, byte)| *sum ^= byte & mask);
        }
    }
}

/// For each bit all ones or all zeros.
#[inline(always)]
fn masks(bits: u8) -> [u8; 8] {
    std::array::from_fn(|index| (bits >> index & 1).wrapping_neg())
}

/// Blocks of eight records of any length.
#[inline(always)]
fn long(blocks: &[u8], record_bytes: usize, bits: &[u8], row: usize, sums: &mut [u8]) {
    for (block, records) in blocks.chunks_exact(8 * record_bytes).enumerate() {
        for start in (0..record_bytes).step_by(COLUMN) {
            let end = record_bytes.min(start + COLUMN);
            let columns: [&[u8]; 8] = std::array::from_fn(|index| {
                &records[index * record_bytes + start..index * record_bytes + end]
            });
            for (key, sum) in sums.chunks_exact_mut(record_bytes).enumerate() {
                let (sum, masks) = (&mut sum[start..end], masks(bits[key * row + block]));
                match key {
                    // Waits for memory. Eight rows of one page would be no streams, so it goes one by one.
                    0 if record_bytes < PAGE => {
                        columns.into_iter().zip(masks).for_each(|(column, mask)| add_one(sum, column, mask));
                    }
                    _ => add_eight(sum, columns, masks),
                }
            }
        }
    }
}

/// Adds one masked column to a sum of the same length.
#[inline(always)]
fn add_one(sum: &mut [u8], column: &[u8], mask: u8) {
    let (parts, rest) = sum.as_chunks_mut::<CHUNK>();
    let (column, column_rest) = column.as_chunks::<CHUNK>();
    for (part, column) in parts.iter_mut().zip(column) {
        let mut value = *part;
        value.iter_mut().zip(column).for_each(|(value, byte)| *value ^= byte & mask);
        *part = value;
    }
    rest.iter_mut().zip(column_rest).for_each(|(sum, byte)| *sum ^= byte & mask);
}

/// Adds the masked columns to a sum of the same length: in whole vectors, then what is left in ever smaller parts.
#[inline(always)]
fn add_eight(sum: &mut [u8], columns: [&[u8]; 8], masks: [u8; 8]) {
    let (sum, columns) = add_parts::<CHUNK>(sum, columns, masks);
    let (sum, columns) = add_parts::<16>(sum, columns, masks);
    let (sum, columns) = add_parts::<4>(sum, columns, masks);
    add_parts::<1>(sum, columns, masks);
}

/// Adds as many whole parts of `BYTES` bytes as there are, and returns what is left.
#[inline(always)]
fn add_parts<'a, 'b, const BYTES: usize>(
    sum: &'a mut [u8],
    columns: [&'b [u8]; 8],
    masks: [u8; 8],
) -> (&'a mut [u8], [&'b [u8]; 8]) {
    let (parts, rest) = sum.as_chunks_mut::<BYTES>();
    let columns = columns.map(|column| column.as_chunks::<BYTES>());
    let [a, b, c, d, e, f, g, h] = columns.map(|(parts, _)| parts.iter());
    // Zipped, so that no bounds are checked within the loop.
    let columns_parts = a.zip(b).zip(c.zip(d)).zip(e.zip(f).zip(g.zip(h)));
    for (part, (((a, b), (c, d)), ((e, f), (g, h)))) in parts.iter_mut().zip(columns_parts) {
        let mut value = *part;
        for byte in 0..BYTES {
            value[byte] ^= a[byte] & masks[0]
                ^ b[byte] & masks[1]
                ^ c[byte] & masks[2]
                ^ d[byte] & masks[3]
                ^ e[byte] & masks[4]
                ^ f[byte] & masks[5]
                ^ g[byte] & masks[6]
                ^ h[byte] & masks[7];
        }
        *part = value;
    }
    (rest, columns.map(|(_, rest)| rest))
}

/// Blocks of eight records of `BYTES` bytes, a multiple of eight: a block is `BYTES` words. The words at the same place of every block
/// are added up first, so that all vectors are full.
#[inline(always)]
fn short<const BYTES: usize>(blocks: &[u8], bits: &[u8], row: usize, sums: &mut [u8]) {
    for (key, sum) in sums.as_chunks_mut::<BYTES>().0.iter_mut().enumerate() {
        let mut lanes = [0u64; BYTES];
        let blocks = blocks.as_chunks::<8>().0.as_chunks::<BYTES>().0;
        for (block, &bits) in blocks.iter().zip(&bits[key * row..]) {
            for (lane, (sum, word)) in lanes.iter_mut().zip(block).enumerate() {
                let bit = 1 << (lane * 8 / BYTES);
                let mask = u64::from(u64::from(bits) & bit == bit).wrapping_neg();
                *sum ^= u64::from_ne_bytes(*word) & mask;
            }
        }
        for (lane, value) in lanes.iter().enumerate() {
            let at = lane % (BYTES / 8) * 8;
            sum[at..at + 8].iter_mut().zip(value.to_ne_bytes()).for_each(|(sum, byte)| *sum ^= byte);
        }
    }
}

#[inline(always)]
fn scalar_read(bytes: &[u8]) -> u64 {
    // One sum: the compiler splits it into vectors by itself. Out of an array of sums it makes gathers, ten times slower.
    bytes.as_chunks::<8>().0.iter().fold(0, |sum, word| sum ^ u64::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn all_back_ends_add_the_selected_records(
            record_bytes in prop_oneof![Just(8), Just(16), Just(32), Just(64), 8usize..200, 2040usize..2120, 4090usize..4200],
            count in 0usize..40,
            keys in 1usize..10,
            seed: u64,
        ) {
            // A cheap generator: nothing here depends on its quality.
            let mut word = seed;
            let mut byte = || {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (word >> 56) as u8
            };
            let records: Vec<u8> = (0..count * record_bytes).map(|_| byte()).collect();
            let row = count.div_ceil(8) + 2;
            let bits: Vec<u8> = (0..keys * row).map(|_| byte()).collect();
            let start: Vec<u8> = (0..keys * record_bytes).map(|_| byte()).collect();

            let mut expected = start.clone();
            for key in 0..keys {
                for index in 0..count {
                    if bits[key * row + index / 8] >> (index % 8) & 1 == 1 {
                        for at in 0..record_bytes {
                            expected[key * record_bytes + at] ^= records[index * record_bytes + at];
                        }
                    }
                }
            }
            let total = records.as_chunks::<8>().0.iter().fold(0, |sum, word| sum ^ u64::from_ne_bytes(*word));
            for backend in Backend::available() {
                let mut sums = start.clone();
                accumulate(backend, &records, record_bytes, &bits, row, &mut sums);
                prop_assert_eq!(&sums, &expected, "{}", backend);
                prop_assert_eq!(read(backend, &records), total);
            }
        }
    }
}
