//! `restante search plan`.

use restante_pir::search::{Plan, RecordSizes};
use restante_tables::{Schema, measure};

use crate::{
    arguments::SearchPlanArguments, commands::search::table, error::CliError, report::Report,
    session::Session,
};

pub fn run(session: &Session, arguments: &SearchPlanArguments) -> Result<(), CliError> {
    if arguments.table.follow {
        return Err(CliError::Usage("--follow: a plan is made from a whole table".into()));
    }
    let schema = Schema::open(&arguments.table.schema)?;
    let measured = table::with_rows(&arguments.table, &schema, |mut rows| Ok(measure(&mut *rows, &schema)?))?;
    let limit = arguments.hits.map_or(u64::MAX, u64::from);
    let sizes = RecordSizes { max_hits: measured.sizes.max_hits.min(limit), ..measured.sizes };
    let chunk_bytes = arguments.chunk_bytes as usize;
    let plan = match arguments.hash_bits {
        Some(bits) => Plan::predict(&sizes, bits, chunk_bytes)?,
        None => Plan::recommend(&sizes, chunk_bytes)?,
    };
    Report::new()
        .with("schema_id", schema.id().to_string())
        .with("records", sizes.records)
        .with("rows_without_selector", measured.unselected)
        .with("mean_record_bytes", (sizes.mean_bytes * 10.0).round() / 10.0)
        .with("max_record_bytes", sizes.max_bytes)
        .with("max_hits", measured.sizes.max_hits)
        .with("chunk_bytes", chunk_bytes)
        .with("hash_bits", plan.hash_bits)
        .with("mean_records_per_bucket", (plan.mean_records * 1000.0).round() / 1000.0)
        .with("max_records_per_bucket", plan.max_records)
        .with("columns", plan.columns)
        .print(session)
}
