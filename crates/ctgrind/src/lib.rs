#![doc = include_str!("../README.md")]

use std::mem::size_of_val;

const RUNNING_ON_VALGRIND: usize = 0x1001;
const COUNT_ERRORS: usize = 0x1201;
/// The letters that memcheck's requests begin with.
const MEMCHECK: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16;
const MAKE_MEM_UNDEFINED: usize = MEMCHECK + 1;
const MAKE_MEM_DEFINED: usize = MEMCHECK + 2;

/// Marks a value as secret.
pub fn classify<T: ?Sized>(secret: &mut T) {
    request(MAKE_MEM_UNDEFINED, (&raw const *secret).cast::<u8>() as usize, size_of_val(secret));
}

/// Marks a value as public from here on. Each call says in a comment why it may be known.
pub fn declassify<T: ?Sized>(public: &T) {
    request(MAKE_MEM_DEFINED, (&raw const *public).cast::<u8>() as usize, size_of_val(public));
}

/// A bit that is public from here on.
#[inline(never)]
pub fn declassified(bit: bool) -> bool {
    let bit = std::hint::black_box(bit);
    declassify(&bit);
    std::hint::black_box(bit)
}

/// Whether Valgrind runs the program.
pub fn is_running() -> bool {
    request(RUNNING_ON_VALGRIND, 0, 0) != 0
}

/// The number of branches and addresses found so far that depend on secrets.
pub fn errors() -> usize {
    request(COUNT_ERRORS, 0, 0)
}

#[cfg(target_arch = "x86_64")]
fn request(code: usize, first: usize, second: usize) -> usize {
    let arguments = [code, first, second, 0, 0, 0];
    let mut result = 0usize;
    // SAFETY: rotations by 3, 13, 61 and 51 bits leave rdi as it was, and the exchange of a register with itself does nothing.
    // Valgrind recognises the sequence, reads the six words that rax points to, and puts its answer into rdx.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") result,
            options(nostack)
        );
    }
    result
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_: usize, _: usize, _: usize) -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_do_nothing_without_valgrind() {
        let mut value = [7u8; 3];
        classify(&mut value);
        declassify(&value);
        assert_eq!(value, [7; 3]);
        assert!(declassified(true) && !declassified(false));
        assert!(is_running() || errors() == 0);
    }
}
