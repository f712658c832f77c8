//! One private fetch: a fixed number of records of an epoch, from both relays.

use std::ops::Range;

use rand_core::CryptoRng;
use restante_pir::{
    PirError,
    fetch::{Answer, Content, EpochInfo, Query, UncheckedState, decode_unchecked},
};
use restante_wire::{
    Envelope,
    relay::{EpochStatus, Hex, media},
};
use zeroize::Zeroizing;

use crate::{
    RelayError,
    relay::{Method, Request, Response, Side},
};

/// An epoch's header has a root for each bit of the number of records.
const HEADER_BYTES_MAX: u64 = 13 + 33 * 32 + Envelope::OVERHEAD_BYTES as u64;

pub(super) struct Fetch {
    epoch: EpochStatus,
    /// The server that the first relay is.
    server: u8,
    fetches: usize,
    info: Option<EpochInfo>,
    asked: Option<Asked>,
    answers: [Option<Answer>; 2],
}

struct Asked {
    state: UncheckedState,
    /// Indices on the board, in the order of the batch: wanted ones and dummies.
    indices: Zeroizing<Vec<u64>>,
    /// For the first and the second relay.
    queries: [Query; 2],
}

impl Fetch {
    pub(super) fn new(epoch: EpochStatus, server: u8, fetches: usize) -> Self {
        Self { epoch, server, fetches, info: None, asked: None, answers: [None, None] }
    }

    /// The messages that the epoch holds.
    pub(super) fn range(&self) -> Range<u64> {
        self.epoch.first..self.epoch.complete_to
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/epochs/{}{rest}", self.epoch.epoch)
    }

    pub(super) fn ask_header(&self) -> Request {
        let request = Request::new(Side::First, Method::Get, self.path("")).accept(media::EPOCH);
        request.at_most(HEADER_BYTES_MAX)
    }

    /// The query to a relay: the same at every attempt.
    pub(super) fn ask(&self, side: Side) -> Request {
        let query = self.asked.as_ref().map_or(vec![], |asked| asked.queries[side.index()].to_file());
        let bytes = self.info.as_ref().and_then(|info| info.answer_bytes(self.fetches).ok());
        Request::new(side, Method::Post, self.path("/fetch"))
            .accept(media::FETCH_ANSWER)
            .body(media::FETCH_QUERY, query)
            .at_most(bytes.unwrap_or(0) as u64)
    }

    /// Takes the header, and makes the queries: for messages of the backlog and dummies, in an order that is drawn, so that a relay
    /// that spoils one place in its answers cannot choose what it spoils.
    pub(super) fn take_header(
        &mut self,
        response: &Response,
        backlog: [&[u64]; 2],
        rng: &mut impl CryptoRng,
    ) -> Result<(), RelayError> {
        let info = EpochInfo::from_file(&response.body)?;
        let (found, expected) = (Hex(info.id().0), self.epoch.epoch);
        if found != expected {
            return Err(RelayError::unexpected(Side::First, "epoch", found, expected));
        }
        let records = self.epoch.complete_to - self.epoch.first;
        let facts = [
            ("number of records of an epoch", info.records(), records),
            ("record size of an epoch", info.record_bytes() as u64, self.epoch.record_bytes.into()),
            ("content of an epoch", info.content() as u64, Content::Padded as u64),
        ];
        for (what, found, expected) in facts {
            if found != expected {
                return Err(RelayError::unexpected(Side::First, what, found, expected));
            }
        }
        let range = self.range();
        let mut indices = choose(backlog, &range, self.fetches, rng);
        while indices.len() < self.fetches {
            // An epoch has at most 2^32 records, so that the remainder is uniform but for 2^-32; and nobody sees it.
            indices.push(range.start + rng.next_u64() % (range.end - range.start));
        }
        shuffle(&mut indices, self.fetches, rng);
        let records: Zeroizing<Vec<u64>> =
            Zeroizing::new(indices.iter().map(|index| index - range.start).collect());
        let (state, queries) = info.query(&records, self.fetches, rng)?;
        let [zero, one] = queries;
        let queries = if self.server == 0 { [zero, one] } else { [one, zero] };
        self.asked = Some(Asked { state, indices, queries });
        self.info = Some(info);
        Ok(())
    }

    pub(super) fn take_answer(&mut self, side: Side, response: &Response) -> Result<(), RelayError> {
        let answer = Answer::from_file(&response.body)?;
        self.answers[side.index()] = Some(answer);
        Ok(())
    }

    /// The records, in the order of the batch, each with its index on the board; none where there is no record. Nobody has checked
    /// them: letters prove by themselves that they are genuine.
    ///
    /// Fails only for what a relay does wrong whatever was asked for.
    pub(super) fn open(&self) -> Result<Vec<(u64, Option<Zeroizing<Vec<u8>>>)>, PirError> {
        let (Some(asked), [Some(first), Some(second)]) = (&self.asked, &self.answers) else {
            return Ok(Vec::new());
        };
        let records = decode_unchecked(&asked.state, first, second)?;
        Ok(asked.indices.iter().copied().zip(records).collect())
    }
}

/// Chooses the messages of the backlog to fetch: the newest for half of the fetches, and for the others any,
/// each as likely as the next.
///
/// Whoever has the address can write more than a client fetches. Taken oldest first, everything behind a flood waits for its end; newest
/// first, a steady trickle keeps all older messages waiting for ever; both cost the sender exactly as many messages as there are
/// fetches. This way new mail comes at once behind a flood that is over, and no message can be kept away for certain: docs/client.md has
/// the figures.
///
/// It happens between two requests. Both parts of the backlog ascend, the second behind the first, so that the time does not
/// grow with them.
fn choose(
    backlog: [&[u64]; 2],
    range: &Range<u64>,
    fetches: usize,
    rng: &mut impl CryptoRng,
) -> Zeroizing<Vec<u64>> {
    let [older, newer] = backlog.map(|part| {
        let [start, end] = [range.start, range.end].map(|end| part.partition_point(|index| *index < end));
        &part[start..end]
    });
    let at = |place: usize| older.get(place).or_else(|| newer.get(place - older.len())).copied();
    let count = older.len() + newer.len();
    // At once, so that no half-grown copy stays behind in memory.
    let mut wanted = Zeroizing::new(Vec::with_capacity(fetches));
    if count <= fetches {
        wanted.extend((0..count).filter_map(at));
        return wanted;
    }
    // A half of an odd number is rounded either way.
    let newest = (fetches + usize::from(rng.next_u64() & 1 == 1)) / 2;
    wanted.extend((count - newest..count).filter_map(at));
    // Floyd's way to draw places that differ: in each step one of those up to here, or this one if that is taken.
    let rest = count - newest;
    let mut drawn = Zeroizing::new(Vec::with_capacity(fetches));
    for place in rest - (fetches - newest)..rest {
        let lot = (rng.next_u64() % (place as u64 + 1)) as usize;
        let chosen = if drawn.contains(&lot) { place } else { lot };
        drawn.push(chosen);
    }
    wanted.extend(drawn.iter().copied().filter_map(at));
    wanted
}

/// Puts members that are drawn from all into the first places.
fn shuffle(items: &mut [u64], places: usize, rng: &mut impl CryptoRng) {
    for place in 0..places.min(items.len()) {
        let left = (items.len() - place) as u64;
        items.swap(place, place + (rng.next_u64() % left) as usize);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use std::collections::BTreeSet;

    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::*;

    #[test]
    fn the_newest_come_first_and_no_other_can_be_kept_away() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let (older, newer): (Vec<u64>, Vec<u64>) = ((0..50).chain(100..200).collect(), (200..300).collect());
        let backlog = [&older[..], &newer];
        let (range, mut times) = (40..280, [0; 300]);
        for _ in 0..2000 {
            let chosen = choose(backlog, &range, 8, &mut rng);
            let distinct: BTreeSet<u64> = chosen.iter().copied().collect();
            assert!(distinct.len() == 8 && distinct.iter().all(|index| range.contains(index)));
            assert!((276..280).all(|index| distinct.contains(&index)));
            distinct.iter().for_each(|index| times[*index as usize] += 1);
        }
        // Of the 186 others four each time: 43 times each, give or take 7.
        let others: Vec<u32> = (40..50).chain(100..276).map(|index| times[index]).collect();
        assert!(others.len() == 186 && others.iter().all(|times| (8..90).contains(times)), "{others:?}");
        // One fetch takes turns, and a small backlog comes whole.
        let newest = (0..1000).filter(|_| choose(backlog, &range, 1, &mut rng)[0] == 279).count();
        assert!((400..600).contains(&newest), "{newest}");
        assert_eq!(*choose([&[3, 5], &[9]], &(4..20), 8, &mut rng), [5, 9]);
    }
}
