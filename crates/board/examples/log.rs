//! A board from its first message on: posting, a reader beside the writer, a copy refused, old segments forgotten.
//!
//!     cargo run --release -p restante-board --example log

use std::error::Error;

use restante_board::{Board, BoardConfig, BoardError, BoardId, BoardWriter, Period};
use restante_wire::ParameterId;

/// A period of four bytes, four more that are bound to the message, and a tail of five.
fn clue(period: Period, number: u32) -> Vec<u8> {
    [&period.0.to_le_bytes()[..], &number.to_le_bytes(), b"tail!"].concat()
}

fn main() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let path = scratch.path().join("board");
    // A real program draws the id at random. Segments are short here, so that some are full.
    let config = BoardConfig {
        segment_capacity: 4,
        ..BoardConfig::new(BoardId([1; 16]), ParameterId::of("example"), 13)
    };
    let mut reader = Board::create(&path, &config)?;
    let mut writer = BoardWriter::open(&path)?;

    let today = Period::of(1_800_000_000);
    for number in 0..10 {
        writer.append(&clue(today, number), format!("letter {number}").as_bytes())?;
    }
    // Messages count when `commit` returns; until then no reader sees them.
    assert_eq!(reader.refresh()?, 0);
    writer.commit()?;
    assert_eq!(reader.refresh()?, 10);
    println!("{} messages, root {}", reader.len(), reader.head().root);

    // A detector reads all clues of a range in order; a recipient reads single payloads, each checked against its hash.
    let clues = reader.clues(0..reader.len())?;
    assert_eq!(clues.get(3), Some(&clue(today, 3)[..]));
    assert_eq!(reader.payload(3)?, b"letter 3");

    // A copy of a message is refused, whatever its tail and its payload are.
    match writer.append(&clue(today, 3), b"another letter") {
        Err(BoardError::Duplicate { first }) => println!("the same clue is on the board already, at {first}"),
        other => return Err(format!("expected a refusal, found {other:?}").into()),
    }

    // Whole segments are forgotten. The root stays what it was.
    let root = reader.head().root;
    assert_eq!(writer.forget(5)?, 4);
    reader.refresh()?;
    assert_eq!((reader.retained_from(), reader.head().root), (4, root));
    assert!(reader.payload(3).is_err() && reader.payload(4).is_ok());
    reader.verify()?;
    println!("messages from {} on are left", reader.retained_from());
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
