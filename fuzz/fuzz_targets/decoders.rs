//! `cargo +nightly fuzz run --features libfuzzer decoders`: the first byte chooses the decoder.

#![no_main]

use libfuzzer_sys::fuzz_target;
use restante_fuzz::DECODERS;

fuzz_target!(|input: &[u8]| {
    if let Some((&choice, bytes)) = input.split_first() {
        let (_, decode) = DECODERS[usize::from(choice) % DECODERS.len()];
        decode(bytes);
    }
});
