//! Queues that are fair between those who fill them.
//!
//! Everybody has a lane, and lanes have turns: who puts in a thousand things waits for them, and nobody else does. What nobody waits
//! for any more is dropped, with all that it holds.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::locks::lock;
use crate::refusal::{Answer, Code, Refusal};

/// Things in lanes, of which each has its turn.
#[derive(Debug)]
pub(crate) struct Lanes<K, T> {
    lanes: HashMap<K, VecDeque<T>>,
    turns: VecDeque<K>,
    len: usize,
}

impl<K, T> Default for Lanes<K, T> {
    fn default() -> Self {
        Self { lanes: HashMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<K: Copy + Eq + Hash, T> Lanes<K, T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, key: K, item: T) {
        let lane = self.lanes.entry(key).or_default();
        if lane.is_empty() {
            self.turns.push_back(key);
        }
        lane.push_back(item);
        self.len += 1;
    }

    /// The first thing of the first lane in turn that `accept` takes; that lane comes last then.
    pub(crate) fn pop(&mut self, accept: impl Fn(&T) -> bool) -> Option<T> {
        let is_next = |key: &K| self.lanes.get(key).and_then(VecDeque::front).is_some_and(&accept);
        let place = self.turns.iter().position(is_next)?;
        let key = self.turns.remove(place)?;
        let lane = self.lanes.get_mut(&key)?;
        let item = lane.pop_front()?;
        self.len -= 1;
        if lane.is_empty() {
            drop(self.lanes.remove(&key))
        } else {
            self.turns.push_back(key)
        }
        Some(item)
    }

    /// All things, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.lanes.values().flatten()
    }

    /// Takes out of the longest lane with such things the newest of them.
    pub(crate) fn take_newest(&mut self, is_such: impl Fn(&T) -> bool) -> Option<T> {
        let lanes =
            self.lanes.iter().map(|(key, lane)| (lane.iter().filter(|item| is_such(item)).count(), key));
        let key = *lanes.filter(|(count, _)| *count > 0).max_by_key(|(count, _)| *count)?.1;
        let lane = self.lanes.get_mut(&key)?;
        let item = lane.remove(lane.iter().rposition(&is_such)?)?;
        self.len -= 1;
        if lane.is_empty() {
            self.lanes.remove(&key);
            self.turns.retain(|turn| *turn != key);
        }
        Some(item)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.lanes.retain(|_, lane| {
            lane.retain(&mut keep);
            !lane.is_empty()
        });
        self.turns.retain(|key| self.lanes.contains_key(key));
        self.len = self.lanes.values().map(VecDeque::len).sum();
    }

    /// Takes the newest thing out of the longest lane, if that is longer by two or more than the lane of `key`: then a place changes
    /// hands, and does not go back and forth.
    pub(crate) fn make_room(&mut self, key: &K) -> Option<T> {
        let own = self.lanes.get(key).map_or(0, VecDeque::len);
        let longest = self.lanes.iter().max_by_key(|(_, lane)| lane.len());
        let longest = *longest.filter(|(_, lane)| lane.len() >= own + 2)?.0;
        let item = self.lanes.get_mut(&longest)?.pop_back();
        self.len -= usize::from(item.is_some());
        item
    }
}

/// A thing in a queue that somebody waits for.
pub(crate) trait Waiting {
    /// Whether nobody waits any more.
    fn is_abandoned(&self) -> bool;

    /// Tells whoever waits that it will not be done.
    fn refuse(self, refusal: Refusal);
}

/// A bounded queue for a thread, fair between lanes.
#[derive(Debug)]
pub(crate) struct FairQueue<K, T>(Arc<Shared<K, T>>);

#[derive(Debug)]
struct Shared<K, T> {
    state: Mutex<(Lanes<K, T>, bool)>,
    changed: Condvar,
    limit: usize,
}

impl<K, T> Clone for FairQueue<K, T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Copy + Eq + Hash, T: Waiting> FairQueue<K, T> {
    /// A queue of at most `limit` things.
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), limit }))
    }

    /// Puts something in. When the queue is full, what nobody waits for goes, and then the newest of whoever has the most in it.
    pub(crate) fn push(&self, key: K, item: T, busy: &Refusal) -> Answer<()> {
        let mut state = lock(&self.0.state);
        let (lanes, is_closed) = &mut *state;
        if *is_closed {
            return Err(Refusal::stopping());
        }
        if lanes.len() >= self.0.limit {
            lanes.retain(|item| !item.is_abandoned());
        }
        if lanes.len() >= self.0.limit {
            lanes.make_room(&key).ok_or_else(|| busy.clone())?.refuse(busy.clone());
        }
        lanes.push(key, item);
        self.0.changed.notify_all();
        Ok(())
    }

    /// Puts something in, whether or not there is room: for the few things that the relay itself wants. The thing comes back if the
    /// queue is closed.
    pub(crate) fn push_always(&self, key: K, item: T) -> Result<(), T> {
        let mut state = lock(&self.0.state);
        if state.1 {
            return Err(item);
        }
        state.0.push(key, item);
        self.0.changed.notify_all();
        Ok(())
    }

    /// Waits for the next thing that somebody waits for; none when the queue is closed and empty.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut state = lock(&self.0.state);
        loop {
            while let Some(item) = state.0.pop(|_| true) {
                if !item.is_abandoned() {
                    return Some(item);
                }
            }
            if state.1 {
                return None;
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next thing that `accept` takes and somebody waits for, if there is one now.
    pub(crate) fn try_pop(&self, accept: impl Fn(&T) -> bool) -> Option<T> {
        let mut state = lock(&self.0.state);
        loop {
            let item = state.0.pop(|item| item.is_abandoned() || accept(item))?;
            if !item.is_abandoned() {
                return Some(item);
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.0.state).1
    }

    /// Takes nothing more. What is in the queue is still done.
    pub(crate) fn close(&self) {
        lock(&self.0.state).1 = true;
        self.0.changed.notify_all();
    }
}

/// The refusal of a queue that is full.
pub(crate) fn busy(what: &'static str, seconds: u64) -> Refusal {
    Refusal::new(Code::Busy, what).retry_after(seconds)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use tokio::sync::oneshot;

    use super::*;

    struct Asked(u32, oneshot::Sender<Refusal>);

    impl Waiting for Asked {
        fn is_abandoned(&self) -> bool {
            self.1.is_closed()
        }

        fn refuse(self, refusal: Refusal) {
            drop(self.1.send(refusal));
        }
    }

    fn ask(queue: &FairQueue<char, Asked>, key: char, number: u32) -> Answer<oneshot::Receiver<Refusal>> {
        let (sender, receiver) = oneshot::channel();
        queue.push(key, Asked(number, sender), &busy("full", 1)).map(|()| receiver)
    }

    #[test]
    fn lanes_have_turns_and_what_nobody_waits_for_is_dropped() {
        let queue = FairQueue::new(8);
        let mut kept: Vec<_> = (0..4).map(|number| ask(&queue, 'a', number).unwrap()).collect();
        kept.push(ask(&queue, 'b', 10).unwrap());
        kept.push(ask(&queue, 'c', 20).unwrap());
        kept.push(ask(&queue, 'b', 11).unwrap());
        // The second of a has hung up.
        kept[1].close();
        queue.close();
        assert!(ask(&queue, 'd', 0).is_err());
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|asked| asked.0).collect();
        assert_eq!(order, [0, 10, 20, 11, 2, 3]);
    }

    #[test]
    fn who_fills_a_queue_makes_room_for_others_and_nobody_else_does() {
        let queue = FairQueue::new(4);
        let mut flood: Vec<_> = (0..4).map(|number| ask(&queue, 'a', number).unwrap()).collect();
        assert!(ask(&queue, 'a', 4).is_err());
        let _first = ask(&queue, 'b', 10).unwrap();
        assert!(flood.pop().unwrap().try_recv().is_ok());
        let _second = ask(&queue, 'c', 20).unwrap();
        // Nobody has two more than d would have.
        let third = ask(&queue, 'd', 30);
        assert!(third.is_ok() && ask(&queue, 'e', 40).is_err());
        // One hangs up, and there is room.
        drop(third);
        assert!(ask(&queue, 'e', 40).is_ok());
        let order: Vec<u32> = std::iter::from_fn(|| queue.try_pop(|_| true)).map(|asked| asked.0).collect();
        assert_eq!(order, [0, 10, 20]);
    }

    #[test]
    fn only_what_is_accepted_is_taken() {
        let queue = FairQueue::new(4);
        let _kept: Vec<_> =
            [('a', 1), ('a', 2), ('b', 4)].map(|(key, number)| ask(&queue, key, number).unwrap()).into();
        // Within a lane nothing overtakes.
        assert_eq!(queue.try_pop(|asked| asked.0 % 2 == 0).map(|asked| asked.0), Some(4));
        assert!(queue.try_pop(|asked| asked.0 % 2 == 0).is_none());
        assert_eq!(queue.try_pop(|_| true).map(|asked| asked.0), Some(1));
    }
}
