//! Answers that never change, kept in a folder from one run to the next.
//!
//! Their contents are public, and what a machine makes of them is checked against what names them, so that whoever can write to the
//! folder can do no more harm than to have them asked for again.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{
    error::CliError,
    files::{self, Existing},
};

/// A folder of answers, each with the BLAKE3 hash of its body in front, under the hash of the path that it was asked for with.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    limits: Limits,
}

/// The most that stays in the folder: the newest answers.
#[derive(Debug, Clone, Copy)]
struct Limits {
    files: usize,
    bytes: u64,
}

/// Header and hashes of this epoch and of the one before.
const LIMITS: Limits = Limits { files: 4, bytes: 160 << 20 };

const HASH_BYTES: usize = blake3::OUT_LEN;
const EXTENSION: &str = "answer";

impl Cache {
    /// A folder, which is made when there is something to keep.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, limits: LIMITS }
    }

    /// The body of the answer to a path, if it is there, whole, and no longer than allowed. What is damaged is removed.
    pub fn get(&self, path: &str, bytes_max: u64) -> Option<Vec<u8>> {
        let file = self.file(path);
        let most = bytes_max.saturating_add(HASH_BYTES as u64);
        // What is no file may never end, or never begin.
        let found = fs::symlink_metadata(&file).ok()?;
        let body = (found.is_file() && found.len() <= most)
            .then(|| read_at_most(&file, most).ok())
            .flatten()
            .and_then(|bytes| {
                let (hash, body) = bytes.split_first_chunk::<HASH_BYTES>()?;
                (blake3::hash(body).as_bytes() == hash).then(|| body.to_vec())
            });
        if body.is_none() {
            self.forget(path);
        }
        body
    }

    /// Keeps the body of an answer, and removes the oldest ones for it.
    pub fn put(&self, path: &str, body: &[u8]) -> Result<(), CliError> {
        if body.len() as u64 > self.limits.bytes {
            return Ok(());
        }
        fs::create_dir_all(&self.folder).map_err(CliError::system("make", &self.folder))?;
        self.shrink(body.len() as u64)?;
        let file = [blake3::hash(body).as_bytes(), body].concat();
        files::write(&self.file(path), &file, Existing::Replace)
    }

    /// Removes all answers.
    pub fn clear(&self) -> Result<(), CliError> {
        if !self.folder.try_exists().map_err(CliError::system("inspect", &self.folder))? {
            return Ok(());
        }
        self.answers()?.into_iter().try_for_each(|(_, _, path)| remove(&path))
    }

    /// Removes the answer to a path.
    fn forget(&self, path: &str) {
        // That it is not there is as good.
        let _ = fs::remove_file(self.file(path));
    }

    fn file(&self, path: &str) -> PathBuf {
        let name = blake3::derive_key("restante/1/kept answer", path.as_bytes());
        let digits: String = name[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(digits).with_extension(EXTENSION)
    }

    /// Makes room for one more.
    fn shrink(&self, bytes: u64) -> Result<(), CliError> {
        let kept = self.answers()?;
        let mut total: u64 = kept.iter().map(|(_, length, _)| length).sum();
        let mut files = kept.len();
        for (_, length, path) in kept {
            if files < self.limits.files && total.saturating_add(bytes) <= self.limits.bytes {
                break;
            }
            remove(&path)?;
            (files, total) = (files - 1, total - length);
        }
        Ok(())
    }

    /// When each answer was written, its bytes, and its file; the oldest first.
    fn answers(&self) -> Result<Vec<(SystemTime, u64, PathBuf)>, CliError> {
        let failed = || CliError::system("list", &self.folder);
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            if is_answer(&path)
                && let Ok(data) = fs::metadata(&path)
            {
                kept.push((data.modified().unwrap_or(SystemTime::UNIX_EPOCH), data.len(), path));
            }
        }
        kept.sort();
        Ok(kept)
    }
}

/// A file's contents, or so much of them.
fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes a file that another process may have removed already.
fn remove(path: &Path) -> Result<(), CliError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(CliError::system("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Whether a file is one of ours: somebody may have named a folder that has others.
fn is_answer(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn cache(files: usize, bytes: u64) -> (tempfile::TempDir, Cache) {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("kept");
        (scratch, Cache { folder, limits: Limits { files, bytes } })
    }

    fn names(cache: &Cache) -> usize {
        fs::read_dir(&cache.folder).unwrap().count()
    }

    #[test]
    fn what_was_kept_comes_back_and_nothing_else() {
        let (_scratch, cache) = cache(4, 1000);
        assert_eq!(cache.get("/a", 9), None);
        cache.put("/a", b"header").unwrap();
        cache.put("/b", b"").unwrap();
        assert_eq!(cache.get("/a", 6).unwrap(), b"header");
        assert_eq!(cache.get("/b", 6).unwrap(), b"");
        assert_eq!(cache.get("/c", 6), None);
        cache.put("/a", b"another").unwrap();
        assert_eq!(cache.get("/a", 100).unwrap(), b"another");
        assert_eq!(cache.get("/a", 6), None, "longer than allowed");
        assert_eq!(cache.get("/a", 100), None, "and removed");
        cache.forget("/b");
        assert_eq!(names(&cache), 0);
    }

    #[test]
    fn damaged_files_are_removed() {
        let (_scratch, cache) = cache(4, 1000);
        cache.put("/b", b"header").unwrap();
        // Something that gives bytes for ever.
        #[cfg(unix)]
        {
            fs::remove_file(cache.file("/b")).unwrap();
            std::os::unix::fs::symlink("/dev/zero", cache.file("/b")).unwrap();
            assert_eq!(cache.get("/b", 100), None);
            assert!(fs::symlink_metadata(cache.file("/b")).is_err());
        }
        for damage in 0..4 {
            cache.put("/a", b"header").unwrap();
            let file = cache.file("/a");
            let mut bytes = fs::read(&file).unwrap();
            match damage {
                0 => bytes[0] ^= 1,
                1 => *bytes.last_mut().unwrap() ^= 1,
                2 => bytes.truncate(31),
                _ => bytes.push(0),
            }
            fs::write(&file, bytes).unwrap();
            assert_eq!(cache.get("/a", 100), None, "{damage}");
            assert!(!file.exists(), "{damage}");
        }
    }

    #[test]
    fn the_oldest_are_removed_for_new_ones() {
        let (_scratch, cache) = cache(3, 300);
        let age = |path: &str, seconds: u64| {
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            fs::File::options().append(true).open(cache.file(path)).unwrap().set_modified(time).unwrap();
        };
        fs::create_dir_all(&cache.folder).unwrap();
        fs::write(cache.folder.join("notes.txt"), "not ours").unwrap();
        for (number, path) in ["/a", "/b", "/c"].into_iter().enumerate() {
            cache.put(path, &[1; 20]).unwrap();
            age(path, 1000 + number as u64);
        }
        cache.put("/d", &[1; 20]).unwrap();
        assert_eq!((cache.get("/a", 99), cache.get("/b", 99).is_some()), (None, true));
        age("/d", 2000);
        // Three files of 52 bytes are there: one with 250 needs the room of all but none.
        cache.put("/e", &[2; 250]).unwrap();
        assert!(cache.get("/e", 999).is_some());
        assert!(["/b", "/c", "/d"].into_iter().all(|path| cache.get(path, 99).is_none()));
        // What has no room at all is not kept, and nothing is removed for it.
        cache.put("/f", &[2; 301]).unwrap();
        assert!(cache.get("/e", 999).is_some() && cache.get("/f", 999).is_none());
        cache.clear().unwrap();
        Cache::new(cache.folder.join("not there")).clear().unwrap();
        assert!(cache.get("/e", 999).is_none() && cache.folder.join("notes.txt").exists());
    }
}
