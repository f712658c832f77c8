//! Messages as columns of residues modulo t: a one, the payload's length, the payload in digits.

use restante_ring::for_each;
use zeroize::{Zeroize, Zeroizing};

use super::{CompactParameters, Payload};

/// t.
const T: u64 = 786_433;
/// t^9 is just above 2^176: nine digits hold 22 bytes.
const GROUP_BYTES: usize = 22;
const GROUP_DIGITS: usize = 9;
/// Columns before the payload's digits, if payloads are wanted: the one, and the length.
const HEAD: usize = 2;

/// Number of columns for a payload size: one for indices only.
pub(super) fn count(payload_bytes: usize) -> usize {
    if payload_bytes == 0 {
        return 1;
    }
    HEAD + payload_bytes / GROUP_BYTES * GROUP_DIGITS + digits_for(payload_bytes % GROUP_BYTES)
}

/// The number of digits for the largest integer of so many bytes, at most [`GROUP_BYTES`].
fn digits_for(bytes: usize) -> usize {
    // log2 t = 19.585
    (bytes * 8 * 1000).div_ceil(19_584)
}

/// The columns of a block, in places of an evaluation vector.
///
/// `places[i]` is the place of payload i. Payloads longer than `payload_bytes` are cut; their length tells.
pub(super) fn fill(
    payload_bytes: usize,
    payloads: &[Payload<'_>],
    places: &[u32],
    degree: usize,
) -> Vec<Vec<u32>> {
    let mut columns = vec![vec![0u32; degree]; count(payload_bytes)];
    for &place in &places[..payloads.len()] {
        columns[0][place as usize] = 1;
    }
    if payload_bytes == 0 {
        return columns;
    }
    for (payload, &place) in payloads.iter().zip(places) {
        columns[1][place as usize] = payload.length.min(T as usize - 1) as u32;
    }
    let groups = columns[HEAD..].chunks_mut(GROUP_DIGITS).enumerate();
    for_each(degree, groups, |(group, columns)| {
        let range = group * GROUP_BYTES..payload_bytes.min((group + 1) * GROUP_BYTES);
        for (payload, &place) in payloads.iter().zip(places) {
            let end = range.end.min(payload.bytes.len());
            let bytes = payload.bytes.get(range.start..end).unwrap_or_default();
            let mut words = [0u32; GROUP_BYTES.div_ceil(4)];
            for (index, &byte) in bytes.iter().enumerate() {
                words[index / 4] |= u32::from(byte) << (8 * (index % 4));
            }
            for column in columns.iter_mut() {
                column[place as usize] = divide(&mut words);
            }
        }
    });
    columns
}

/// Divides by t, and gives the remainder.
fn divide(words: &mut [u32]) -> u32 {
    words.iter_mut().rev().fold(0u64, |remainder, word| {
        let value = remainder << 32 | u64::from(*word);
        *word = (value / T) as u32;
        value % T
    }) as u32
}

/// The payload's whole length and its bytes, as many as the columns hold; none if no payload has these digits.
pub(super) fn read(payload_bytes: usize, columns: &[u32]) -> Option<(usize, Vec<u8>)> {
    let length = columns[1] as usize;
    let mut payload = Vec::with_capacity(payload_bytes);
    for digits in columns[HEAD..].chunks(GROUP_DIGITS) {
        let mut words = [0u32; GROUP_BYTES.div_ceil(4)];
        for &digit in digits.iter().rev() {
            let carry = words.iter_mut().fold(u64::from(digit), |carry, word| {
                let value = u64::from(*word) * T + carry;
                *word = value as u32;
                value >> 32
            });
            if carry != 0 {
                return None;
            }
        }
        let bytes: Zeroizing<Vec<u8>> =
            Zeroizing::new(words.iter().flat_map(|word| word.to_le_bytes()).collect());
        words.zeroize();
        let taken = GROUP_BYTES.min(payload_bytes - payload.len());
        if bytes[taken..].iter().any(|&byte| byte != 0) {
            return None;
        }
        payload.extend_from_slice(&bytes[..taken]);
    }
    if payload.get(length..).is_some_and(|padding| padding.iter().any(|&byte| byte != 0)) {
        return None;
    }
    payload.truncate(length);
    Some((length, payload))
}

const _: () = assert!(CompactParameters::MAX_PAYLOAD_BYTES < T as usize);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn columns_read_back(size in 1usize..100, payload in proptest::collection::vec(any::<u8>(), 0..130)) {
            let columns = fill(size, &[payload.as_slice().into()], &[3], 8);
            prop_assert_eq!(columns.len(), count(size));
            prop_assert!(columns.iter().flatten().all(|&digit| u64::from(digit) < T));
            let own: Vec<u32> = columns.iter().map(|column| column[3]).collect();
            let kept = payload[..payload.len().min(size)].to_vec();
            prop_assert_eq!(read(size, &own), Some((payload.len(), kept)));
        }
    }

    #[test]
    fn the_largest_bytes_fit_and_what_no_bytes_give_is_refused() {
        for size in 1..=2 * GROUP_BYTES {
            let payload = vec![0xff; size];
            let own: Vec<u32> =
                fill(size, &[payload.as_slice().into()], &[0], 1).iter().map(|column| column[0]).collect();
            assert_eq!(read(size, &own), Some((size, payload)));
            let mut large = own.clone();
            let last = large.len() - 1;
            large[last] = T as u32 - 1;
            assert!(size % GROUP_BYTES != 0 || read(size, &large).is_none());
        }
        assert_eq!(count(0), 1);
        assert_eq!(count(612), 2 + 27 * 9 + 8);
        // Bytes behind the payload's end.
        assert_eq!(read(4, &[1, 1, 300, 0]), None);
    }
}
