//! How fast a board takes messages and gives them back, as one JSON line.
//!
//! ```text
//! cargo run --release -p restante-board --example throughput -- DIRECTORY [MESSAGES [BATCH]]
//! ```
//!
//! Makes a board in the directory, which must be new or empty, of messages with 2,569 bytes of clue and 1,536 of payload.

use std::error::Error;
use std::time::Instant;

use restante_board::{Board, BoardConfig, BoardId, BoardWriter};
use restante_wire::ParameterId;

const CLUE_BYTES: u32 = 2569;
const PAYLOAD_BYTES: usize = 1536;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: throughput DIRECTORY [MESSAGES [BATCH]]")?;
    let messages: u64 = arguments.next().map_or(Ok(65_536), |text| text.parse())?;
    let batch: u64 = arguments.next().map_or(Ok(4_096), |text| text.parse())?;

    Board::create(&path, &BoardConfig::new(BoardId([1; 16]), ParameterId::of("throughput"), CLUE_BYTES))?;
    let mut writer = BoardWriter::open(&path)?;
    let (mut clue, payload) = (vec![7; CLUE_BYTES as usize], vec![9; PAYLOAD_BYTES]);
    let start = Instant::now();
    for index in 0..messages {
        clue[4..12].copy_from_slice(&index.to_le_bytes());
        writer.append(&clue, &payload)?;
        if (index + 1) % batch == 0 {
            writer.commit()?;
        }
    }
    writer.commit()?;
    let append_seconds = start.elapsed().as_secs_f64();
    drop(writer);

    let start = Instant::now();
    let board = Board::open(&path)?;
    let open_seconds = start.elapsed().as_secs_f64();

    let sum = |bytes: &[u8]| bytes.chunks_exact(8).fold(0u8, |sum, chunk| sum ^ chunk[0]);
    let clues = board.clues(0..messages)?;
    let start = Instant::now();
    let mut checksum = clues.iter().map(sum).fold(0, |sum, clue| sum ^ clue);
    let scan_seconds = start.elapsed().as_secs_f64();

    let start = Instant::now();
    for index in 0..messages {
        checksum ^= sum(board.payload(index)?);
    }
    let payload_seconds = start.elapsed().as_secs_f64();

    let start = Instant::now();
    board.verify()?;
    let verify_seconds = start.elapsed().as_secs_f64();

    let bytes = board.stats().bytes;
    println!(
        "{{\"bench\":\"board\",\"messages\":{messages},\"batch\":{batch},\"bytes\":{bytes},\
         \"append_seconds\":{append_seconds:.4},\"append_bytes_per_second\":{:.0},\"open_seconds\":{open_seconds:.4},\
         \"clue_scan_seconds\":{scan_seconds:.4},\"payload_us\":{:.3},\"verify_seconds\":{verify_seconds:.4},\
         \"checksum\":{checksum}}}",
        bytes as f64 / append_seconds,
        payload_seconds * 1e6 / messages.max(1) as f64,
    );
    Ok(())
}
