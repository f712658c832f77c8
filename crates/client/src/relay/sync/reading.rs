//! Reading what a round has got. It is done here and nowhere else: all that is done with the account's
//! secrets.
//!
//! But for [`SyncMachine::decrypt_digests`], whose work is the same whatever it finds, it happens behind the round's last request. What
//! it finds, how long it takes, and what the caller then shows and writes, can be seen by nobody who sees requests, as long as it is
//! done before the next round begins: at a time that was fixed before.

use std::{collections::BTreeSet, ops::Range};

use rand_core::CryptoRng;
use restante_letter::ClueHash;
use restante_omr::{OmrError, compact::CompactDigest, stream::StreamDigest};
use restante_wire::{
    binding::{Binding, MessageHashes, Period, split_clue},
    merkle::Hash,
    relay::Page,
};
use zeroize::{Zeroize, Zeroizing};

use super::{Delivery, Outcome, Received, SyncMachine, SyncState, fetch::Fetch, state::Job};
use crate::{AnyDetection, RelayError};

/// A stream digest, and those of its messages that no digest before it was for.
pub(super) struct Digest {
    pub(super) digest: StreamDigest,
    pub(super) fresh: Range<u64>,
}

/// An answer that has come and is to be read.
pub(super) enum Kept {
    /// A page that the head counts.
    Page(Page),
    /// Both answers to a query.
    Records(Box<Fetch>),
    /// A compact digest.
    Compact { job: Job, digest: CompactDigest },
    /// The relay has forgotten these messages: there is no second look at them.
    Forgotten(Range<u64>),
}

/// How much a machine has done with the account's secrets: what must not differ between two requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Clues that were tested.
    pub clues: u64,
    /// Blocks of stream digests that were decrypted.
    pub blocks: u64,
    /// Compact digests that were decoded.
    pub compact_digests: u64,
    /// Payloads that were decrypted, or tried to be.
    pub payloads: u64,
}

/// The end of a round.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished {
    /// The state to keep: it counts the messages as done.
    pub state: SyncState,
    /// The messages, ascending.
    pub received: Vec<Received>,
    /// For the client alone: no request may depend on it.
    pub outcome: Outcome,
    /// The work that was done.
    pub work: Work,
    /// A relay's fault that the client noticed when it read the answers.
    pub error: Option<RelayError>,
}

impl Finished {
    /// Keeps messages and state in the only order in which nothing is lost: `messages` takes the number of the round
    /// ([`SyncState::rounds`]) and its messages, and makes them durable; then `state` does so with the state. After a crash in between
    /// the round comes again, with the same number: what was kept under it counts for nothing.
    ///
    /// Both are called whatever was found.
    ///
    /// # Errors
    ///
    /// Those of the two. After one of `messages`, `state` is not called.
    pub fn save<E>(
        &self,
        messages: impl FnOnce(u64, &[Received]) -> Result<(), E>,
        state: impl FnOnce(&SyncState) -> Result<(), E>,
    ) -> Result<(), E> {
        messages(self.state.rounds, &self.received)?;
        state(&self.state)
    }
}

impl SyncMachine<'_> {
    /// Ends the round, however far it came: reads what it has got. It takes as long as what was found takes: the time of the next
    /// request is to be fixed before ([`Schedule`](crate::relay::Schedule)).
    pub fn finish(mut self, rng: &mut impl CryptoRng) -> Finished {
        self.decrypt_digests();
        self.state.backlog.append(&mut self.found);
        // It ascends, so that nobody has to look through it between two requests.
        self.state.backlog.sort_unstable();
        self.state.backlog.dedup();
        let mut error = None;
        for kept in std::mem::take(&mut self.kept) {
            match kept {
                Kept::Page(page) => self.read_page(&page),
                Kept::Records(fetch) => error = error.or(self.read_records(&fetch).err()),
                Kept::Compact { job, digest } => self.read_compact(&job, &digest),
                Kept::Forgotten(range) => self.outcome.lost.extend(self.state.lost_within(&range)),
            }
        }
        self.limit_backlog(rng);
        self.received.sort_by_key(|message| message.index);
        self.outcome.backlog = self.state.backlog.len();
        if matches!(self.config.delivery, Delivery::Private(_)) {
            let end = self.outcome.epoch_end.unwrap_or(0);
            self.outcome.awaiting_epoch = self.state.backlog.iter().filter(|index| **index >= end).count();
        }
        self.state.rounds = self.state.rounds.saturating_add(1);
        let Self { state, received, outcome, work, .. } = self;
        Finished { state, received, outcome, work, error }
    }

    /// Decrypts the stream digests that have come. The work follows from their number and length: every block is decrypted and looked
    /// at, also those that a relay has changed, as it could otherwise see from the time that one does not decrypt.
    pub(super) fn decrypt_digests(&mut self) {
        let AnyDetection::Stream(detection) = self.detection else { return };
        for Digest { digest, fresh } in std::mem::take(&mut self.digests) {
            let Ok(blocks) = detection.decoder().pertinent_by_block(&digest) else {
                self.outcome.unreadable.push(fresh);
                continue;
            };
            for (range, found) in blocks {
                self.work.blocks += 1;
                let range = range.start.max(fresh.start)..range.end.min(fresh.end);
                match found {
                    Ok(mut found) => {
                        self.found.extend(found.iter().filter(|index| range.contains(index)));
                        found.zeroize();
                    }
                    Err(_) if range.is_empty() => {}
                    Err(_) => self.outcome.unreadable.push(range),
                }
            }
        }
    }

    /// Takes what there is no room for out of the backlog: by lot, so that nobody who fills it can choose what goes.
    fn limit_backlog(&mut self, rng: &mut impl CryptoRng) {
        let backlog = &mut self.state.backlog;
        let beyond = backlog.len().saturating_sub(SyncState::BACKLOG_MAX);
        if beyond == 0 {
            return;
        }
        let mut lots = BTreeSet::new();
        while lots.len() < beyond {
            lots.insert((rng.next_u64() % backlog.len() as u64) as usize);
        }
        let overdue: Vec<u64> = lots.iter().map(|place| backlog[*place]).collect();
        let mut place = 0;
        backlog.retain(|_| {
            place += 1;
            !lots.contains(&(place - 1))
        });
        self.miss(overdue);
    }

    /// Names messages of the backlog that cannot be fetched any more.
    fn miss(&mut self, overdue: Vec<u64>) {
        overdue.iter().for_each(|index| self.state.lose_message(*index));
        self.outcome.overdue.extend(overdue);
    }

    fn read_page(&mut self, page: &Page) {
        let board = page.head.board;
        for (index, message) in (page.first..).zip(&page.messages) {
            self.work.clues += 1;
            let hashes = MessageHashes::of(split_clue(&message.clue).0, &message.payload);
            // A clue that is none belongs to nobody.
            if self.account.is_pertinent_with(&message.clue, &hashes.binding(&board)).unwrap_or(false) {
                self.work.payloads += 1;
                let clue = ClueHash::new(&board, &hashes.bound);
                match self.account.open_with(&clue, &message.payload) {
                    Ok(text) => {
                        let day = Period::of_clue(&message.clue);
                        self.receive((index, day), &hashes.binding(&board), text);
                    }
                    Err(_) => self.outcome.unopened += 1,
                }
            }
        }
        let range = page.first..page.end();
        self.state.backlog.retain(|index| !range.contains(index));
        self.state.find(range);
    }

    /// Takes a message that was opened, unless it is there already: a board has each clue once. Who asks for a range again gets it
    /// again.
    fn receive(&mut self, (index, day): (u64, Option<Period>), binding: &Binding, text: Vec<u8>) {
        let text = Zeroizing::new(text);
        let message = self.account.own_message(binding);
        let is_new = self.state.own.is_first(&message);
        let is_wanted = match self.config.delivery {
            Delivery::Range { .. } => self.own_of_round.is_first(&message),
            _ => is_new,
        };
        if is_wanted { self.received.push(Received { index, day, text }) } else { self.outcome.repeated += 1 }
    }

    /// Whether a board that keeps to its rule can have taken a message of this day at this index: not of a day after that of the newest
    /// head, and not of one that was closed when the relay signed the head that this round began with, if the message came behind that.
    fn is_dated(&self, index: u64, day: Period) -> bool {
        let newest = self.state.relays[0].head.is_none_or(|head| day <= Period::latest_at(head.time));
        let before = self.before.filter(|head| head.count <= index);
        newest && before.is_none_or(|head| day.is_open_after(Period::of(head.time)))
    }

    fn read_records(&mut self, fetch: &Fetch) -> Result<(), RelayError> {
        let clue_bytes = self.account.parameters().clue_bytes();
        let Some(board) = self.state.board() else { return Ok(()) };
        for (index, content) in fetch.open()? {
            // Dummies are in no backlog.
            let Ok(place) = self.state.backlog.binary_search(&index) else { continue };
            if content.as_ref().is_some_and(|content| content.is_empty()) {
                self.state.backlog.remove(place);
                self.outcome.too_long.push(index);
                self.state.lose_message(index);
                continue;
            }
            // A clue is bound to its payload: whatever a relay has changed is nobody's. Digests are exact, so that nothing else is.
            let parts = content.as_ref().and_then(|content| content.split_at_checked(clue_bytes));
            let found = parts.map(|(clue, payload)| {
                self.work.clues += 1;
                (clue, payload, MessageHashes::of(split_clue(clue).0, payload))
            });
            let is_own = |(clue, _, hashes): &(&[u8], &[u8], MessageHashes)| {
                self.account.is_pertinent_with(clue, &hashes.binding(&board)).unwrap_or(false)
            };
            let Some((clue, payload, hashes)) = found.filter(is_own) else {
                // It stays, and is asked for again another time.
                self.outcome.wrong_records += 1;
                continue;
            };
            self.state.backlog.remove(place);
            self.work.payloads += 1;
            let day = Period::of_clue(clue);
            let is_dated = day.is_some_and(|day| self.is_dated(index, day));
            match self.account.open_with(&ClueHash::new(&board, &hashes.bound), payload) {
                Ok(_) if !is_dated => self.outcome.misdated += 1,
                Ok(text) => self.receive((index, day), &hashes.binding(&board), text),
                Err(_) => self.outcome.unopened += 1,
            }
        }
        let epoch = fetch.range();
        let overdue = self.state.backlog.iter().copied().filter(|index| *index < epoch.start).collect();
        self.state.backlog.retain(|index| *index >= epoch.start);
        self.miss(overdue);
        Ok(())
    }

    fn read_compact(&mut self, job: &Job, digest: &CompactDigest) {
        let AnyDetection::Compact(detection) = self.detection else { return };
        let Some(board) = self.state.board() else { return };
        self.work.compact_digests += 1;
        let mut found = match detection.decoder().decode(digest) {
            Ok(found) => found,
            Err(error) => {
                match error {
                    OmrError::Overflow { .. } => self.outcome.overflowed.push(job.range.clone()),
                    _ => self.outcome.unreadable.push(job.range.clone()),
                }
                self.lose(job);
                return;
            }
        };
        // Of a second look only what was lost.
        let wanted = if job.again { self.state.lost_within(&job.range) } else { vec![job.range.clone()] };
        let mut too_long = Vec::new();
        for message in &found {
            if !wanted.iter().any(|range| range.contains(&message.index)) {
                continue;
            }
            if message.payload.len() < message.payload_bytes {
                too_long.push(message.index);
                continue;
            }
            self.work.payloads += 1;
            let Some((bound, payload)) = message.payload.split_first_chunk() else {
                self.outcome.unopened += 1;
                continue;
            };
            let bound = Hash(*bound);
            match self.account.open_with(&ClueHash::new(&board, &bound), payload) {
                Ok(text) => {
                    self.receive(
                        (message.index, None),
                        &Binding::new(&board, &bound, &Hash::of(payload)),
                        text,
                    );
                }
                Err(_) => self.outcome.unopened += 1,
            }
        }
        for message in &mut found {
            message.index.zeroize();
            message.payload.zeroize();
        }
        self.state.find(job.range.clone());
        for index in too_long {
            self.state.lose_message(index);
            // A second look comes to the same.
            if !self.outcome.too_long.contains(&index) {
                self.outcome.too_long.push(index);
            }
        }
    }

    fn lose(&mut self, job: &Job) {
        let Delivery::Compact(compact) = self.config.delivery else { return };
        if job.again {
            self.outcome.lost.extend(self.state.lost_within(&job.range));
        } else {
            self.state.lose(job.range.clone());
            if compact.again.is_none() {
                self.outcome.lost.push(job.range.clone());
            }
        }
    }
}
