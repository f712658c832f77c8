//! One decoder, which the environment variable `RESTANTE_DECODER` names, under libFuzzer. See `fuzz/run`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use restante_fuzz::{Decoder, decoder, resealed};

static DECODER: LazyLock<Decoder> = LazyLock::new(|| {
    let name = std::env::var("RESTANTE_DECODER").unwrap_or_default();
    if name.starts_with("Parquet") {
        // Panics of the library below are errors there. One that gets out of the decoder still ends the run.
        std::panic::set_hook(Box::new(|_| ()));
    }
    decoder(&name).unwrap_or_else(|| {
        eprintln!("RESTANTE_DECODER is {name:?}, expected one of {:?}", names());
        std::process::exit(2)
    })
});

fn names() -> Vec<&'static str> {
    restante_fuzz::DECODERS.iter().map(|(name, _)| *name).collect()
}

fuzz_target!(|bytes: &[u8]| {
    DECODER(bytes);
    if let Some(sealed) = resealed(bytes) {
        DECODER(&sealed);
    }
});
