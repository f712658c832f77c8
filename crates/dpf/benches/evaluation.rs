//! Tuning.
use chacha20::ChaCha20Rng;
use rand_core::SeedableRng;
use restante_dpf::*;
use std::time::Instant;
fn both(name: &str, b: Backend, blocks: u128, mut f: impl FnMut(), n: usize) {
    let mut r = vec![];
    let mut best = f64::MAX;
    let mut bl = f64::MAX;
    for _ in 0..n {
        let l = limits::aes(b, blocks as u64).as_secs_f64();
        let t = Instant::now();
        f();
        let t = t.elapsed().as_secs_f64();
        best = best.min(t);
        bl = bl.min(l);
        r.push(t / l);
    }
    r.sort_by(f64::total_cmp);
    println!(
        "  {name} {:.1} us, aes {:.1} us, ratio of best {:.2}, median ratio {:.2}, p20 {:.2}",
        best * 1e6,
        bl * 1e6,
        best / bl,
        r[n / 2],
        r[n / 5]
    );
}
fn main() {
    let mut rng = ChaCha20Rng::from_seed([1; 32]);
    for &backend in &Backend::available()[..2] {
        println!("{backend:?}");
        for variant in [Variant::Plain, Variant::HalfTree] {
            println!(" {variant:?}");
            let p = Parameters::new(1 << 22, Bits, variant).unwrap();
            let [k, _] = generate(&p, 5, &true, &mut rng).unwrap();
            let e = Evaluator::new(&k, backend);
            let mut bits = vec![0u8; 1 << 19];
            both("bits", backend, p.aes_blocks(0..1 << 22), || e.all(&mut bits).unwrap(), 2000);
            let mut s = 0;
            both(
                "bits blocks",
                backend,
                p.aes_blocks(0..1 << 22),
                || e.blocks(0..1 << 22, |_, b| s ^= b[0]).unwrap(),
                2000,
            );
            let p = Parameters::new(2187, Bytes(80), variant).unwrap();
            let [k, _] = generate(&p, 5, &[1; 80], &mut rng).unwrap();
            let e = Evaluator::new(&k, backend);
            both(
                "80 bytes",
                backend,
                p.aes_blocks(0..2187),
                || e.blocks(0..2187, |_, b| s ^= b[0]).unwrap(),
                2000,
            );
            let p = Parameters::new(270, Bytes(4096), variant).unwrap();
            let [k, _] = generate(&p, 5, &[1; 4096], &mut rng).unwrap();
            let e = Evaluator::new(&k, backend);
            both(
                "4096 bytes",
                backend,
                p.aes_blocks(0..270),
                || e.blocks(0..270, |_, b| s ^= b[0]).unwrap(),
                2000,
            );
            let p = Parameters::new(531441, Bytes(0), variant).unwrap();
            let [k, _] = generate(&p, 5, &[], &mut rng).unwrap();
            let e = Evaluator::new(&k, backend);
            both("tree", backend, p.aes_blocks(0..531441), || e.tree(), 50);
            let n = 4782969;
            let p = Parameters::new(n, Bytes(32), variant).unwrap();
            let [k, _] = generate(&p, 5, &[1; 32], &mut rng).unwrap();
            let e = Evaluator::new(&k, backend);
            both(
                "32 bytes blocks",
                backend,
                p.aes_blocks(0..n),
                || e.blocks(0..n, |_, b| s ^= b[0]).unwrap(),
                50,
            );
            let mut out = vec![0; n as usize * 32];
            both("32 bytes all", backend, p.aes_blocks(0..n), || e.all(&mut out).unwrap(), 50);
            let mut r = vec![];
            for _ in 0..30 {
                let l = limits::store(backend, &mut out).as_secs_f64();
                let t = Instant::now();
                e.all(&mut out).unwrap();
                r.push(t.elapsed().as_secs_f64() / l);
            }
            r.sort_by(f64::total_cmp);
            println!("  against store: median {:.2}, p20 {:.2}", r[15], r[6]);
        }
    }
}
