//! A copy of a running relay, as of one moment.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{create_private_folders, sync_directory, write_whole};
use crate::{Relay, ServerError};

impl Relay {
    /// Copies everything but results, standing digests and pertinency vectors, which are made again, into a new directory in the one that the
    /// configuration names, and returns its path. The copy is a data directory.
    ///
    /// The board comes first and the registry second, so that no message is without its id; ids of later messages are
    /// forgotten when the copy is opened.
    ///
    /// # Errors
    ///
    /// [`ServerError`]; what is there of the copy then has a name that ends in `.tmp`.
    pub fn back_up(&self) -> Result<PathBuf, ServerError> {
        let Some(folder) = &self.config.backup else {
            return Err(ServerError::Config("backup is not set, expected a directory".into()));
        };
        let board = self.view.board();
        let name = format!("{}-{}", self.clock.now(), board.len());
        let (draft, target) = (folder.join(format!("{name}.tmp")), folder.join(&name));
        create_private_folders(folder)?;
        create_private_folders(&draft)?;
        board.copy_to(draft.join("board"))?;
        self.registry.copy_to(&draft.join("registry.redb"))?;
        let keys = draft.join("keys");
        create_private_folders(&keys)?;
        for one in self.keys.all().into_iter().filter(|one| one.ready) {
            let path = self.data.key(&one.hash);
            match fs::copy(&path, keys.join(one.hash.to_string())) {
                // Deleted meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                outcome => drop(outcome.map_err(ServerError::io("copy", &path))?),
            }
        }
        sync_files(&keys)?;
        let identity =
            fs::read(self.data.identity()).map_err(ServerError::io("read", self.data.identity()))?;
        write_whole(&draft.join("identity"), &zeroize::Zeroizing::new(identity))?;
        fs::copy(self.data.root().join("format"), draft.join("format"))
            .map_err(ServerError::io("copy", &draft))?;
        sync_files(&draft)?;
        fs::rename(&draft, &target).map_err(ServerError::io("name", &target))?;
        sync_directory(folder)?;
        Ok(target)
    }
}

fn sync_files(folder: &Path) -> Result<(), ServerError> {
    for entry in fs::read_dir(folder).map_err(ServerError::io("list", folder))? {
        let path = entry.map_err(ServerError::io("list", folder))?.path();
        fs::File::open(&path).and_then(|file| file.sync_all()).map_err(ServerError::io("sync", &path))?;
    }
    sync_directory(folder)
}
