//! The costs of a relay, from measured rates.

/// The expected load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Registered recipients.
    pub users: u64,
    /// Messages that are posted in a day.
    pub messages_per_day: u64,
    /// Bytes of a payload, on average.
    pub payload_bytes: u64,
    /// Days for which messages are kept.
    pub days: u64,
}

/// Measured rates: `restante bench detect-stream` with as many recipients as share a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Seconds of one core for one message and one recipient, when many share a pass.
    pub seconds_per_message_and_user: f64,
    /// Seconds of one core for one message, whatever the recipients of a pass.
    pub seconds_per_message: f64,
    /// Seconds of one core to prepare a key for a pass.
    pub seconds_per_key: f64,
}

impl Rates {
    /// Measured with the AVX2 back end on one core of an AMD Zen 4, with other work beside it, as a plan had better be too high: 11.6 us
    /// a message for one recipient, 0.76 us for each of 32. Both are rounded up, and so is preparing a key.
    pub const MEASURED: Self =
        Self { seconds_per_message_and_user: 0.6e-6, seconds_per_message: 14e-6, seconds_per_key: 0.01 };
}

/// Sizes that follow from the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a clue.
    pub clue_bytes: u64,
    /// Bytes of a detection key's file.
    pub key_bytes: u64,
    /// Messages of a block.
    pub block: u64,
    /// Bytes of a digest for one block.
    pub block_bytes: u64,
    /// Bytes of a prepared key.
    pub prepared_bytes: u64,
    /// Recipients that share a pass.
    pub keys_per_pass: u64,
}

/// The costs, on one machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Seconds of one core in a day.
    pub cpu_seconds_per_day: f64,
    /// Cores that are busy all day.
    pub cores: f64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of disk for the messages that are kept.
    pub board_bytes: u64,
    /// Bytes of disk for stream keys and for the standing digests of the messages that are kept.
    pub user_bytes: u64,
    /// Bytes that come in in a day.
    pub received_bytes_per_day: u64,
    /// Seconds of one core in a day for phase 1 of the day's messages as they come, for one recipient of compact digests.
    pub compact_phase1_seconds: f64,
    /// Seconds of one core for phase 2 of the day's messages: what each request takes that finds phase 1 done.
    pub compact_phase2_seconds: f64,
    /// Bytes of disk for one recipient of compact digests: its key, and a pertinency vector for each block that is kept.
    pub compact_bytes: u64,
    /// Bytes that go out in a day, if everybody reads its digests once, and as many messages as are posted are read.
    pub sent_bytes_per_day: u64,
    /// Cores that are busy all day if everybody had compact digests instead, and asked for one a day.
    pub compact_cores: f64,
    /// Private fetch as recommended.
    pub fetch: FetchPlan,
}

/// Private fetch: what an epoch is recommended to be, and what it costs each of the two relays and a client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FetchPlan {
    /// Bytes of a record: a whole message, and room to the next hundred.
    pub record_bytes: u64,
    /// Messages from one epoch's end to the next: a day's, but at most 65,536.
    pub messages: u64,
    /// Messages of an epoch: those of a week.
    pub window: u64,
    /// Bytes of disk for the two epochs that are kept and the one that is being made.
    pub disk_bytes: u64,
    /// Bytes that are written in a day, if an epoch ends every hour.
    pub written_bytes_per_day: u64,
    /// Cores that are busy all day, if everybody fetches once an hour.
    pub cores: f64,
    /// Bytes that a client downloads for an epoch before it can fetch.
    pub catalog_bytes: u64,
    /// Bytes of the two queries and answers of a round.
    pub round_bytes: u64,
}

/// Bytes that a message takes beside its clue and payload: index row, id.
const ROW_BYTES: u64 = 72 + 160;
/// Messages of a block of compact digests.
const COMPACT_BLOCK: u64 = 65_536;
/// Seconds of one core for phase 1 of a block, for one recipient: `restante bench detect-compact`, on the same core. Recipients that
/// share a pass take less.
const COMPACT_PHASE1_SECONDS: f64 = 32.9;
/// Seconds of one core to prepare a compact key for a pass.
const COMPACT_KEY_SECONDS: f64 = 8.0;
/// Seconds of one core for phase 2 of a block with indices only, and for each byte of a payload beside that: 11.8 s were measured with 612.
const COMPACT_PHASE2_SECONDS: f64 = 1.9;
const COMPACT_PHASE2_SECONDS_PER_BYTE: f64 = (11.8 - 1.9) / 612.0;
/// The payload bytes that a compact digest has room for.
const COMPACT_PAYLOAD_BYTES: u64 = 4096;
/// Bytes of a compact key, and of the pertinency vector of a block, rounded up.
const COMPACT_KEY_BYTES: u64 = 162_000_000;
const COMPACT_VECTOR_BYTES: u64 = 1_740_000;
/// Fetches of a client's round, and rounds in a day.
const FETCHES: u64 = 32;
const ROUNDS_PER_DAY: u64 = 24;
/// Seconds of one core for each byte of an epoch and each of many fetches that share a pass: `restante bench fetch`, 1 GiB of 1 KiB
/// records, 16 ms a fetch.
const FETCH_SECONDS_PER_BYTE: f64 = 16e-3 / (1u64 << 30) as f64;
/// Bytes of a fetch in a query, and those of a query and an answer beside that.
const FETCH_KEY_BYTES: u64 = 424;
const FETCH_FRAME_BYTES: u64 = 174;
/// Bytes of memory that a relay takes without anybody.
const BASE_BYTES: u64 = 384 << 20;
/// Blocks of a pass of standing orders, whose digests are in memory at once.
const PASS_BLOCKS: u64 = 16;
/// Bytes of memory for the clues of a block that a thread works on, encoded.
const THREAD_BYTES: u64 = 60 << 20;

impl Plan {
    /// The plan for a demand. Everybody has a standing order; blocks are full when they are detected.
    pub fn new(demand: &Demand, rates: &Rates, sizes: &Sizes) -> Self {
        let Demand { users, messages_per_day, payload_bytes, days } = *demand;
        let groups = users.div_ceil(sizes.keys_per_pass.max(1)).max(1);
        let blocks_per_day = messages_per_day.div_ceil(sizes.block.max(1));
        let pairs = messages_per_day as f64 * users as f64;
        let cpu_seconds_per_day = pairs * rates.seconds_per_message_and_user
            + messages_per_day as f64 * groups as f64 * rates.seconds_per_message
            + blocks_per_day as f64 * users as f64 * rates.seconds_per_key;
        let message_bytes = sizes.clue_bytes + payload_bytes;
        let digests_per_day = blocks_per_day.saturating_mul(users).saturating_mul(sizes.block_bytes);
        let cores = cpu_seconds_per_day / 86_400.0;
        // A thread's sums take a sixteenth of the prepared keys of a pass.
        let thread_bytes = THREAD_BYTES + sizes.keys_per_pass * sizes.prepared_bytes / 16;
        // A block is done whole.
        let compact_blocks = messages_per_day.div_ceil(COMPACT_BLOCK) as f64;
        let compact_payload_bytes = payload_bytes.min(COMPACT_PAYLOAD_BYTES) as f64;
        let phase1_seconds = compact_blocks * (COMPACT_PHASE1_SECONDS + COMPACT_KEY_SECONDS);
        let phase2_seconds = compact_blocks
            * (COMPACT_PHASE2_SECONDS + compact_payload_bytes * COMPACT_PHASE2_SECONDS_PER_BYTE);
        Self {
            cpu_seconds_per_day,
            cores,
            memory_bytes: BASE_BYTES
                + 2 * sizes.keys_per_pass * sizes.prepared_bytes
                + sizes.keys_per_pass * PASS_BLOCKS * sizes.block_bytes
                + cores.ceil() as u64 * thread_bytes
                + users * 2048,
            compact_phase1_seconds: phase1_seconds,
            compact_phase2_seconds: phase2_seconds,
            compact_bytes: COMPACT_KEY_BYTES.saturating_add(
                messages_per_day
                    .saturating_mul(days)
                    .div_ceil(COMPACT_BLOCK)
                    .saturating_mul(COMPACT_VECTOR_BYTES),
            ),
            board_bytes: (message_bytes + ROW_BYTES).saturating_mul(messages_per_day).saturating_mul(days),
            user_bytes: users
                .saturating_mul(sizes.key_bytes)
                .saturating_add(digests_per_day.saturating_mul(days)),
            received_bytes_per_day: (message_bytes + 20).saturating_mul(messages_per_day),
            sent_bytes_per_day: digests_per_day
                .saturating_add(message_bytes.saturating_mul(messages_per_day)),
            compact_cores: users as f64 * (phase1_seconds + phase2_seconds) / 86_400.0,
            fetch: FetchPlan::new(demand, sizes),
        }
    }
}

impl FetchPlan {
    fn new(demand: &Demand, sizes: &Sizes) -> Self {
        let Demand { users, messages_per_day, payload_bytes, .. } = *demand;
        let record_bytes = (sizes.clue_bytes + payload_bytes + 4).next_multiple_of(100);
        let messages = messages_per_day.clamp(1, 65_536).next_power_of_two();
        let window = messages_per_day.saturating_mul(7).max(1).div_ceil(messages).saturating_mul(messages);
        let epoch_bytes = window.saturating_mul(record_bytes + 32);
        let fetches = users.saturating_mul(FETCHES * ROUNDS_PER_DAY) as f64;
        Self {
            record_bytes,
            messages,
            window,
            disk_bytes: epoch_bytes.saturating_mul(3),
            written_bytes_per_day: epoch_bytes.saturating_mul(24),
            cores: fetches * epoch_bytes as f64 * FETCH_SECONDS_PER_BYTE / 86_400.0,
            catalog_bytes: window.saturating_mul(32),
            round_bytes: 2 * (FETCHES * (FETCH_KEY_BYTES + record_bytes) + FETCH_FRAME_BYTES),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_grow_with_what_they_are_for() {
        let sizes = Sizes {
            clue_bytes: 2569,
            key_bytes: 273_000,
            block: 4096,
            block_bytes: 52_328,
            prepared_bytes: 4_259_840,
            keys_per_pass: 32,
        };
        let demand = Demand { users: 1000, messages_per_day: 65_536, payload_bytes: 1536, days: 30 };
        let plan = Plan::new(&demand, &Rates::MEASURED, &sizes);
        let expected = 65_536.0 * (1000.0 * 0.6e-6 + 32.0 * 14e-6) + 16.0 * 1000.0 * 0.01;
        assert!((plan.cpu_seconds_per_day - expected).abs() < 1e-6);
        assert_eq!(plan.received_bytes_per_day, 65_536 * (2569 + 1536 + 20));
        assert!((plan.compact_phase1_seconds - 40.9).abs() < 1e-6);
        assert!((plan.compact_phase2_seconds - (1.9 + 9.9 * 1536.0 / 612.0)).abs() < 1e-6);
        assert_eq!(plan.compact_bytes, 162_000_000 + 30 * 1_740_000);
        let fetch = plan.fetch;
        assert_eq!((fetch.record_bytes, fetch.messages, fetch.window), (4200, 65_536, 7 * 65_536));
        assert_eq!(fetch.catalog_bytes, 7 * 65_536 * 32);
        assert!((plan.compact_cores - 1000.0 * (40.9 + 1.9 + 9.9 * 1536.0 / 612.0) / 86_400.0).abs() < 1e-9);
        // A block is done whole, whatever is in it, and more of a payload than a digest has room for costs nothing.
        let more = Demand { messages_per_day: 65_537, payload_bytes: 10_000, ..demand };
        let more = Plan::new(&more, &Rates::MEASURED, &sizes);
        assert!((more.compact_phase1_seconds - 81.8).abs() < 1e-6);
        assert!((more.compact_phase2_seconds - 2.0 * (1.9 + 9.9 * 4096.0 / 612.0)).abs() < 1e-6);
        let twice = Plan::new(&Demand { days: 60, ..demand }, &Rates::MEASURED, &sizes);
        assert_eq!(twice.board_bytes, 2 * plan.board_bytes);
        assert_eq!(twice.memory_bytes, plan.memory_bytes);
    }
}
