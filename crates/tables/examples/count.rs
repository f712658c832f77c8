//! A table becomes a window of sorted records, as a private search works on them.
//!
//!     cargo run --release -p restante-tables --example count

use std::{error::Error, io::Cursor};

use restante_pir::search::{ChunkSource, Cut, SelectorHash, WindowLimits};
use restante_tables::{CsvRows, Schema, WholeInput, WindowRule, Windows};

const SCHEMA: &str = "
[selector]
field = 'name'
[[return]]
field = 'place'
type = 'text'
";
const TABLE: &str = "name,place\nPip,Satis House\nJoe,the forge\nPip,Barnard's Inn\n";

fn main() -> Result<(), Box<dyn Error>> {
    let schema = Schema::parse(SCHEMA)?;
    let hash = SelectorHash::new(schema.selector_kind(), 8, [3; 32])?;
    let rows = CsvRows::new(&schema, "table.csv", Box::new(WholeInput(Cursor::new(TABLE))));
    let cuts = [Cut { hash, chunk_bytes: 64 }];
    let mut windows =
        Windows::new(Box::new(rows), &schema, &cuts, WindowLimits::default(), WindowRule::default())?;
    while let Some(filled) = windows.next_window()? {
        println!("{} records in {} buckets", filled.records, filled.windows[0].buckets().len());
        assert_eq!((filled.records, filled.windows[0].buckets().len()), (3, 2));
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
