//! Readers of named files. The bytes go into a file in memory first, or into a folder of files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use restante_board::Board;
use restante_server::Config;
use restante_tables::{Next, ParquetRows, Rows, TableError};
use tempfile::TempDir;

use crate::{LAYOUT, SCHEMA, resealed};

/// A folder for the files of this process: in memory where the system has such a place, since some decoders open a file a million
/// times.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.unwrap_or_else(|error| unreachable!("there is room for a folder: {error}"))
});

/// The files of a board with one full segment and one that is not, in the order of a fuzz input.
const BOARD: [&str; 9] = [
    "manifest",
    "head",
    "segments/0000000000.clues",
    "segments/0000000000.payloads",
    "segments/0000000000.index",
    "segments/0000000000.seal",
    "segments/0000000001.clues",
    "segments/0000000001.payloads",
    "segments/0000000001.index",
];

fn path(name: &str) -> PathBuf {
    FOLDER.path().join(name)
}

fn write(path: &Path, bytes: &[u8]) {
    if let Err(error) = fs::write(path, bytes) {
        unreachable!("there is room for {} bytes: {error}", bytes.len());
    }
}

/// A Parquet file, read to its end.
pub(crate) fn parquet(bytes: &[u8]) {
    let path = path("table.parquet");
    write(&path, bytes);
    let Ok(mut rows) = ParquetRows::open(&SCHEMA, &path) else { return };
    loop {
        match rows.next(None) {
            Ok(Next::Row(row)) => {
                let encoded = LAYOUT.encode(&row.values, &mut Vec::new());
                assert!(encoded.is_ok(), "a row that was read cannot be encoded");
            }
            Ok(Next::Pause) | Err(TableError::Row { .. }) => {}
            Ok(Next::End) | Err(_) => return,
        }
    }
}

/// The file of messages that wait to be shown, as it is and with its hashes made right.
pub(crate) fn mail(bytes: &[u8]) {
    let path = path("state.mail");
    write(&path, bytes);
    restante::fuzzing::mail(&path);
    let mut mended = bytes.to_vec();
    restante::fuzzing::mend_mail(&mut mended);
    write(&path, &mended);
    restante::fuzzing::mail(&path);
}

/// A valid file of such messages, without the zeros that it is filled up with.
pub(crate) fn valid_mail() -> Vec<u8> {
    let path = path("valid.mail");
    let _ = fs::remove_file(&path);
    let mut bytes = restante::fuzzing::valid_mail(&path)
        .unwrap_or_else(|error| unreachable!("there is room for a file: {error}"));
    bytes.truncate(256);
    bytes
}

/// A relay's configuration: a TOML file up to the first zero byte, then `NAME=VALUE`, each up to the next one.
pub(crate) fn configuration(bytes: &[u8]) {
    let mut parts = bytes.split(|&byte| byte == 0);
    let path = path("relay.toml");
    write(&path, parts.next().unwrap_or_default());
    let environment = parts.filter_map(|part| {
        let (name, value) = std::str::from_utf8(part).ok()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let _ = Config::load(Some(&path), environment);
}

/// The files of a board, each after its length (4 bytes): opened, read, verified.
pub(crate) fn board(bytes: &[u8]) {
    let root = path("board");
    if fs::create_dir_all(root.join("segments")).is_err() {
        unreachable!("there is room for a folder");
    }
    let mut rest = bytes;
    for name in BOARD {
        let path = root.join(name);
        let Some((length, behind)) = rest.split_first_chunk::<4>() else {
            let _ = fs::remove_file(&path);
            continue;
        };
        let (file, behind) = behind.split_at((u32::from_le_bytes(*length) as usize).min(behind.len()));
        rest = behind;
        // An even length: as it is. Changes to what has a checksum get past it otherwise.
        match resealed(file).filter(|_| length[3] & 1 == 1 || bytes.len() % 2 == 1) {
            Some(sealed) => write(&path, &sealed),
            None => write(&path, file),
        }
    }
    let Ok(mut board) = Board::open(&root) else { return };
    for index in 0..board.len().min(64) {
        let _ = board.message(index).map(|message| message.payload.len());
    }
    let _ = (board.verify(), board.refresh());
}

/// Board files as [`board`] takes them, from a board.
pub(crate) fn pack_board(root: &Path) -> Vec<u8> {
    let mut packed = Vec::new();
    for name in BOARD {
        let file = fs::read(root.join(name)).unwrap_or_default();
        packed.extend_from_slice(&(file.len() as u32).to_le_bytes());
        packed.extend_from_slice(&file);
    }
    packed
}
