//! Writes what the exploration of every decoder starts from: `fuzz-seeds FOLDER`. Prints the decoders' names for a script, with the
//! length of inputs that each needs.

#![forbid(unsafe_code)]

use std::path::Path;

use restante_fuzz::{DECODERS, input_bytes, seeds::valid_files};

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "corpus".into());
    let files = valid_files();
    for (name, _) in DECODERS {
        let (slug, limit) = (name.replace(' ', "-"), input_bytes(name));
        let folder = Path::new(&folder).join(&slug);
        std::fs::create_dir_all(&folder)?;
        for file in files.iter().filter(|file| file.len() <= limit) {
            let hash = blake3::hash(file).to_hex();
            std::fs::write(folder.join(&hash[..16]), file)?;
        }
        println!("{slug} {limit}");
    }
    Ok(())
}
