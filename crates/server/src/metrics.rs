//! Numbers for operators. Labels are routes, statuses and kinds: never anything of a user, a key or a message.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use restante_wire::relay::Posted;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    method: &'static str,
    route: String,
    status: u16,
}

type Count = Gauge<u64, AtomicU64>;

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Route, Counter>,
    seconds: Histogram,
    posted: Counter,
    replayed: Counter,
    commits: Counter,
    commit_seconds: Histogram,
    commit_batches: Histogram,
    pub(crate) messages: Count,
    pub(crate) retained_from: Count,
    pub(crate) connections: Count,
    pub(crate) registrations: Count,
    pub(crate) jobs_waiting: Count,
    pub(crate) jobs_done: Counter,
    pub(crate) jobs_failed: Counter,
    pub(crate) detected: Counter,
    pub(crate) standing_behind: Count,
    pub(crate) compact_standing_behind: Count,
    pub(crate) pertinency_blocks: Counter,
    pub(crate) pertinency_bytes: Count,
    pub(crate) fetches: Counter,
    pub(crate) searches: Counter,
    pub(crate) disk_free: Count,
    pub(crate) panics: Counter,
    pub(crate) clock_trouble: Count,
    pub(crate) mirror_behind: Count,
    pub(crate) mirror_lag: Count,
}

fn times() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 16))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut this = Self {
            registry: Registry::with_prefix("restante"),
            requests: Family::default(),
            seconds: times(),
            posted: Counter::default(),
            replayed: Counter::default(),
            commits: Counter::default(),
            commit_seconds: times(),
            commit_batches: Histogram::new(exponential_buckets(1.0, 2.0, 10)),
            messages: Count::default(),
            retained_from: Count::default(),
            connections: Count::default(),
            registrations: Count::default(),
            jobs_waiting: Count::default(),
            jobs_done: Counter::default(),
            jobs_failed: Counter::default(),
            detected: Counter::default(),
            standing_behind: Count::default(),
            compact_standing_behind: Count::default(),
            pertinency_blocks: Counter::default(),
            pertinency_bytes: Count::default(),
            fetches: Counter::default(),
            searches: Counter::default(),
            disk_free: Count::default(),
            panics: Counter::default(),
            clock_trouble: Count::default(),
            mirror_behind: Count::default(),
            mirror_lag: Count::default(),
        };
        let r = &mut this.registry;
        r.register("requests", "Requests by route and status", this.requests.clone());
        r.register("request_seconds", "Time of requests", this.seconds.clone());
        r.register("posted", "Messages accepted", this.posted.clone());
        r.register("replayed", "Messages that had been accepted before", this.replayed.clone());
        r.register("commits", "Commits of the board", this.commits.clone());
        r.register("commit_seconds", "Time of a commit", this.commit_seconds.clone());
        r.register("commit_batches", "Batches that share a commit", this.commit_batches.clone());
        r.register("messages", "Messages on the board", this.messages.clone());
        r.register("retained_from", "First message that is kept", this.retained_from.clone());
        r.register("connections", "Open connections", this.connections.clone());
        r.register("registrations", "Registered keys", this.registrations.clone());
        r.register("jobs_waiting", "Jobs in the queue", this.jobs_waiting.clone());
        r.register("jobs_done", "Jobs finished", this.jobs_done.clone());
        r.register("jobs_failed", "Jobs failed", this.jobs_failed.clone());
        r.register("detected", "Messages times recipients that detection went over", this.detected.clone());
        r.register(
            "standing_behind",
            "Messages that standing orders have not seen",
            this.standing_behind.clone(),
        );
        r.register(
            "compact_standing_behind",
            "Messages in full blocks that standing orders of compact keys have not seen",
            this.compact_standing_behind.clone(),
        );
        r.register(
            "pertinency_blocks",
            "Pertinency vectors made for standing orders",
            this.pertinency_blocks.clone(),
        );
        r.register("pertinency_bytes", "Bytes of pertinency vectors", this.pertinency_bytes.clone());
        r.register("fetches", "Fetch queries answered", this.fetches.clone());
        r.register("searches", "Queries to the directory answered", this.searches.clone());
        r.register("panics", "Work that panicked: a fault of the program", this.panics.clone());
        r.register(
            "clock_trouble",
            "1 while the system's clock looks wrong and nothing is deleted for its age",
            this.clock_trouble.clone(),
        );
        r.register(
            "mirror_behind",
            "Messages that the origin of this mirror has signed for and that are not here",
            this.mirror_behind.clone(),
        );
        r.register(
            "mirror_lag_seconds",
            "Seconds since this mirror had everything that its origin had, or since it started; 0 on a relay that is no mirror",
            this.mirror_lag.clone(),
        );
        r.register("disk_free_bytes", "Free space for the data directory", this.disk_free.clone());
        this
    }

    pub(crate) fn request(&self, method: &'static str, route: String, status: u16, time: Duration) {
        self.requests.get_or_create(&Route { method, route, status }).inc();
        self.seconds.observe(time.as_secs_f64());
    }

    pub(crate) fn posted(&self, messages: &[Posted]) {
        let replayed = messages.iter().filter(|message| message.replayed).count() as u64;
        self.replayed.inc_by(replayed);
        self.posted.inc_by(messages.len() as u64 - replayed);
    }

    pub(crate) fn commit(&self, time: Duration, batches: usize) {
        self.commits.inc();
        self.commit_seconds.observe(time.as_secs_f64());
        self.commit_batches.observe(batches as f64);
    }

    /// Everything as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An alert on a metric that does not exist never fires.
    #[test]
    fn alerts_and_documents_name_metrics_that_exist() {
        let metrics = Metrics::new();
        metrics.request("GET", "/".into(), 200, Duration::from_millis(1));
        let text = metrics.text();
        let mut names = 0;
        for document in
            [include_str!("../../../deploy/alerts.yml"), include_str!("../../../docs/operating.md")]
        {
            for part in document.split("restante_").skip(1) {
                let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(part.len());
                let name = format!("restante_{}", &part[..end]);
                assert!(text.contains(&name), "{name}");
                names += 1;
            }
        }
        assert!(names > 20, "{names}");
    }
}
