//! Numbers for operators. Labels are routes, statuses and kinds: never anything of a user, a key or a message.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};
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
    pub(crate) fetch_stopped: Count,
    pub(crate) clock_trouble: Count,
    pub(crate) mirror_behind: Count,
    pub(crate) mirror_lag: Count,
}

fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    add(registry, name, help, Counter::default())
}

fn count(registry: &mut Registry, name: &str, help: &str) -> Count {
    add(registry, name, help, Count::default())
}

fn batches() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 10))
}

fn times() -> Histogram {
    Histogram::new(exponential_buckets(0.000_5, 2.0, 16))
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("restante");
        let r = &mut registry;
        Self {
            requests: add(r, "requests", "Requests by route and status", Family::default()),
            seconds: add(r, "request_seconds", "Time of requests", times()),
            posted: counter(r, "posted", "Messages accepted"),
            replayed: counter(r, "replayed", "Messages that had been accepted before"),
            commits: counter(r, "commits", "Commits of the board"),
            commit_seconds: add(r, "commit_seconds", "Time of a commit", times()),
            commit_batches: add(r, "commit_batches", "Batches that share a commit", batches()),
            messages: count(r, "messages", "Messages on the board"),
            retained_from: count(r, "retained_from", "First message that is kept"),
            connections: count(r, "connections", "Open connections"),
            registrations: count(r, "registrations", "Registered keys"),
            jobs_waiting: count(r, "jobs_waiting", "Jobs in the queue"),
            jobs_done: counter(r, "jobs_done", "Jobs finished"),
            jobs_failed: counter(r, "jobs_failed", "Jobs failed"),
            detected: counter(r, "detected", "Messages times recipients that detection went over"),
            standing_behind: count(r, "standing_behind", "Messages that standing orders have not seen"),
            compact_standing_behind: count(
                r,
                "compact_standing_behind",
                "Messages in full blocks that standing orders of compact keys have not seen",
            ),
            pertinency_blocks: counter(r, "pertinency_blocks", "Pertinency vectors made for standing orders"),
            pertinency_bytes: count(r, "pertinency_bytes", "Bytes of pertinency vectors"),
            fetches: counter(r, "fetches", "Fetch queries answered"),
            searches: counter(r, "searches", "Queries to the directory answered"),
            panics: counter(r, "panics", "Work that panicked: a fault of the program"),
            fetch_stopped: count(
                r,
                "fetch_stopped",
                "1 while there are no new epochs, since messages that would be in them are forgotten",
            ),
            clock_trouble: count(
                r,
                "clock_trouble",
                "1 while the system's clock looks wrong and nothing is deleted for its age",
            ),
            mirror_behind: count(
                r,
                "mirror_behind",
                "Messages that the origin of this mirror has signed for and that are not here",
            ),
            mirror_lag: count(
                r,
                "mirror_lag_seconds",
                "Seconds since this mirror had everything that its origin had, or since it started; 0 on a relay that is no mirror",
            ),
            disk_free: count(r, "disk_free_bytes", "Free space for the data directory"),
            registry,
        }
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
