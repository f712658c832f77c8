//! Phase 2: see [`super`] for what it computes.

use restante_bfv::{Leveled, ShortCiphertext, ring_switch};
use restante_ring::{
    Automorphism, Column, Evaluation, NttPlan, Poly, Tiles, for_each, join, multiply_accumulate,
};

use super::{
    CompactContext, CompactDetectionKey, CompactDigest, DigestRequest, Payload,
    affine::{GROUP, lift},
    columns,
};
use crate::OmrError;

/// Level of the pertinency vectors' chain where A_d is made.
const BITS: usize = 0;
/// Level where it meets the columns.
const PRODUCTS: usize = 1;
/// Level with the primes of the packing chain.
const SUMS: usize = 2;

/// A packed ciphertext for each recipient and ciphertext of the digest; none where all columns so far are zero.
pub(super) type Packed = Vec<Vec<Option<Leveled<u64>>>>;

/// A_d for one recipient.
#[derive(Debug)]
struct Rows {
    factor: u64,
    /// For each prime, the first and second halves of all rows.
    tiles: Vec<[Tiles<u64>; 2]>,
}

/// The products of one request.
#[derive(Debug)]
pub(super) struct Compression<'a> {
    context: &'a CompactContext,
    request: &'a DigestRequest,
    /// The transform modulo t, in short words.
    plaintext: NttPlan<u32>,
    /// For each row of the products: rotation by 0, ..., K/2 - 1, then the same after a swap of the rows of slots.
    rotations: Vec<Automorphism>,
    /// For b = 0, 1, ..., the evaluations of X^(4 2^b).
    shifts: Vec<Poly<u64, Evaluation>>,
}

impl<'a> Compression<'a> {
    pub(super) fn new(context: &'a CompactContext, request: &'a DigestRequest) -> Result<Self, OmrError> {
        let (degree, half) = (context.degree(), request.equations() / 2);
        let (order, t) = (2 * degree as u64, context.parameters().clue.modulus());
        let powers = std::iter::successors(Some(1), |power| Some(power * 3 % order)).take(half);
        let powers: Vec<u64> = powers.collect();
        let elements = powers.iter().copied().chain(powers.iter().map(|power| order - power));
        let basis = context.packing().basis(0);
        let shifts = (0..request.columns_per_ciphertext(context).ilog2()).map(|bit| {
            let mut coefficients = vec![0; degree];
            coefficients[4 << bit] = 1;
            Poly::from_signed(basis, &coefficients).into_evaluation()
        });
        Ok(Self {
            plaintext: NttPlan::with_backend(t.into(), degree, basis.backend())?,
            rotations: elements
                .map(|element| Automorphism::new(element, degree))
                .collect::<Result<_, _>>()?,
            shifts: shifts.collect(),
            context,
            request,
        })
    }

    /// The sums of no block.
    pub(super) fn nothing(&self, recipients: usize) -> Packed {
        vec![vec![None; self.request.ciphertexts(self.context)]; recipients]
    }

    /// Adds the messages in some slots of a block. The first of them is at place `first` of the range.
    pub(super) fn add_block(
        &self,
        keys: &[&CompactDetectionKey],
        bits: &[&Leveled<u64>],
        slots: &[u32],
        first: usize,
        payloads: &[Payload<'_>],
        sums: &mut Packed,
    ) {
        let degree = self.context.degree();
        let places = self.context.circuit().context().encoder().slot_places();
        let places: Vec<u32> = slots.iter().map(|&slot| places[slot as usize]).collect();
        let rows = self.powers(keys, bits, slots, first);
        // For indices only there are no payloads, and every message of the range has its one.
        let nothing = vec![Payload::from(&[][..]); places.len()];
        let payloads = if self.request.payload_bytes == 0 { &nothing } else { payloads };
        let columns = columns::fill(self.request.payload_bytes, payloads, &places, degree);
        let per_ciphertext = self.request.columns_per_ciphertext(self.context);
        for (index, columns) in columns.chunks(per_ciphertext).enumerate() {
            let packed = self.pack(keys, &rows, columns, 0, 0);
            for (sums, packed) in sums.iter_mut().zip(packed) {
                match (&mut sums[index], packed) {
                    (Some(sum), Some(packed)) => sum.add_assign(&packed),
                    (sum, packed) => *sum = packed,
                }
            }
        }
    }

    /// The digests.
    pub(super) fn finish(&self, keys: &[&CompactDetectionKey], sums: Packed) -> Vec<CompactDigest> {
        let chain = self.context.packing();
        let (digest, short) = (self.context.digest(), self.context.parameters().short);
        let zero = || Leveled::new(vec![Poly::zero(chain.basis(0)), Poly::zero(chain.basis(0))], 0, 1);
        let per_key = keys.iter().zip(sums).map(|(key, sums)| {
            let mut factor = 1;
            let ciphertexts = sums
                .into_iter()
                .map(|sum| {
                    // An empty range has nothing to add; what it gives decrypts to zeros all the same.
                    let mut sum = sum.unwrap_or_else(zero);
                    self.fold(key, &mut sum);
                    let (bfv, own) = chain.leave(&chain.switch_key(&sum, &key.to_digest));
                    factor = own;
                    let small = ring_switch::to_subring(digest, &bfv.into_coefficient());
                    ShortCiphertext::new(digest, &small, short)
                })
                .collect();
            let parameters = self.context.id();
            CompactDigest { parameters, request: self.request.clone(), key: key.id(), factor, ciphertexts }
        });
        per_key.collect()
    }

    /// The part of folding that packing leaves: to every fourth coefficient.
    pub(super) fn fold(&self, key: &CompactDetectionKey, sum: &mut Leveled<u64>) {
        for index in [1, 0] {
            let rotated = self.context.packing().rotate(sum, &key.packing[index]);
            sum.add_assign(&rotated);
        }
    }

    /// A_d for each recipient.
    fn powers(
        &self,
        keys: &[&CompactDetectionKey],
        bits: &[&Leveled<u64>],
        slots: &[u32],
        first: usize,
    ) -> Vec<Rows> {
        let chain = self.context.pertinency();
        let plain = self.weights(slots, first);
        let t = self.plaintext.modulus().value();
        let half = plain.len() / 2;
        // Rotations of the bits, or of the bits with rows swapped, times their weights.
        let products = |swapped: bool| {
            let mut rotated: Vec<Leveled<u64>> = keys
                .iter()
                .zip(bits)
                .map(|(key, bits)| if swapped { chain.rotate(bits, &key.swap) } else { (*bits).clone() })
                .collect();
            let plain = &plain[if swapped { half..2 * half } else { 0..half }];
            let mut rows: Vec<Vec<Leveled<u64>>> = keys.iter().map(|_| Vec::with_capacity(half)).collect();
            for (rotation, weights) in plain.iter().enumerate() {
                let factor = Poly::build(chain.basis(BITS), |_, plan, values| lift(t, weights, plan, values));
                for ((key, rotated), rows) in keys.iter().zip(&mut rotated).zip(&mut rows) {
                    if rotation > 0 {
                        *rotated = chain.rotate(rotated, &key.rotate);
                    }
                    let mut product = rotated.clone();
                    product.mul_plain(&factor);
                    rows.push(chain.rescale(&product, PRODUCTS));
                }
            }
            rows
        };
        let (straight, swapped) = join(|| products(false), || products(true));
        let (degree, limbs) = (self.context.degree(), chain.basis(PRODUCTS).limbs());
        let tiles = straight.into_iter().zip(swapped).map(|(straight, swapped)| {
            let rows: Vec<Leveled<u64>> = straight.into_iter().chain(swapped).collect();
            let mut tiles: Vec<_> = (0..limbs)
                .map(|_| [Tiles::unfilled(rows.len(), degree), Tiles::unfilled(rows.len(), degree)])
                .collect();
            for_each(degree * rows.len(), tiles.iter_mut().enumerate(), |(limb, halves)| {
                for (part, tiles) in halves.iter_mut().enumerate() {
                    for (index, rows) in rows.chunks(GROUP).enumerate() {
                        let rows: Vec<&[u64]> = rows.iter().map(|row| row.parts()[part].limb(limb)).collect();
                        tiles.set_rows(index * GROUP, &rows);
                    }
                }
            });
            Rows { factor: rows[0].factor(), tiles }
        });
        tiles.collect()
    }

    /// Pow_d by their coefficients modulo t: slot (row, column) has x_j^e for the message j in slot (row, column + d), or
    /// in the other row for the second half of them, with e = row K/2 + column modulo K/2.
    fn weights(&self, slots: &[u32], first: usize) -> Vec<Vec<u32>> {
        let (columns, half) = (self.context.degree() / 2, self.rotations.len() / 2);
        let places = self.context.circuit().context().encoder().slot_places();
        let t = *self.plaintext.modulus();
        let mut weights = vec![vec![0u32; 2 * columns]; 2 * half];
        for (&slot, x) in slots.iter().zip(first as u64 + 1..) {
            let (row, column) = (slot as usize / columns, slot as usize % columns);
            let x = t.multiplier(t.reduce(x));
            let mut power = 1;
            for e in 0..2 * half {
                let rotation = (column + half - e % half) % half;
                let target = (e / half) * columns + (column + columns - rotation) % columns;
                let index = (row ^ (e / half)) * half + rotation;
                weights[index][places[target] as usize] = power;
                power = x.mul(&t, power);
            }
        }
        for_each(2 * columns, weights.iter_mut(), |weights| self.plaintext.inverse(weights));
        weights
    }

    /// The packed columns with indices `lowest + 2^bit i`, for each recipient, folded as far as their packing does it.
    fn pack(
        &self,
        keys: &[&CompactDetectionKey],
        rows: &[Rows],
        columns: &[Vec<u32>],
        bit: usize,
        lowest: usize,
    ) -> Vec<Option<Leveled<u64>>> {
        let Some(column) = columns.get(lowest) else { return vec![None; keys.len()] };
        let Some(shift) = self.shifts.get(bit) else {
            return self.products(rows, column).into_iter().map(Some).collect();
        };
        let (even, odd) = join(
            || self.pack(keys, rows, columns, bit + 1, lowest),
            || self.pack(keys, rows, columns, bit + 1, lowest + (1 << bit)),
        );
        let chain = self.context.packing();
        let merge = |key: &CompactDetectionKey, even: Option<Leveled<u64>>, odd: Option<Leveled<u64>>| {
            // E + X^s O + sigma(E - X^s O), where sigma negates X^s.
            let mut sum = even?;
            let mut difference = sum.clone();
            if let Some(mut odd) = odd {
                odd.mul_plain(shift);
                sum.add_assign(&odd);
                difference.sub_assign(&odd);
            }
            sum.add_assign(&chain.rotate(&difference, &key.packing[bit + 2]));
            Some(sum)
        };
        keys.iter().zip(even.into_iter().zip(odd)).map(|(key, (even, odd))| merge(key, even, odd)).collect()
    }

    /// The sum over d of A_d rot_d(column), for each recipient, at the packing chain's level.
    fn products(&self, rows: &[Rows], column: &[u32]) -> Vec<Leveled<u64>> {
        let chain = self.context.pertinency();
        let (degree, basis) = (self.context.degree(), chain.basis(PRODUCTS));
        let mut coefficients = restante_ring::AlignedVec::from_slice(64, column);
        self.plaintext.inverse(&mut coefficients);
        let mut sums: Vec<Poly<u64, Evaluation>> = (0..2 * rows.len()).map(|_| Poly::zero(basis)).collect();
        let mut values = vec![0; degree];
        let mut rotated = vec![vec![0; degree]; GROUP];
        let mut plain = Tiles::unfilled(self.rotations.len(), degree);
        for (limb, plan) in basis.plans().iter().enumerate() {
            lift(self.plaintext.modulus().value(), &coefficients, plan, &mut values);
            for (index, rotations) in self.rotations.chunks(GROUP).enumerate() {
                for (rotation, rotated) in rotations.iter().zip(&mut rotated) {
                    rotation.permute(&values, rotated);
                }
                plain.set_rows(index * GROUP, &rotated[..rotations.len()]);
            }
            let encrypted: Vec<_> = rows
                .iter()
                .flat_map(|rows| rows.tiles[limb].iter().map(|tiles| Column { tiles, first_row: 0 }))
                .collect();
            let mut outputs: Vec<_> = sums.iter_mut().map(|sum| sum.limb_mut(limb)).collect();
            multiply_accumulate(plan, &plain, &encrypted, &mut outputs);
        }
        let mut sums = sums.into_iter();
        rows.iter()
            .map(|rows| {
                let sum = Leveled::new(sums.by_ref().take(2).collect(), PRODUCTS, rows.factor);
                self.context.packing().adopt(chain.rescale(&sum, SUMS), 0)
            })
            .collect()
    }
}
