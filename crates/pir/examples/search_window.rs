//! How fast records become the chunks of a private search.
//!
//!     cargo run --release -p restante-pir --example search_window -- [records] [bytes] [hash bits] [MiB in memory]

use std::error::Error;
use std::time::Instant;

use restante_pir::search::{ChunkSource, Cut, SelectorHash, SelectorKind, WindowBuilder, WindowLimits};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let mut next = |default| arguments.next().unwrap_or(Ok(default));
    let (records, bytes, bits, memory_mib) = (next(1 << 20)?, next(100)?, next(12)?, next(1024)?);
    let hash = SelectorHash::new(SelectorKind::Bytes, bits as u32, [1; 32])?;
    let limits = WindowLimits { memory_bytes: memory_mib << 20, ..WindowLimits::default() };
    let mut builder = WindowBuilder::new(&[Cut { hash, chunk_bytes: 32 << 10 }], limits)?;
    let mut record = vec![7; bytes];

    let start = Instant::now();
    for number in 0..records as u64 {
        let name = number.to_le_bytes();
        record.iter_mut().zip(name).for_each(|(byte, name)| *byte = name);
        builder.push(&name, &record)?;
    }
    report("pushed", records, bytes, start);
    let start = Instant::now();
    let window = &builder.seal()?[0];
    report("sorted", records, bytes, start);
    let start = Instant::now();
    let mut chunk = vec![0; window.chunk_bytes()];
    let mut filled = 0;
    for column in 0..window.columns() {
        for place in 0..window.buckets().len() {
            filled += window.read_chunk(place, column, &mut chunk)?;
        }
    }
    report("read", records, bytes, start);
    println!("{} columns, {} chunks, {filled} bytes in them", window.columns(), window.chunks());
    Ok(())
}

fn report(what: &str, records: usize, bytes: usize, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    let (ns, mib) = (1e9 * seconds / records as f64, (records * bytes) as f64 / seconds / f64::from(1 << 20));
    println!("{what}: {ns:.0} ns a record, {mib:.0} MiB/s");
}
