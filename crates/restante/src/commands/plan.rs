//! `restante plan`: what a relay takes, in sentences.

use restante_omr::stream::{BLOCK, DetectionKey, PreparedKey, StreamDigest};
use restante_server::plan::{Demand, Plan, Rates, Sizes};
use restante_server::{CompactConfig, Config, FetchConfig, Limits};

use crate::{
    arguments::PlanArguments,
    error::CliError,
    report::{Report, print_line},
    session::Session,
    units::{bits_per_second, bytes, count, decimal, seconds},
};

/// The busiest hour is taken to have so many times the average.
const PEAK: f64 = 4.0;
/// The machine on which it is said what runs out first.
const MACHINE: Machine = Machine { cores: 16.0, memory: 64e9, disk: 4e12, bits: 1e9 };

struct Machine {
    cores: f64,
    memory: f64,
    disk: f64,
    bits: f64,
}

pub fn run(session: &Session, arguments: &PlanArguments) -> Result<(), CliError> {
    let context = session.stream_context(arguments.clue.clue)?;
    let sizes = Sizes {
        clue_bytes: arguments.clue.clue.clue_bytes() as u64,
        key_bytes: DetectionKey::file_bytes(&context) as u64,
        block: BLOCK as u64,
        block_bytes: StreamDigest::file_bytes(&context, BLOCK as u64) as u64,
        prepared_bytes: PreparedKey::memory_bytes(&context) as u64,
        keys_per_pass: arguments.keys_per_pass,
    };
    let demand = Demand {
        users: arguments.users,
        messages_per_day: arguments.messages_per_day,
        payload_bytes: arguments.payload_bytes,
        days: arguments.days,
    };
    let mut rates = Rates::MEASURED;
    if let Some(microseconds) = arguments.microseconds {
        if !(microseconds.is_finite() && microseconds > 0.0) {
            return Err(CliError::Usage(format!(
                "--microseconds is {microseconds}, expected a positive number"
            )));
        }
        rates.seconds_per_message_and_user = microseconds * 1e-6;
    }
    let answer = Answer { plan: Plan::new(&demand, &rates, &sizes), demand, sizes };
    if session.json { answer.report().print(session.json) } else { print_line(&answer.text()) }
}

/// The question, and the costs.
struct Answer {
    demand: Demand,
    sizes: Sizes,
    plan: Plan,
}

impl Answer {
    fn report(&self) -> Report {
        let (plan, demand, fetch) = (&self.plan, &self.demand, &self.plan.fetch);
        let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
        Report::new()
            .with("users", demand.users)
            .with("messages_per_day", demand.messages_per_day)
            .with("days_kept", demand.days)
            .with("cpu_seconds_per_day", plan.cpu_seconds_per_day.round())
            .with("cores_busy_all_day", rounded(plan.cores))
            .with("memory_bytes", plan.memory_bytes)
            .with("disk_bytes_for_messages", plan.board_bytes)
            .with("disk_bytes_for_users", plan.user_bytes)
            .with("compact_phase1_core_seconds_per_recipient_and_day", plan.compact_phase1_seconds.round())
            .with("compact_phase2_core_seconds_per_request_of_a_day", plan.compact_phase2_seconds.round())
            .with("compact_disk_bytes_per_recipient", plan.compact_bytes)
            .with("compact_cores_for_all_users", rounded(plan.compact_cores))
            .with("received_bytes_per_day", plan.received_bytes_per_day)
            .with("sent_bytes_per_day", plan.sent_bytes_per_day)
            .with("peak_received_bits_per_second", self.peak_bits(plan.received_bytes_per_day).round())
            .with("peak_sent_bits_per_second", self.peak_bits(plan.sent_bytes_per_day).round())
            .with("fetch_record_bytes", fetch.record_bytes)
            .with("fetch_messages", fetch.messages)
            .with("fetch_window", fetch.window)
            .with("fetch_seconds", FetchConfig::DEFAULT_SECONDS)
            .with("fetch_disk_bytes", fetch.disk_bytes)
            .with("fetch_written_bytes_per_day", fetch.written_bytes_per_day)
            .with("fetch_cores", rounded(fetch.cores))
            .with("fetch_catalog_bytes", fetch.catalog_bytes)
            .with("fetch_round_bytes", fetch.round_bytes)
            .with("raise", self.raised().into_iter().map(|(field, _, _)| field).collect::<Vec<_>>())
            .with("runs_out_first", self.first_to_run_out().0)
            .with("configuration", self.configuration())
    }

    fn text(&self) -> String {
        let paragraphs = [
            self.needs(),
            self.disk(),
            self.network(),
            self.latency(),
            self.fetch(),
            self.compact(),
            self.limits(),
            self.breaks(),
        ];
        let configuration = self.configuration();
        format!("{}\n\nRecommended configuration:\n\n{configuration}", paragraphs.join("\n"))
    }

    fn needs(&self) -> String {
        let (plan, demand) = (&self.plan, &self.demand);
        format!(
            "{} users and {} messages a day, kept for {} days, need {} cores, {} of memory and {} of disk.",
            count(demand.users),
            count(demand.messages_per_day),
            count(demand.days),
            decimal(plan.cores),
            bytes(plan.memory_bytes as f64),
            bytes(self.disk_bytes()),
        )
    }

    fn disk_bytes(&self) -> f64 {
        self.plan.board_bytes as f64 + self.plan.user_bytes as f64
    }

    fn disk(&self) -> String {
        let (plan, all) = (&self.plan, self.disk_bytes());
        let digests =
            (plan.user_bytes as f64 - self.demand.users as f64 * self.sizes.key_bytes as f64).max(0.0);
        let advice = if digests > all / 2.0 {
            " They are most of it: keep messages for fewer days (retention.seconds), or let fewer users have standing orders."
        } else {
            ""
        };
        format!(
            "Disk: {} for messages, {} for keys and standing digests of all users, a new one for each block of {} messages.{advice}",
            bytes(plan.board_bytes as f64),
            bytes(plan.user_bytes as f64),
            count(self.sizes.block),
        )
    }

    fn peak_bits(&self, bytes_per_day: u64) -> f64 {
        bytes_per_day as f64 * 8.0 / 86_400.0 * PEAK
    }

    fn network(&self) -> String {
        let (plan, demand) = (&self.plan, &self.demand);
        let average = |amount: u64| bits_per_second(self.peak_bits(amount) / PEAK);
        format!(
            "Network: {} in and {} out on average; {} and {} in an hour with {PEAK} times the average, when {} messages come a second.",
            average(plan.received_bytes_per_day),
            average(plan.sent_bytes_per_day),
            bits_per_second(self.peak_bits(plan.received_bytes_per_day)),
            bits_per_second(self.peak_bits(plan.sent_bytes_per_day)),
            decimal(demand.messages_per_day as f64 / 86_400.0 * PEAK),
        )
    }

    fn latency(&self) -> String {
        let standing = Config::default().standing_seconds;
        format!(
            "Latency: a message is in a standing digest {} after it was posted, in an epoch of private fetch after {} at most, and with \
             whole delivery at once; the client's own rounds come on top.",
            seconds(standing as f64),
            seconds(FetchConfig::DEFAULT_SECONDS as f64),
        )
    }

    fn fetch(&self) -> String {
        let fetch = &self.plan.fetch;
        format!(
            "Private fetch, on each of the two relays: {} cores if every user fetches once an hour, {} of disk, {} written a day. A client \
             downloads {} for each epoch that it fetches from, and {} in a round.",
            decimal(fetch.cores),
            bytes(fetch.disk_bytes as f64),
            bytes(fetch.written_bytes_per_day as f64),
            bytes(fetch.catalog_bytes as f64),
            bytes(fetch.round_bytes as f64),
        )
    }

    fn compact(&self) -> String {
        let plan = &self.plan;
        format!(
            "Compact digests instead, for all users once a day: {} cores, {} of disk; for one user {} of a core a day and {} of disk.",
            decimal(plan.compact_cores),
            bytes(plan.compact_bytes as f64 * self.demand.users as f64),
            seconds(plan.compact_phase1_seconds + plan.compact_phase2_seconds),
            bytes(plan.compact_bytes as f64),
        )
    }

    /// Limits that are too low for the demand, each with what it is and should be.
    fn raised(&self) -> Vec<(&'static str, u64, u64)> {
        let (limits, users) = (Limits::default(), self.demand.users);
        // A tenth more than there are, and some for those who register twice.
        let room = |users: u64| users.saturating_add(users / 8).saturating_add(100);
        let each_hour = users.div_ceil(60);
        let needs = [
            ("limits.keys", limits.keys as u64, if users > limits.keys as u64 { room(users) } else { 0 }),
            // Everybody has a connection open for a minute of each hour, and most of them in the same ten minutes.
            ("limits.connections", limits.connections as u64, each_hour.saturating_mul(6)),
        ];
        needs.into_iter().filter(|(_, default, needed)| needed > default).collect()
    }

    fn limits(&self) -> String {
        let users = self.demand.users;
        let compact = CompactConfig::default().keys as u64;
        let mut lines: Vec<String> = self
            .raised()
            .into_iter()
            .map(|(field, default, needed)| format!("{field} from {} to {}", count(default), count(needed)))
            .collect();
        let raised = if lines.is_empty() {
            "Limits: the defaults suffice".into()
        } else {
            format!("Limits that must be raised: {}", std::mem::take(&mut lines).join(", "))
        };
        if users > compact {
            format!(
                "{raised}; with compact digests for all, compact.keys from {compact} to {} as well.",
                count(users)
            )
        } else {
            format!("{raised}.")
        }
    }

    /// The resource that runs out first on [`MACHINE`], and how many times of it are needed.
    fn first_to_run_out(&self) -> (&'static str, f64) {
        let (plan, fetch) = (&self.plan, &self.plan.fetch);
        let shares = [
            ("cores", (plan.cores + fetch.cores) * PEAK / MACHINE.cores),
            ("memory", plan.memory_bytes as f64 / MACHINE.memory),
            ("disk", (self.disk_bytes() + fetch.disk_bytes as f64) / MACHINE.disk),
            (
                "network",
                self.peak_bits(plan.received_bytes_per_day.max(plan.sent_bytes_per_day)) / MACHINE.bits,
            ),
        ];
        shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("disk", 0.0))
    }

    fn breaks(&self) -> String {
        let (what, share) = self.first_to_run_out();
        let Machine { cores, memory, disk, bits } = MACHINE;
        let machine = format!(
            "{cores} cores, {} of memory, {} of disk and {}",
            bytes(memory),
            bytes(disk),
            bits_per_second(bits)
        );
        let kept = if share > 1.0 {
            format!("{} times what it has", decimal(share))
        } else {
            format!("{} % of what it has", decimal(share * 100.0))
        };
        format!(
            "On a machine with {machine} the {what} run{} out first: the peak needs {kept}.",
            if what == "cores" { "" } else { "s" }
        )
    }

    /// The part of a configuration in which this demand differs from the defaults.
    fn configuration(&self) -> String {
        let (demand, fetch) = (&self.demand, &self.plan.fetch);
        let raised = self.raised().into_iter().map(|(field, _, needed)| {
            let name = field.trim_start_matches("limits.");
            format!("{name} = {needed}\n")
        });
        let mut limits: String = raised.collect();
        if self.sizes.keys_per_pass != Limits::default().keys_per_pass as u64 {
            limits.push_str(&format!("keys_per_pass = {}\n", self.sizes.keys_per_pass));
        }
        if !limits.is_empty() {
            limits.insert_str(0, "[limits]\n");
            limits.push('\n');
        }
        format!(
            "[retention]\nseconds = \"{} days\"\n\n{limits}# On both relays of a pair; server is 1 on the other.\n[fetch]\n\
             record_bytes = {}\npart = \"message\"\nmessages = {}\nwindow = {}\nseconds = \"1 h\"\nserver = 0",
            demand.days, fetch.record_bytes, fetch.messages, fetch.window
        )
    }
}
