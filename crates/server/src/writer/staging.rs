//! The messages of several batches, judged one after the other and staged for one commit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use restante_board::{Board, BoardError, BoardWriter, Hash};
use restante_wire::binding::{MessageHashes, Period, split_clue};
use restante_wire::merkle::leaf;
use restante_wire::relay::{PostMessage, Posted};

use crate::ServerError;
use crate::refusal::{Answer, Code, Refusal};
use crate::registry::IdEntry;

/// Where a message is that is on the board or staged, and its leaf.
type Known = Option<(u64, Hash)>;

/// The messages that a commit will add.
pub(super) struct Staging {
    board: Arc<Board>,
    time: u64,
    today: Period,
    staged: HashMap<[u8; 16], (u64, Hash)>,
    /// The ids of new messages.
    pub(super) new: Vec<IdEntry>,
}

impl Staging {
    /// `time` is the clock's, `today` the day that it counts as.
    pub(super) fn new(board: Arc<Board>, time: u64, today: Period) -> Self {
        Self { board, time, today, staged: HashMap::new(), new: Vec::new() }
    }

    /// Stages the new messages of a batch, whose ids differ; all of them or none. `entries` is what the registry has of their ids. An
    /// error of this function, other than a refusal, is the whole commit's.
    pub(super) fn batch(
        &mut self,
        writer: &mut BoardWriter,
        messages: &[PostMessage],
        entries: impl Iterator<Item = Option<IdEntry>>,
    ) -> Result<Answer<Vec<Posted>>, ServerError> {
        let hashes: Vec<MessageHashes> = messages.iter().map(PostMessage::hashes).collect();
        let leaves = messages.iter().zip(&hashes);
        let leaves: Vec<Hash> =
            leaves.map(|(message, hashes)| leaf(hashes, split_clue(&message.clue).1)).collect();
        let known = messages.iter().zip(entries).map(|(message, entry)| self.known(message, entry));
        let mut known: Vec<Known> = known.collect();
        let differs = |(known, leaf): (&Known, &Hash)| known.is_some_and(|(_, known)| known != *leaf);
        if let Some(place) = known.iter().zip(&leaves).position(differs) {
            let detail = "this id was used for another message, expected 16 new random bytes";
            let refusal = Refusal::new(Code::Conflict, detail).at(format!("body:messages[{place}].id"));
            return Ok(Err(refusal));
        }
        if let Err(refusal) = self.judge(writer, messages, &hashes, &leaves, &mut known) {
            return Ok(Err(refusal));
        }
        let mut posted = Vec::with_capacity(messages.len());
        for ((message, leaf), known) in messages.iter().zip(leaves).zip(known) {
            let index = match known {
                Some((index, _)) => index,
                None => {
                    let index = writer.append(&message.clue, &message.payload)?;
                    self.staged.insert(message.id.0, (index, leaf));
                    self.new.push(IdEntry { id: message.id.0, index, leaf, time: self.time });
                    index
                }
            };
            posted.push(Posted { index, replayed: known.is_some() });
        }
        Ok(Ok(posted))
    }

    /// An entry counts only if its message is on the board: it was written before the message was committed.
    fn known(&self, message: &PostMessage, entry: Option<IdEntry>) -> Known {
        let is_there = |entry: &IdEntry| match self.board.leaf(entry.index) {
            Ok(leaf) => leaf == entry.leaf,
            Err(BoardError::Forgotten { .. }) => true,
            Err(_) => false,
        };
        let committed = entry.filter(is_there).map(|entry| (entry.index, entry.leaf));
        committed.or_else(|| self.staged.get(&message.id.0).copied())
    }

    /// Judges the clues of a batch's new messages. A request that is repeated is answered whatever its day.
    fn judge(
        &self,
        writer: &BoardWriter,
        messages: &[PostMessage],
        hashes: &[MessageHashes],
        leaves: &[Hash],
        known: &mut [Known],
    ) -> Answer<()> {
        let mut clues = HashSet::new();
        for (place, (message, hashes)) in messages.iter().zip(hashes).enumerate() {
            if known[place].is_some() {
                continue;
            }
            let verdict = if clues.insert(hashes.bound) {
                judge_clue(writer, &message.clue, &hashes.bound, self.today)
            } else {
                Err(Refusal::new(Code::Duplicate, "another message of this batch has this clue"))
            };
            let refusal = match verdict {
                Ok(None) => continue,
                // The very same message, with another id: the registry has lost the first one, or the sender has.
                Ok(Some(first)) if self.leaf_of(first) == Some(leaves[place]) => {
                    known[place] = Some((first, leaves[place]));
                    continue;
                }
                Ok(Some(_)) => {
                    let detail = "the board has a message with this clue; each is taken once, so make the message anew";
                    Refusal::new(Code::Duplicate, detail)
                }
                Err(refusal) => refusal,
            };
            return Err(refusal.at(format!("body:messages[{place}].clue")));
        }
        Ok(())
    }

    /// The leaf of a message that is on the board or staged.
    fn leaf_of(&self, index: u64) -> Option<Hash> {
        let of_staged = || {
            let mut staged = self.staged.values();
            staged.find_map(|(staged, leaf)| (*staged == index).then_some(*leaf))
        };
        self.board.leaf(index).ok().or_else(of_staged)
    }
}

/// The message that has this clue already, if there is one, or why a new message with it is not taken.
fn judge_clue(writer: &BoardWriter, clue: &[u8], bound: &Hash, today: Period) -> Answer<Option<u64>> {
    let open = |least: u32, most: u32| {
        let detail = format!(
            "a message is of the day it was made, and this one's is not open: those from {least} to {most} are (days since \
             1970-01-01 UTC); make it anew, and check the clock"
        );
        Refusal::new(Code::Period, detail)
    };
    let (least, most) = (today.0.saturating_sub(1), today.0.saturating_add(1));
    let Some(period) = Period::of_clue(clue).filter(|period| period.is_near(today)) else {
        return Err(open(least, most));
    };
    match writer.check_clue(period, bound) {
        Ok(()) => Ok(None),
        Err(BoardError::Duplicate { first }) => Ok(Some(first)),
        // The relay's clock went back.
        Err(BoardError::ClosedPeriod { least, .. }) => Err(open(least, most)),
        Err(error) => Err(ServerError::from(error).into()),
    }
}
