//! Lanes in plain arrays, to test the shared transforms in shapes that this processor has no registers for.

use super::{lanes::Lanes, ntt};
use crate::{Modulus, Multiplier, Word, roots::Roots};

#[derive(Clone, Copy)]
struct Portable<W: Word, const L: usize, const EXPANDED: bool> {
    modulus: Modulus<W>,
}

impl<W: Word, const L: usize, const EXPANDED: bool> Portable<W, L, EXPANDED> {
    fn apply(self, mut x: [W; L], mut y: [W; L], f: impl Fn(usize, W, W) -> (W, W)) -> ([W; L], [W; L]) {
        for lane in 0..L {
            (x[lane], y[lane]) = f(lane, x[lane], y[lane]);
        }
        (x, y)
    }
}

impl<W: Word, const L: usize, const EXPANDED: bool> Lanes for Portable<W, L, EXPANDED> {
    type Word = W;
    type Vector = [W; L];
    type Root = [W; L];

    const LANES: usize = L;
    const ROOT_WORDS: usize = 2;
    const IS_EXPANDED: bool = EXPANDED;

    unsafe fn new(modulus: &Modulus<W>) -> Self {
        Self { modulus: *modulus }
    }

    fn encode(_: &Modulus<W>, root: Multiplier<W>) -> [W; 2] {
        [root.factor, root.quotient]
    }

    unsafe fn root(self, from: *const W) -> [W; L] {
        // SAFETY: the caller's.
        [unsafe { *from }; L]
    }

    unsafe fn record_roots<const LEVEL: usize>(self, record: *const W) -> [W; L] {
        std::array::from_fn(|lane| {
            let place = if EXPANDED { LEVEL * L + lane } else { (2 << LEVEL) + (lane << (LEVEL + 1)) / L };
            // SAFETY: the caller's.
            unsafe { *record.add(place) }
        })
    }

    unsafe fn load(self, from: *const W) -> [W; L] {
        // SAFETY: the caller's.
        unsafe { from.cast::<[W; L]>().read() }
    }

    unsafe fn store(self, to: *mut W, values: [W; L]) {
        // SAFETY: the caller's.
        unsafe { to.cast::<[W; L]>().write(values) }
    }

    unsafe fn load_residues(self, from: *const W) -> [W; L] {
        // SAFETY: the caller's.
        unsafe { self.load(from) }
    }

    unsafe fn store_residues(self, to: *mut W, values: [W; L]) {
        // SAFETY: the caller's.
        unsafe { self.store(to, values) }
    }

    unsafe fn exchange<const LEVEL: usize>(self, x: [W; L], y: [W; L]) -> ([W; L], [W; L]) {
        let size = L >> (LEVEL + 1);
        let is_odd = |lane: usize| lane / size % 2 == 1;
        (
            std::array::from_fn(|lane| if is_odd(lane) { y[lane - size] } else { x[lane] }),
            std::array::from_fn(|lane| if is_odd(lane) { y[lane] } else { x[lane + size] }),
        )
    }

    unsafe fn restore<const LEVEL: usize>(self, x: [W; L], y: [W; L]) -> ([W; L], [W; L]) {
        // SAFETY: the caller's.
        unsafe { self.exchange::<LEVEL>(x, y) }
    }

    unsafe fn forward2<const LEFT: usize>(self, x: [W; L], y: [W; L], root: [W; L]) -> ([W; L], [W; L]) {
        let m = self.modulus;
        self.apply(x, y, |lane, x, y| {
            let product = m.mul(y, root[lane]);
            (m.add(x, product), m.sub(x, product))
        })
    }

    unsafe fn forward4_first(self, [a, b, c, d]: [[W; L]; 4], root: [W; L]) -> [[W; L]; 4] {
        // SAFETY: the caller's.
        let ((a, c), (b, d)) = unsafe { (self.forward2::<0>(a, c, root), self.forward2::<0>(b, d, root)) };
        [a, b, c, d]
    }

    unsafe fn forward4_second(self, [a, b, c, d]: [[W; L]; 4], roots: [[W; L]; 2]) -> [[W; L]; 4] {
        // SAFETY: the caller's.
        let ((a, b), (c, d)) =
            unsafe { (self.forward2::<0>(a, b, roots[0]), self.forward2::<0>(c, d, roots[1])) };
        [a, b, c, d]
    }

    unsafe fn inverse2<const DONE: usize>(self, x: [W; L], y: [W; L], root: [W; L]) -> ([W; L], [W; L]) {
        let m = self.modulus;
        self.apply(x, y, |lane, x, y| (m.add(x, y), m.mul(m.sub(x, y), root[lane])))
    }

    unsafe fn inverse4_first(self, [a, b, c, d]: [[W; L]; 4], roots: [[W; L]; 2]) -> [[W; L]; 4] {
        // SAFETY: the caller's.
        let ((a, b), (c, d)) =
            unsafe { (self.inverse2::<0>(a, b, roots[0]), self.inverse2::<0>(c, d, roots[1])) };
        [a, b, c, d]
    }

    unsafe fn inverse4_second(self, [a, b, c, d]: [[W; L]; 4], root: [W; L]) -> [[W; L]; 4] {
        // SAFETY: the caller's.
        let ((a, c), (b, d)) = unsafe { (self.inverse2::<0>(a, c, root), self.inverse2::<0>(b, d, root)) };
        [a, b, c, d]
    }

    unsafe fn inverse4_last(self, values: [[W; L]; 4], root: [W; L], scale: [W; L]) -> [[W; L]; 4] {
        let m = self.modulus;
        // SAFETY: the caller's.
        let [a, b, c, d] = unsafe { self.inverse4_second(values, root) };
        let (a, b) = self.apply(a, b, |lane, a, b| (m.mul(a, scale[lane]), m.mul(b, scale[lane])));
        [a, b, c, d]
    }

    unsafe fn add(self, _: *mut W, _: *const W) {
        unreachable!("tests run transforms alone on these lanes");
    }

    unsafe fn sub(self, _: *mut W, _: *const W) {
        unreachable!("tests run transforms alone on these lanes");
    }

    unsafe fn mul(self, _: *mut W, _: *const W) {
        unreachable!("tests run transforms alone on these lanes");
    }

    unsafe fn mul_add(self, _: *mut W, _: *const W, _: *const W) {
        unreachable!("tests run transforms alone on these lanes");
    }

    unsafe fn scale(self, _: *mut W, _: [W; L]) {
        unreachable!("tests run transforms alone on these lanes");
    }
}

fn check_shape<W: Word, const L: usize, const EXPANDED: bool>(
    roots: &Roots<W>,
    input: &[W],
    forward: &[W],
    inverse: &[W],
) {
    // SAFETY: arrays need no special instructions, and the tables are prepared for their shape.
    unsafe {
        let tables = ntt::prepare::<Portable<W, L, EXPANDED>>(roots);
        let mut values = input.to_vec();
        if !ntt::forward::<Portable<W, L, EXPANDED>>(&roots.modulus, &tables, &mut values, input.len()) {
            assert!(input.len() < 8 * L, "degree {} has room for {L} lanes", input.len());
            return;
        }
        assert_eq!(values, forward, "forward, degree {}, {L} lanes", input.len());
        values.copy_from_slice(input);
        assert!(ntt::inverse::<Portable<W, L, EXPANDED>>(&roots.modulus, &tables, &mut values));
        assert_eq!(values, inverse, "inverse, degree {}, {L} lanes", input.len());
    }
}

/// Transforms of all shapes of registers against the expected results.
pub(crate) fn check<W: Word>(roots: &Roots<W>, input: &[W], forward: &[W], inverse: &[W]) {
    check_shape::<W, 4, false>(roots, input, forward, inverse);
    check_shape::<W, 4, true>(roots, input, forward, inverse);
    check_shape::<W, 8, false>(roots, input, forward, inverse);
    check_shape::<W, 8, true>(roots, input, forward, inverse);
    check_shape::<W, 16, false>(roots, input, forward, inverse);
    check_shape::<W, 16, true>(roots, input, forward, inverse);
}
