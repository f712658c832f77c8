//! How often, how much at once.

use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::locks::lock;
use crate::refusal::{Answer, Code, Refusal};

/// A token bucket for each of many callers. The memory is bounded: full buckets are forgotten, and when there is no other way the
/// fuller half is.
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
                let mut all: Vec<f64> =
                    buckets.values().map(|(left, last)| self.refilled(*left, *last, now)).collect();
                let middle = all.len() / 2;
                let middle = *all.select_nth_unstable_by(middle, f64::total_cmp).1;
                buckets.retain(|_, (left, last)| self.refilled(*left, *last, now) < middle);
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

/// Whose a network address is, as far as limits of requests go: of IPv6 the first 56 bits, which is what a party is given.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address @ IpAddr::V6(_) => neighbourhood(address),
        address => address,
    }
}

tokio::task_local! {
    /// The network that a request comes from, while its handler runs.
    static ORIGIN: IpAddr;
}

/// Runs a request's handler. What it takes is put down to the network that the request comes from.
pub(crate) async fn on_behalf<T>(address: IpAddr, work: impl Future<Output = T>) -> T {
    ORIGIN.scope(neighbourhood(address), work).await
}

/// The network that the request at hand comes from. It is in memory for as long as what the request has asked for is, and is
/// not told to anybody.
pub(crate) fn origin() -> IpAddr {
    ORIGIN.try_with(|origin| *origin).unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
}

/// The addresses that are likely to be one party's: those with the same first 24 bits in IPv4, 56 in IPv6. Shares go by these.
pub(crate) fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            Ipv4Addr::new(a, b, c, 0).into()
        }
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d & 0xff00, 0, 0, 0, 0).into()
        }
    }
}

/// The memory that bodies may take together. No network has all of it: an eighth is for the others. And bodies that come slowly make
/// room for those of networks that have less, so that announcing bodies keeps nobody out.
#[derive(Debug, Clone)]
pub(crate) struct BodyMemory {
    all: Arc<Semaphore>,
    bytes: u64,
    shares: Arc<Mutex<Shares>>,
}

#[derive(Debug, Default)]
struct Shares {
    /// Units of each network.
    of: HashMap<IpAddr, u64>,
    next: u64,
    /// Bodies on their way here, in the order in which that began.
    arriving: BTreeMap<u64, Arriving>,
}

#[derive(Debug)]
struct Arriving {
    from: IpAddr,
    units: u64,
    since: Instant,
    given_up: Arc<Notify>,
}

/// A body has its memory for so long whoever else wants it.
const GRACE: Duration = Duration::from_secs(2);
/// How long a body waits for the memory of others.
const WAIT: Duration = Duration::from_secs(5);

/// The right to some memory, until it is dropped. It moves along with whatever takes the memory.
#[derive(Debug)]
pub(crate) struct Memory {
    permit: OwnedSemaphorePermit,
    from: IpAddr,
    shares: Arc<Mutex<Shares>>,
    arriving: Option<u64>,
}

/// Permits are for so many bytes.
const UNIT: u64 = 1024;

impl BodyMemory {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { all: Arc::new(Semaphore::new((bytes / UNIT) as usize)), bytes, shares: Arc::default() }
    }

    /// Memory for the request at hand, or the request to come back later. What can never be had is refused as such.
    pub(crate) fn take(&self, bytes: u64) -> Answer<Memory> {
        let units = bytes.div_ceil(UNIT);
        if units > self.bytes / UNIT {
            let detail = format!("{bytes} bytes of memory, and limits.body_memory_bytes is {}", self.bytes);
            return Err(Refusal::new(Code::TooLarge, detail));
        }
        let from = origin();
        self.check_share(from, units)?;
        let permit = self.all.clone().try_acquire_many_owned(units as u32).map_err(|_| busy())?;
        Ok(self.memory(permit, from))
    }

    fn check_share(&self, from: IpAddr, units: u64) -> Answer<()> {
        let own = lock(&self.shares).of.get(&from).copied().unwrap_or(0);
        if own > 0 && own + units > self.bytes / UNIT * 7 / 8 { Err(busy()) } else { Ok(()) }
    }

    fn memory(&self, permit: OwnedSemaphorePermit, from: IpAddr) -> Memory {
        *lock(&self.shares).of.entry(from).or_default() += permit.num_permits() as u64;
        Memory { permit, from, shares: self.shares.clone(), arriving: None }
    }

    /// Memory for a body that begins to come. Others that come slowly give theirs up for it, if their networks have more. What is
    /// returned beside the memory is told if that happens to this one, until [`Memory::arrived`].
    pub(crate) async fn take_for_body(&self, bytes: u64) -> Answer<(Memory, Arc<Notify>)> {
        let mut memory = match self.take(bytes) {
            Ok(memory) => memory,
            Err(refusal) => {
                let (units, from) = (bytes.div_ceil(UNIT), origin());
                if units > self.bytes / UNIT || !lock(&self.shares).give_up(from, units) {
                    return Err(refusal);
                }
                self.check_share(from, units)?;
                // In turn: what is given back is for whoever waits, not for whoever comes next.
                let permit = timeout(WAIT, self.all.clone().acquire_many_owned(units as u32)).await;
                self.memory(permit.ok().and_then(Result::ok).ok_or(refusal)?, from)
            }
        };
        let given_up = Arc::new(Notify::new());
        let mut shares = lock(&self.shares);
        let (id, units) = (shares.next, memory.permit.num_permits() as u64);
        shares.next += 1;
        let arriving =
            Arriving { from: memory.from, units, since: Instant::now(), given_up: given_up.clone() };
        shares.arriving.insert(id, arriving);
        memory.arriving = Some(id);
        Ok((memory, given_up))
    }
}

fn busy() -> Refusal {
    Refusal::new(Code::Busy, "too many bodies are under way")
}

impl Shares {
    /// Gives up so many units of bodies on their way, the oldest of the network that has the most first, as long as that has more
    /// than the one that they are for. Whether there were as many.
    fn give_up(&mut self, from: IpAddr, units: u64) -> bool {
        let own = self.of.get(&from).copied().unwrap_or(0) + units;
        // Of each network: what it has, and its bodies that have had their time, the oldest first.
        let mut late: HashMap<IpAddr, (u64, VecDeque<u64>)> = HashMap::new();
        for (id, one) in self.arriving.iter().filter(|(_, one)| one.since.elapsed() >= GRACE) {
            let has = self.of.get(&one.from).copied().unwrap_or(0);
            late.entry(one.from).or_insert_with(|| (has, VecDeque::new())).1.push_back(*id);
        }
        // The network with the most comes first, and again with what it has left.
        let mut most: BinaryHeap<(u64, IpAddr)> =
            late.iter().map(|(network, (has, _))| (*has, *network)).collect();
        let (mut victims, mut freed) = (Vec::new(), 0);
        while freed < units {
            let Some((has, network)) = most.pop().filter(|(has, _)| *has > own) else { return false };
            let Some(id) = late.get_mut(&network).and_then(|(_, ids)| ids.pop_front()) else { continue };
            let taken = self.arriving.get(&id).map_or(0, |one| one.units);
            freed += taken;
            victims.push(id);
            most.push((has.saturating_sub(taken), network));
        }
        for one in victims.iter().filter_map(|id| self.arriving.remove(id)) {
            one.given_up.notify_one();
        }
        tracing::info!(
            bodies = victims.len(),
            "bodies that come slowly are given up, since others wait for their memory"
        );
        true
    }
}

impl Memory {
    /// Gives back what is beyond so many bytes.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let beyond = self.permit.num_permits().saturating_sub(bytes.div_ceil(UNIT) as usize);
        drop(self.permit.split(beyond));
        self.forget(beyond as u64);
    }

    /// The body is here whole: from now on nobody takes its memory away.
    pub(crate) fn arrived(&mut self) {
        if let Some(id) = self.arriving.take() {
            lock(&self.shares).arriving.remove(&id);
        }
    }

    fn forget(&self, units: u64) {
        let mut shares = lock(&self.shares);
        if let Some(own) = shares.of.get_mut(&self.from) {
            *own = own.saturating_sub(units);
            if *own == 0 {
                shares.of.remove(&self.from);
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.arrived();
        self.forget(self.permit.num_permits() as u64);
    }
}

/// Bytes whose memory is accounted for until they are sent. What the permit is for besides is given back.
pub(crate) fn hold(bytes: Vec<u8>, mut memory: Memory) -> Bytes {
    memory.shrink(bytes.capacity() as u64);
    struct Held(Vec<u8>, #[allow(dead_code, reason = "held, not read")] Memory);
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Held(bytes, memory))
}

/// Memory that a thread takes before it begins with something, and waits for.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Arc<BudgetState>);

#[derive(Debug)]
struct BudgetState {
    bytes: u64,
    delivery: Duration,
    taken: Mutex<Taken>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: u64,
    next: u64,
    /// Answers that are on their way to clients, in the order in which that began.
    deliveries: BTreeMap<u64, Delivery>,
}

#[derive(Debug)]
struct Delivery {
    from: IpAddr,
    bytes: u64,
    since: Instant,
    revoked: Revocable,
}

/// Whether an answer's memory is wanted back: the connection on which it is sent ends then.
#[derive(Debug, Clone, Default)]
pub(crate) struct Revocable(Arc<AtomicBool>);

impl Revocable {
    pub(crate) fn is_revoked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long whoever waits for memory does so before somebody's answer is given up for it.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

impl Budget {
    /// `delivery`: how long an answer may be on its way although others wait for its memory.
    pub(crate) fn new(bytes: u64, delivery: Duration) -> Self {
        Self(Arc::new(BudgetState { bytes, delivery, taken: Mutex::default(), freed: Condvar::new() }))
    }

    /// All that there is.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Waits for memory; none if `goes_on`, which is asked now and then, says no, or if there is never so much. Meanwhile, of the
    /// network that holds the most, the answer that has been on its way for the longest is given up, if it had its time.
    pub(crate) fn wait(&self, bytes: u64, goes_on: impl Fn() -> bool) -> Option<Share> {
        let began = Instant::now();
        let mut last = began;
        loop {
            let mut taken = lock(&self.0.taken);
            if taken.bytes.saturating_add(bytes) <= self.0.bytes {
                taken.bytes += bytes;
                return Some(Share { budget: self.clone(), bytes, delivery: None });
            }
            if last.elapsed() >= PATIENCE {
                last = Instant::now();
                taken.revoke(self.0.delivery);
            }
            drop(self.0.freed.wait_timeout(taken, LOOK));
            if bytes > self.0.bytes || !goes_on() {
                return None;
            }
        }
    }
}

impl Taken {
    fn revoke(&mut self, delivery: Duration) {
        let mut of: HashMap<IpAddr, u64> = HashMap::new();
        for one in self.deliveries.values().filter(|one| !one.revoked.is_revoked()) {
            *of.entry(one.from).or_default() += one.bytes;
        }
        let most = of.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(from, _)| from);
        let mut own =
            self.deliveries.values().filter(|one| Some(one.from) == most && !one.revoked.is_revoked());
        if let Some(oldest) = own.next().filter(|one| one.since.elapsed() >= delivery) {
            oldest.revoked.0.store(true, Ordering::Relaxed);
            tracing::info!("an answer that is taken slowly is given up, since others wait for its memory");
        }
    }
}

/// Some of a budget's memory, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    bytes: u64,
    delivery: Option<u64>,
}

impl Share {
    /// Whether there is so much in all.
    pub(crate) fn could_grow(&self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        lock(&self.budget.0.taken).bytes.saturating_add(more) <= self.budget.0.bytes
    }

    /// Takes more, if there is more.
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        let mut taken = lock(&self.budget.0.taken);
        let more = bytes.saturating_sub(self.bytes);
        let fits = taken.bytes.saturating_add(more) <= self.budget.0.bytes;
        if fits {
            taken.bytes += more;
            self.bytes += more;
        }
        fits
    }

    /// A part of this as a share of its own: what an answer keeps.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: self.budget.clone(), bytes, delivery: None }
    }

    /// From now on this is an answer on its way.
    pub(crate) fn deliver(&mut self, from: IpAddr) -> Revocable {
        let revoked = Revocable::default();
        let mut taken = lock(&self.budget.0.taken);
        let id = taken.next;
        taken.next += 1;
        let (bytes, since) = (self.bytes, Instant::now());
        taken.deliveries.insert(id, Delivery { from, bytes, since, revoked: revoked.clone() });
        self.delivery = Some(id);
        revoked
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = lock(&self.budget.0.taken);
        taken.bytes = taken.bytes.saturating_sub(self.bytes);
        if let Some(id) = self.delivery {
            taken.deliveries.remove(&id);
        }
        drop(taken);
        self.budget.0.freed.notify_all();
    }
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
    fn who_has_many_networks_does_not_make_spent_buckets_full() {
        let buckets = Buckets::new(1);
        while buckets.take(0).is_ok() {}
        for caller in 1..=2 * MAX_BUCKETS as u32 {
            assert!(buckets.take(caller).is_ok());
        }
        assert!(lock(&buckets.buckets).len() <= MAX_BUCKETS);
        assert!(buckets.take(0).is_err());
    }

    #[test]
    fn a_network_has_one_limit() {
        let network = |text: &str| text.parse().map(network).map(|address| address.to_string());
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8:1:2ab:3:4:5:6", "2001:db8:1:200::"),
            ("2001:db8:1:2cd:ffff::", "2001:db8:1:200::"),
            ("2001:db8:1:3ff::1", "2001:db8:1:300::"),
        ] {
            assert_eq!(network(address).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn neighbours_share() {
        let network = |text: &str| text.parse().map(neighbourhood).map(|address| address.to_string());
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.0"),
            ("::ffff:192.0.2.7", "192.0.2.0"),
            ("2001:db8:1:2ab:3:4:5:6", "2001:db8:1:200::"),
            ("2001:db8:1:3ff::1", "2001:db8:1:300::"),
        ] {
            assert_eq!(network(address).as_deref(), Ok(expected));
        }
    }

    #[tokio::test]
    async fn no_network_has_all_the_memory() {
        let memory = BodyMemory::new(80 << 10);
        let take = |address: &str, bytes| {
            let (memory, address) = (memory.clone(), address.parse().unwrap_or(Ipv4Addr::LOCALHOST.into()));
            on_behalf(address, async move { memory.take(bytes) })
        };
        let first = take("192.0.2.1", 60 << 10).await;
        assert!(first.is_ok());
        assert!(take("192.0.2.2", 20 << 10).await.is_err());
        assert!(take("192.0.3.1", 20 << 10).await.is_ok());
        drop(first);
        // One thing alone may be as large as all.
        assert!(take("192.0.2.2", 80 << 10).await.is_ok());
        let never = take("192.0.2.2", 81 << 10).await;
        assert_eq!(never.map_err(|refusal| refusal.code()).err(), Some(Code::TooLarge));
        assert!(lock(&memory.shares).of.is_empty());
    }

    #[test]
    fn a_budget_is_waited_for_and_slow_answers_are_given_up_for_it() {
        let budget = Budget::new(100, Duration::from_secs(30));
        let mut share = budget.wait(60, || true);
        assert!(budget.wait(50, || false).is_none() && budget.wait(101, || true).is_none());
        if let Some(share) = &mut share {
            assert!(share.grow(100) && !share.grow(101));
            let mut answer = share.split(70);
            let revoked = answer.deliver(Ipv4Addr::LOCALHOST.into());
            lock(&budget.0.taken).revoke(Duration::from_secs(30));
            // It has had no time yet.
            assert!(!revoked.is_revoked());
            lock(&budget.0.taken).revoke(Duration::ZERO);
            assert!(revoked.is_revoked());
            drop(answer);
        }
        assert!(budget.wait(71, || false).is_none() && budget.wait(70, || false).is_some());
        drop(share);
        assert!(budget.wait(100, || false).is_some());
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
        assert!(memory.take(2048).is_ok() && memory.take(4096).is_err());
        drop(held);
    }
}
