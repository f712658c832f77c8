//! How often, how much at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::lock;
use crate::problem::{Answer, Code, Refusal};

/// A token bucket for each of many callers. The memory is bounded: full buckets are forgotten, and when there is no other way all
/// are.
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<K, (f64, Instant)>>,
}

const MAX_BUCKETS: usize = 1 << 16;
/// Requests that a caller may make at once, in seconds of its rate.
const BURST_SECONDS: f64 = 10.0;

impl<K: Eq + Hash> Buckets<K> {
    pub(crate) fn new(per_second: u32) -> Self {
        let per_second = f64::from(per_second);
        Self { per_second, burst: per_second * BURST_SECONDS, buckets: Mutex::default() }
    }

    /// Takes one request of `key`, or says how long to wait.
    pub(crate) fn take(&self, key: K) -> Answer<()> {
        let now = Instant::now();
        let mut buckets = lock(&self.buckets);
        if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(&key) {
            buckets.retain(|_, (left, last)| self.refilled(*left, *last, now) < self.burst);
            // So that not every new caller has to look through all of them.
            if buckets.len() > MAX_BUCKETS / 2 {
                buckets.clear();
            }
        }
        let (left, last) = buckets.entry(key).or_insert((self.burst, now));
        let available = self.refilled(*left, *last, now);
        *last = now;
        if available < 1.0 {
            *left = available;
            let seconds = ((1.0 - available) / self.per_second).ceil().max(1.0);
            let detail = format!("expected at most {} requests a second", self.per_second);
            return Err(Refusal::new(Code::Rate, detail).retry_after(seconds as u64));
        }
        *left = available - 1.0;
        Ok(())
    }

    fn refilled(&self, left: f64, last: Instant, now: Instant) -> f64 {
        (left + now.saturating_duration_since(last).as_secs_f64() * self.per_second).min(self.burst)
    }
}

/// Whose a network address is, as far as limits go: of IPv6 the first 64 bits, since everybody has all the others.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

/// The memory that bodies may take together.
#[derive(Debug, Clone)]
pub(crate) struct BodyMemory(Arc<Semaphore>);

/// Permits are for so many bytes.
const UNIT: u64 = 1024;

impl BodyMemory {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT) as usize)))
    }

    /// Memory for a body, or the request to come back later.
    pub(crate) fn take(&self, bytes: u64) -> Answer<OwnedSemaphorePermit> {
        let permits = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        self.0
            .clone()
            .try_acquire_many_owned(permits)
            .map_err(|_| Refusal::new(Code::Busy, "too many bodies are under way"))
    }
}

/// Bytes whose memory is accounted for until they are sent. What the permit is for besides is given back.
pub(crate) fn hold(bytes: Vec<u8>, mut permit: OwnedSemaphorePermit) -> Bytes {
    let needed = (bytes.capacity() as u64).div_ceil(UNIT) as usize;
    drop(permit.split(permit.num_permits().saturating_sub(needed)));
    struct Held(Vec<u8>, #[allow(dead_code, reason = "held, not read")] OwnedSemaphorePermit);
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Held(bytes, permit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_its_burst_and_no_other_callers_is_touched() {
        let buckets = Buckets::new(2);
        for _ in 0..20 {
            assert!(buckets.take("a").is_ok());
        }
        assert_eq!(buckets.take("a").map_err(|refusal| refusal.code()), Err(Code::Rate));
        assert!(buckets.take("b").is_ok());
    }

    #[test]
    fn a_network_has_one_limit() {
        let network = |text: &str| text.parse().map(network).map(|address| address.to_string());
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff::", "2001:db8:1:2::"),
            ("2001:db8:1:3::1", "2001:db8:1:3::"),
        ] {
            assert_eq!(network(address).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn memory_comes_back_when_the_last_copy_is_gone() {
        let memory = BodyMemory::new(4096);
        let held = memory.take(4096).ok().map(|permit| hold(vec![0; 4096], permit));
        assert!(memory.take(1).is_err());
        let copy = held.clone();
        drop(held);
        assert!(memory.take(1).is_err());
        drop(copy);
        assert!(memory.take(4096).is_ok());
        // What was taken and turned out not to be needed is there for others.
        let held = memory.take(4096).ok().map(|permit| hold(vec![0; 1000], permit));
        assert!(memory.take(3072).is_ok() && memory.take(4096).is_err());
        drop(held);
    }
}
