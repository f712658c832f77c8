//! When there is no room left, the board stays as it was and goes on once there is.

#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use restante_board::{Board, BoardError, BoardWriter};

#[path = "reference/board.rs"]
mod reference;

use reference::{config, message};

/// Tells the child of `a_file_that_may_not_grow` where its board is.
const BOARD: &str = "RESTANTE_TEST_BOARD";

/// Fills the disk, then frees some of it, and checks what is on the board at every step. `is_full` tells the expected
/// errors from others.
fn fill(path: &Path, make_room: impl FnOnce(), is_full: impl Fn(&BoardError) -> bool) {
    let mut writer = BoardWriter::open(path).unwrap();
    let mut refused = 0;
    while refused < 3 {
        let before = writer.head();
        assert!(before.count < 1_000_000, "there is a limit");
        let posted = (before.count..before.count + 50).try_for_each(|index| {
            let (clue, payload) = message(index);
            writer.append(&clue, &payload).map(drop)
        });
        if let Err(error) = posted.and_then(|()| writer.commit().map(drop)) {
            assert!(is_full(&error), "{error}");
            refused += 1;
            assert_eq!((writer.head(), writer.staged()), (before, 0));
            let board = Board::open(path).unwrap();
            assert_eq!(board.head(), before);
            board.verify().unwrap();
        }
    }
    let count = writer.len();
    assert!(count >= 50);
    make_room();
    let (clue, payload) = message(count);
    assert_eq!(writer.append(&clue, &payload).unwrap(), count);
    assert_eq!(writer.commit().unwrap(), count + 1);
    let board = Board::open(path).unwrap();
    board.verify().unwrap();
    for index in 0..=count {
        assert_eq!(board.payload(index).unwrap(), message(index).1);
    }
}

/// A small file system in memory, gone when dropped. Mounting needs the rights of the system's administrator.
struct SmallDisk {
    mount_point: PathBuf,
    _scratch: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(size: &str) -> Result<Self, String> {
        let scratch = tempfile::tempdir().unwrap();
        let mount_point = scratch.path().join("disk");
        fs::create_dir(&mount_point).unwrap();
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", size, "tmpfs"])
            .arg(&mount_point)
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(Self { mount_point, _scratch: scratch })
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.mount_point).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.mount_point.display());
        }
    }
}

/// Where no file system can be mounted, `a_file_that_may_not_grow` and the writer's own tests with `/dev/full` cover the
/// same paths.
#[test]
fn a_full_file_system_leaves_the_board_as_before() {
    let disk = match SmallDisk::mount("size=400k") {
        Ok(disk) => disk,
        Err(reason) => return eprintln!("no file system can be mounted here: {reason}"),
    };
    for capacity in [8, 64, 4096] {
        let path = disk.mount_point.join("board");
        let ballast = disk.mount_point.join("ballast");
        fs::write(&ballast, vec![0; 100_000]).unwrap();
        Board::create(&path, &config(capacity)).unwrap();
        fill(
            &path,
            || fs::remove_file(&ballast).unwrap(),
            |error| matches!(error, BoardError::Io { reason, .. } if reason.kind() == std::io::ErrorKind::StorageFull),
        );
        fs::remove_dir_all(&path).unwrap();
    }
    // No room for even an empty board.
    let rest = disk.mount_point.join("rest");
    let _ = fs::write(&rest, vec![0; 1 << 20]);
    let path = disk.mount_point.join("board");
    assert!(matches!(Board::create(&path, &config(16)), Err(BoardError::Io { .. })));
    assert!(!path.exists(), "nothing half-made is left");
    fs::remove_file(&rest).unwrap();
    Board::create(&path, &config(16)).unwrap();
}

/// The child of `a_file_that_may_not_grow`. Not a test of its own.
#[test]
#[ignore = "run by a_file_that_may_not_grow as its child process"]
fn limited_process() {
    let Some(path) = env::var_os(BOARD) else { return };
    let path = PathBuf::from(path);
    // The limit holds for each file: once the last segment cannot grow there is no room to be made within this process, so
    // the writing ends with what was refused.
    let mut writer = BoardWriter::open(&path).unwrap();
    let mut refused = 0;
    while refused < 3 {
        let before = writer.head();
        let posted = (before.count..before.count + 50).try_for_each(|index| {
            let (clue, payload) = message(index);
            writer.append(&clue, &payload).map(drop)
        });
        if let Err(error) = posted.and_then(|()| writer.commit().map(drop)) {
            let BoardError::Io { action: "write", reason, .. } = &error else { panic!("{error}") };
            assert_eq!(reason.kind(), std::io::ErrorKind::FileTooLarge, "{error}");
            refused += 1;
            assert_eq!((writer.head(), writer.staged()), (before, 0));
        }
    }
    assert!(writer.len() >= 50);
}

/// The system refuses writes beyond a limit on file sizes, which anyone may set for the processes that they start.
#[test]
fn a_file_that_may_not_grow() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("board");
    Board::create(&path, &config(4096)).unwrap();
    let output = Command::new("sh")
        // Blocks of 512 bytes. The signal that comes with the refusal would end the process.
        .args(["-c", r#"trap "" XFSZ; ulimit -f 100; exec "$0" "$@""#])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "limited_process", "--ignored"])
        .env(BOARD, &path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");

    let mut writer = BoardWriter::open(&path).unwrap();
    let count = writer.len();
    assert!(count >= 50);
    let (clue, payload) = message(count);
    writer.append(&clue, &payload).unwrap();
    assert_eq!(writer.commit().unwrap(), count + 1);
    let board = Board::open(&path).unwrap();
    board.verify().unwrap();
    for index in 0..=count {
        assert_eq!(board.payload(index).unwrap(), message(index).1);
    }
}
