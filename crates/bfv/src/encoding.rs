//! Plaintexts: slots, coefficients, and their forms in the ciphertext rings.
//!
//! A plaintext polynomial modulo t with N slots: slot (row, column) of the 2 x N/2 array is the value at
//! psi^(3^column) in row 0 and at psi^(-3^column) in row 1, so that X -> X^(3^k) rotates both rows to the left by k
//! columns and X -> X^-1 swaps them (Smart and Vercauteren, ePrint 2011/133; Halevi and Shoup, ePrint 2014/106).

use restante_ring::{Basis, Coefficient, Evaluation, Multiplier, NttPlan, Poly, Word};
use zeroize::{Zeroize, Zeroizing};

/// The maps between slots, coefficients modulo t, and polynomials modulo Q.
#[derive(Debug)]
pub struct Encoder<W: Word> {
    plaintext: Basis<W>,
    ciphertext: Basis<W>,
    /// For each slot, rows one after the other, its place in an evaluation vector.
    places: Vec<u32>,
    /// Q modulo t.
    product: Multiplier<W>,
    /// -t^-1 modulo each prime of Q.
    minus_inverses: Vec<Multiplier<W>>,
}

impl<W: Word> Encoder<W> {
    pub(crate) fn new(plaintext: &Basis<W>, ciphertext: &Basis<W>) -> Self {
        let degree = plaintext.degree();
        let order = 2 * degree as u64;
        let mut place_of_exponent = vec![0; 2 * degree];
        for (place, exponent) in (0..).zip(NttPlan::<W>::evaluation_exponents(degree)) {
            place_of_exponent[exponent as usize] = place;
        }
        let powers = std::iter::successors(Some(1), |power| Some(power * 3 % order)).take(degree / 2);
        let rows = powers.clone().chain(powers.map(|power| order - power));
        let modulus = plaintext.plans()[0].modulus();
        let product = ciphertext.product_modulo(modulus);
        let minus_inverses = ciphertext.plans().iter().map(|plan| {
            let q = plan.modulus();
            q.multiplier(q.neg(q.inv(q.reduce(modulus.as_u64()))))
        });
        Self {
            places: rows.map(|exponent: u64| place_of_exponent[exponent as usize]).collect(),
            product: modulus.multiplier(product),
            minus_inverses: minus_inverses.collect(),
            plaintext: plaintext.clone(),
            ciphertext: ciphertext.clone(),
        }
    }

    pub(crate) fn basis(&self) -> &Basis<W> {
        &self.plaintext
    }

    /// The transform modulo t.
    pub fn plan(&self) -> &NttPlan<W> {
        &self.plaintext.plans()[0]
    }

    /// For each slot (row 0 from left to right, then row 1), its place in a vector of evaluations modulo t. Callers
    /// that fill such a vector themselves, and transform it back with [`Encoder::plan`], save a pass.
    pub fn slot_places(&self) -> &[u32] {
        &self.places
    }

    /// The coefficients of the plaintext with these N slots.
    pub fn slots_to_coefficients(&self, slots: &[W]) -> Vec<W> {
        assert_eq!(slots.len(), self.places.len(), "one value per slot");
        let mut values = vec![W::default(); slots.len()];
        for (&slot, &place) in slots.iter().zip(&self.places) {
            values[place as usize] = slot;
        }
        self.plan().inverse(&mut values);
        values
    }

    /// The slots of the plaintext with these N coefficients.
    pub fn coefficients_to_slots(&self, mut coefficients: Vec<W>) -> Vec<W> {
        self.plan().forward(&mut coefficients);
        let slots = self.places.iter().map(|&place| coefficients[place as usize]).collect();
        coefficients.zeroize();
        slots
    }

    /// The plaintext as a factor: its coefficients, taken in (-t/2, t/2), modulo one prime of Q. The result replaces
    /// `out` and is in evaluation form.
    pub fn lift(&self, coefficients: &[W], plan: &NttPlan<W>, out: &mut [W]) {
        plan.lift(coefficients, self.plan().modulus().value(), out);
        plan.forward(out);
    }

    /// [`Encoder::lift`] for every prime of Q.
    pub fn to_factor(&self, coefficients: &[W]) -> Poly<W, Evaluation> {
        let mut factor = Poly::zero(&self.ciphertext);
        factor.limbs_mut().for_each(|(plan, values)| self.lift(coefficients, plan, values));
        factor
    }

    /// The plaintext as a summand: round(Q m / t) for each coefficient m.
    ///
    /// Q m = t x + r with r in (-t/2, t/2) gives x = -r t^-1 modulo each prime of Q.
    pub fn to_summand(&self, coefficients: &[W]) -> Poly<W, Coefficient> {
        assert_eq!(coefficients.len(), self.places.len(), "one value per coefficient");
        let t = self.plan().modulus();
        let remainders: Vec<i64> =
            coefficients.iter().map(|&m| t.to_signed(self.product.mul(t, m))).collect();
        let remainders = Zeroizing::new(remainders);
        let mut summand = Poly::from_signed(&self.ciphertext, &remainders);
        summand.scale(&self.minus_inverses);
        summand
    }
}
