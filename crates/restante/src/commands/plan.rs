//! `restante plan`.

use restante_omr::stream::{BLOCK, DetectionKey, PreparedKey, StreamDigest};
use restante_server::plan::{Demand, Plan, Rates, Sizes};

use crate::{arguments::PlanArguments, error::CliError, report::Report, session::Session};

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
    let plan = Plan::new(&demand, &rates, &sizes);
    Report::new()
        .with("users", demand.users)
        .with("messages_per_day", demand.messages_per_day)
        .with("days_kept", demand.days)
        .with("cpu_seconds_per_day", plan.cpu_seconds_per_day.round())
        .with("cores_busy_all_day", (plan.cores * 1000.0).round() / 1000.0)
        .with("memory_bytes", plan.memory_bytes)
        .with("disk_bytes_for_messages", plan.board_bytes)
        .with("disk_bytes_for_users", plan.user_bytes)
        .with("compact_phase1_core_seconds_per_recipient_and_day", plan.compact_phase1_seconds.round())
        .with("compact_phase2_core_seconds_per_request_of_a_day", plan.compact_phase2_seconds.round())
        .with("compact_disk_bytes_per_recipient", plan.compact_bytes)
        .with("received_bytes_per_day", plan.received_bytes_per_day)
        .with("sent_bytes_per_day", plan.sent_bytes_per_day)
        .print(session)
}
