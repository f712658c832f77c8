use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_dpf::*;
use std::time::Instant;
fn best(mut f: impl FnMut(), n: usize) -> f64 {
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
    let n = 3u64.pow(14);
    let mut out = vec![0u8; n as usize * 32];
    for backend in Backend::available() {
        let aes = limits::aes_blocks_per_second(*backend);
        let st = limits::store_bytes_per_second(*backend, &mut out);
        println!("{backend:?} aes {:.0} M/s store {:.2} GB/s", aes / 1e6, st / 1e9);
        for variant in [Variant::Plain, Variant::HalfTree] {
            let p = Parameters::new(n, Bytes(32), variant).unwrap();
            let [k, _] = generate(&p, 5, &[1; 32], &mut rng).unwrap();
            let e = Evaluator::new(&k, *backend);
            let t = best(|| e.all(&mut out).unwrap(), 5);
            let la = p.aes_blocks(0..n) as f64 / aes;
            let ls = out.len() as f64 / st;
            println!(
                "  {variant:?} full {:.2} ms; aes {:.2} store {:.2} ratio {:.2}",
                t * 1e3,
                la * 1e3,
                ls * 1e3,
                t / la.max(ls)
            );
            let mut s = 0u64;
            let t = best(|| e.blocks(0..n, |_, b| s ^= b[0] as u64).unwrap(), 5);
            println!("  {variant:?} blocks {:.2} ms {s}", t * 1e3);
            let p = Parameters::new(1 << 22, Bits, variant).unwrap();
            let [k, _] = generate(&p, 5, &true, &mut rng).unwrap();
            let e = Evaluator::new(&k, *backend);
            let mut bits = vec![0u8; 1 << 19];
            let t = best(|| e.all(&mut bits).unwrap(), 50);
            println!(
                "  {variant:?} bits 2^22 {:.1} us, aes {:.1}",
                t * 1e6,
                p.aes_blocks(0..1 << 22) as f64 / aes * 1e6
            );
            let p = Parameters::new(n, Integers, variant).unwrap();
            let [k, _] = generate(&p, 5, &3, &mut rng).unwrap();
            let e = Evaluator::new(&k, *backend);
            let mut ints = vec![0u64; n as usize];
            let t = best(|| e.all(&mut ints).unwrap(), 5);
            println!(
                "  {variant:?} integers {:.2} ms, aes {:.2}",
                t * 1e3,
                p.aes_blocks(0..n) as f64 / aes * 1e3
            );
            let mut one = [0];
            let t = best(
                || {
                    for x in 0..1000 {
                        e.point(x * 997, &mut one).unwrap()
                    }
                },
                5,
            );
            println!("  {variant:?} point {:.2} us", t * 1e3);
        }
    }
    for variant in [Variant::Plain, Variant::HalfTree] {
        let p = Parameters::new(n, Bytes(32), variant).unwrap();
        let t = best(
            || {
                for x in 0..1000 {
                    std::hint::black_box(generate(&p, x, &[1; 32], &mut rng).unwrap());
                }
            },
            5,
        );
        println!("gen {variant:?} {:.2} us  key {}", t * 1e3, p.key_bytes());
    }
}
