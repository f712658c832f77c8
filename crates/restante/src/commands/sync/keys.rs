//! An account's detection keys for `restante sync`.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    ops::Range,
    path::PathBuf,
};

use restante_client::{
    Account, AnyDetection, CompactDetection, Detection, KeyFile,
    relay::{Delivery, SyncState},
};
use restante_omr::compact::CompactDetectionKey;
use restante_wire::relay::DigestKind;

use crate::{arguments::SyncArguments, error::CliError, files, session::Session};

/// The keys that detect digests, and open them.
pub enum Keys {
    None,
    Stream(Box<Detection>),
    /// With the file of the detection key.
    Compact(Box<CompactDetection>, PathBuf),
}

impl Keys {
    /// Those of an account for a delivery, with the rotations that a state knows.
    pub fn new(
        session: &Session,
        arguments: &SyncArguments,
        (account, state): (&Account, &SyncState),
        delivery: Delivery,
    ) -> Result<Self, CliError> {
        Ok(match delivery {
            Delivery::Private(_) => {
                let rotation = state.rotation(DigestKind::Stream);
                Self::Stream(Box::new(Detection::rotated(account, rotation, session.backend)?))
            }
            Delivery::Compact(_) => {
                let context = session.compact_context(*account.parameters(), false)?;
                let file = match &arguments.compact.compact_key {
                    Some(path) => path.clone(),
                    None => arguments.account.with_extension("compact"),
                };
                let rotation = state.rotation(DigestKind::Compact);
                Self::Compact(Box::new(CompactDetection::rotated(account, rotation, &context)?), file)
            }
            _ => Self::None,
        })
    }

    pub fn kind(&self) -> Option<DigestKind> {
        match self {
            Self::None => None,
            Self::Stream(_) => Some(DigestKind::Stream),
            Self::Compact(..) => Some(DigestKind::Compact),
        }
    }

    pub fn detection(&self) -> AnyDetection<'_> {
        match self {
            Self::None => AnyDetection::None,
            Self::Stream(detection) => AnyDetection::Stream(detection),
            Self::Compact(detection, _) => AnyDetection::Compact(detection),
        }
    }

    /// The file to upload. The file of a compact key is checked first: it is large, and a relay could not tell that it is another
    /// account's.
    pub fn upload(&self) -> Result<Option<KeyFile<'_>>, CliError> {
        Ok(match self {
            Self::None => None,
            Self::Stream(detection) => Some(detection.upload()),
            Self::Compact(detection, path) => {
                if !path.exists() {
                    let reason = "no such file, expected the account's compact detection key: `restante keys address` with --compact makes it, `restante keys rotate` another";
                    return Err(CliError::input(path)(&reason));
                }
                let file = files::read(path)?;
                let id =
                    CompactDetectionKey::id_of_file(&file).map_err(|error| CliError::input(path)(&error))?;
                let upload = detection.upload(*blake3::hash(&file).as_bytes());
                if id != detection.key_id() || file.len() as u64 != upload.bytes() {
                    let reason = format!("it is the key {id}, the account's is {}", detection.key_id());
                    return Err(CliError::input(path)(&reason));
                }
                Some(upload)
            }
        })
    }

    pub fn read_part(&self, part: &Range<u64>) -> Result<Vec<u8>, CliError> {
        let Self::Compact(_, path) = self else { return Ok(Vec::new()) };
        let mut bytes = Vec::new();
        let mut file = File::open(path).map_err(CliError::system("open", path))?;
        file.seek(SeekFrom::Start(part.start))
            .and_then(|_| file.take(part.end - part.start).read_to_end(&mut bytes))
            .map_err(CliError::system("read", path))?;
        Ok(bytes)
    }
}
