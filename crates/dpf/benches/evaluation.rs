//! Tuning.
use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_dpf::*;
use std::time::Instant;
fn wall(mut f: impl FnMut(), n: usize) -> f64 {
    let mut b = f64::MAX;
    for _ in 0..n {
        let t = Instant::now();
        f();
        b = b.min(t.elapsed().as_secs_f64());
    }
    b
}
fn main() {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    for backend in Backend::available() {
        let aes = limits::aes_blocks_per_second(*backend);
        println!("{backend:?} aes {:.0} M/s", aes / 1e6);
        for variant in [Variant::Plain, Variant::HalfTree] {
            let p = Parameters::new(1 << 22, Bits, variant).unwrap();
            let [k, _] = generate(&p, 5, &true, &mut rng).unwrap();
            let e = Evaluator::new(&k, *backend);
            let mut bits = vec![0u8; 1 << 19];
            let t = wall(|| e.all(&mut bits).unwrap(), 2000);
            println!(
                "  {variant:?} bits 2^22 {:.1} us, aes {:.1}",
                t * 1e6,
                p.aes_blocks(0..1 << 22) as f64 / aes * 1e6
            );
            let mut s = 0;
            let t = wall(|| e.blocks(0..1 << 22, |_, b| s ^= b[0]).unwrap(), 2000);
            println!("  {variant:?} bits blocks 2^22 {:.1} us", t * 1e6);
            let p = Parameters::new(2187, Bytes(80), variant).unwrap();
            let [k, _] = generate(&p, 5, &[1; 80], &mut rng).unwrap();
            let e = Evaluator::new(&k, *backend);
            let t = wall(|| e.blocks(0..2187, |_, b| s ^= b[0]).unwrap(), 2000);
            println!(
                "  {variant:?} 80 bytes {:.1} us, aes {:.1}",
                t * 1e6,
                p.aes_blocks(0..2187) as f64 / aes * 1e6
            );
            let p = Parameters::new(27, Bytes(4096), variant).unwrap();
            let [k, _] = generate(&p, 5, &[1; 4096], &mut rng).unwrap();
            let e = Evaluator::new(&k, *backend);
            let t = wall(|| e.blocks(0..27, |_, b| s ^= b[0]).unwrap(), 2000);
            println!(
                "  {variant:?} 4096 bytes {:.1} us, aes {:.1} {s}",
                t * 1e6,
                p.aes_blocks(0..27) as f64 / aes * 1e6
            );
            let p = Parameters::new(2187 * 27, Bytes(65), variant).unwrap();
            let [k, _] = generate(&p, 5, &[1; 65], &mut rng).unwrap();
            let e = Evaluator::new(&k, *backend);
            let t = wall(|| e.blocks(0..2187 * 27, |_, b| s ^= b[0]).unwrap(), 100);
            println!(
                "  {variant:?} 65 bytes {:.1} us, aes {:.1} {s}",
                t * 1e6,
                p.aes_blocks(0..2187 * 27) as f64 / aes * 1e6
            );
        }
    }
}
