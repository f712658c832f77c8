//! The epochs of private fetch, made from the board.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};

use restante_board::Board;
use restante_pir::fetch::{Content, Epoch, EpochBuilder, EpochId, Part};
use restante_wire::relay::{EpochList, EpochStatus, Hex};

use crate::files::DataDirectory;
use crate::locks::{lock, read, write};
use crate::refusal::{Answer, Code, Refusal};
use crate::{FetchConfig, ServerError};

/// The newest epochs that are kept: a client has time to finish with one while the next one is there.
const KEPT: usize = 2;

#[derive(Debug)]
struct Served {
    status: EpochStatus,
    epoch: Arc<Epoch>,
}

/// The epochs that can be asked.
#[derive(Debug)]
pub(crate) struct Epochs {
    data: DataDirectory,
    config: FetchConfig,
    part: Part,
    /// Whether this relay mirrors another one, which decides where epochs end between multiples of `fetch.messages`.
    follows: bool,
    served: RwLock<Vec<Served>>,
    closing: Mutex<Closing>,
}

/// When epochs end, beside multiples of `fetch.messages`.
#[derive(Debug, Default)]
struct Closing {
    /// The last multiple of `fetch.seconds` that was attended to.
    attended: Option<u64>,
    /// The newest epoch that the origin lists, until it is made here.
    announced: Option<EpochStatus>,
    /// When one of those was made that does not end at a multiple of `fetch.messages`.
    followed: Option<u64>,
    /// How the origin's epochs differ from those that are made here.
    differs: Option<String>,
    /// Whether the newest epoch could not be made, since its first messages are forgotten.
    is_stopped: bool,
}

/// An origin has to leave a mirror at least so long between two epochs, in seconds, whatever the mirror's settings.
const FOLLOWED: u64 = 30;

impl Epochs {
    /// Opens the epochs that there are. `follows` says that this relay is a mirror.
    pub(crate) fn load(data: DataDirectory, config: FetchConfig, follows: bool) -> Result<Self, ServerError> {
        let part = match config.part.as_str() {
            "clue" => Part::Clue,
            "payload" => Part::Payload,
            _ => Part::Message,
        };
        let mut served = Vec::new();
        let folder = data.epochs();
        for entry in std::fs::read_dir(&folder).map_err(ServerError::io("list", &folder))? {
            let path = entry.map_err(ServerError::io("list", &folder))?.path();
            let range = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('-'));
            let range = range.and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
            match range {
                Some((first, end)) => served.push(Served::open(&path, first, end)?),
                // A draft that a crash has left.
                None => std::fs::remove_dir_all(&path).map_err(ServerError::io("remove", &path))?,
            }
        }
        served.sort_by_key(|one| std::cmp::Reverse(one.status.complete_to));
        let attended =
            served.first().and_then(Served::made).and_then(|time| time.checked_div(config.seconds));
        let closing = Mutex::new(Closing { attended, ..Closing::default() });
        Ok(Self { data, config, part, follows, served: RwLock::new(served), closing })
    }

    pub(crate) fn config(&self) -> &FetchConfig {
        &self.config
    }

    pub(crate) fn list(&self) -> EpochList {
        EpochList { epochs: read(&self.served).iter().map(|one| one.status.clone()).collect() }
    }

    pub(crate) fn get(&self, id: &Hex<32>) -> Answer<Arc<Epoch>> {
        let served = read(&self.served);
        let found = served.iter().find(|one| one.status.epoch == *id).map(|one| one.epoch.clone());
        found.ok_or_else(|| {
            Refusal::new(Code::NotFound, "no such epoch; GET /v1/epochs lists them").at("path:epoch")
        })
    }

    /// The path of an epoch's table of hashes.
    pub(crate) fn hashes(epoch: &Epoch) -> PathBuf {
        epoch.path().join("hashes")
    }

    fn newest(&self) -> u64 {
        read(&self.served).first().map_or(0, |one| one.status.complete_to)
    }

    /// Takes note of the epochs that the origin lists: the newest one is made when its messages are there.
    pub(crate) fn announce(&self, list: EpochList) {
        let newest = self.newest();
        let announced = list.epochs.into_iter().max_by_key(|one| one.complete_to);
        lock(&self.closing).announced = announced.filter(|one| one.complete_to > newest);
    }

    /// How the origin's epochs differ from those of this mirror: no client can fetch then.
    pub(crate) fn differs(&self) -> Option<String> {
        lock(&self.closing).differs.clone()
    }

    /// Whether there are no new epochs, since messages that would be in them are forgotten.
    pub(crate) fn is_stopped(&self) -> bool {
        lock(&self.closing).is_stopped
    }

    /// Makes an epoch if one is due: at a multiple of `fetch.messages`, and of `fetch.seconds` by the clock of the relay that takes the
    /// posts; `now` is its time. A mirror makes those that its origin lists. What is in an epoch depends on the messages, on where it
    /// ends and on the configuration alone, so that two relays make the same.
    pub(crate) fn build(&self, board: &Board, now: u64) -> Result<bool, ServerError> {
        let (count, newest) = (board.len(), self.newest());
        if let Some(status) = self.followed(count, newest, now) {
            return self.follow(board, &status, now);
        }
        let by_number = count - count % self.config.messages;
        let passed = if self.follows { None } else { self.passed(now) };
        let end = if passed.is_some() { count } else { by_number };
        let made = end > newest && self.make(board, end)?;
        if passed.is_some() {
            lock(&self.closing).attended = passed;
        }
        Ok(made)
    }

    /// The multiple of `fetch.seconds` that the clock has passed since the last look.
    fn passed(&self, now: u64) -> Option<u64> {
        let current = now.checked_div(self.config.seconds)?;
        let mut closing = lock(&self.closing);
        // The system's clock, by which files are dated, may be another one.
        let attended = closing.attended.unwrap_or(current).min(current);
        closing.attended = Some(attended);
        (current > attended).then_some(current)
    }

    /// The origin's newest epoch, if it can be made. One that ends between multiples is not taken too soon behind the last: an origin
    /// must not keep a mirror busy.
    fn followed(&self, count: u64, newest: u64, now: u64) -> Option<EpochStatus> {
        let mut closing = lock(&self.closing);
        let status = closing.announced.as_ref()?;
        if status.complete_to <= newest {
            closing.announced = None;
            return None;
        }
        let pause = (self.config.seconds / 2).max(FOLLOWED);
        let is_soon = status.complete_to % self.config.messages != 0
            && closing.followed.is_some_and(|last| now < last.saturating_add(pause));
        (status.complete_to <= count && !is_soon).then(|| status.clone())
    }

    /// Makes an epoch that the origin lists, and sees whether it is the same.
    fn follow(&self, board: &Board, status: &EpochStatus, now: u64) -> Result<bool, ServerError> {
        let end = status.complete_to;
        let (first, record_bytes) = (self.first(end), self.config.record_bytes);
        let is_like = (first, record_bytes) == (status.first, status.record_bytes);
        let made = is_like && self.make(board, end)?;
        let mine = read(&self.served).first().map(|one| one.status.clone()).filter(|_| made);
        let differs = match mine {
            _ if !is_like => Some(format!(
                "messages {}..{end} in records of {} bytes, and here {first}..{end} and {record_bytes}",
                status.first, status.record_bytes
            )),
            Some(mine) if mine.epoch != status.epoch => {
                Some(format!("{} for messages {first}..{end}, and here {}", status.epoch, mine.epoch))
            }
            _ => None,
        };
        let differs = differs.map(|how| {
            format!("the origin has another epoch, {how}: [fetch] must be the same on both, but for server and seconds")
        });
        if let Some(differs) = &differs {
            tracing::error!(%differs, "private fetch");
        }
        let mut closing = lock(&self.closing);
        closing.announced = None;
        closing.followed = Some(now);
        closing.differs = differs;
        Ok(made)
    }

    /// The first message of an epoch that ends at `end`: that of the last one that ended at a multiple of `fetch.messages`, so that an
    /// epoch in between takes nothing away that a client has not fetched yet.
    fn first(&self, end: u64) -> u64 {
        (end - end % self.config.messages).saturating_sub(self.config.window)
    }

    fn make(&self, board: &Board, end: u64) -> Result<bool, ServerError> {
        let (first, retained) = (self.first(end), board.retained_from());
        let is_whole = first >= retained;
        let was_stopped = std::mem::replace(&mut lock(&self.closing).is_stopped, !is_whole);
        if !is_whole && !was_stopped {
            tracing::error!(
                first,
                retained,
                "no new epochs: [retention] forgets messages that fetch.window keeps; make the window smaller, or keep messages for longer"
            );
        }
        if !is_whole {
            return Ok(false);
        }
        let path = self.data.epochs().join(format!("{first}-{end}"));
        let old = read(&self.served)
            .first()
            .filter(|one| one.status.first == first)
            .map(|one| (one.epoch.clone(), one.status.complete_to));
        let (mut builder, next) = match &old {
            Some((old, next)) => (EpochBuilder::extend(&path, old)?, *next),
            None => {
                let record_bytes = self.config.record_bytes as usize;
                (EpochBuilder::create(&path, record_bytes, Content::Padded)?, first)
            }
        };
        let space = self.config.record_bytes as usize - Content::LENGTH_BYTES;
        for index in next..end {
            let message = board.message(index)?;
            let record = match self.part {
                Part::Clue => message.clue.to_vec(),
                Part::Payload => message.payload.to_vec(),
                Part::Message => [message.clue, message.payload].concat(),
            };
            // What does not fit has an empty record: its owner sees that it has to read the message another way.
            builder.push(if record.len() <= space { &record } else { &[] })?;
        }
        builder.seal()?;
        let mut served = write(&self.served);
        served.insert(0, Served::open(&path, first, end)?);
        let kept = KEPT.min(served.len());
        for old in served.drain(kept..) {
            // Whoever is being answered from it has it mapped.
            let path = old.epoch.path();
            std::fs::remove_dir_all(path).map_err(ServerError::io("remove", path))?;
        }
        Ok(true)
    }
}

impl Served {
    fn open(path: &std::path::Path, first: u64, complete_to: u64) -> Result<Self, ServerError> {
        let epoch = Epoch::open(path)?;
        let EpochId(id) = epoch.id();
        let status = EpochStatus {
            epoch: Hex(id),
            first,
            complete_to,
            record_bytes: epoch.info().record_bytes() as u32,
        };
        Ok(Self { status, epoch: Arc::new(epoch) })
    }

    /// When it was made, by the file system.
    fn made(&self) -> Option<u64> {
        let time = std::fs::metadata(self.epoch.path()).and_then(|folder| folder.modified()).ok()?;
        Some(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs())
    }
}
