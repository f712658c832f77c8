//! `restante search plan`.

use restante_bench::kernels::SearchKernels;
use restante_pir::search::{
    AnswerNote, MIN_HASH_BITS, Plan, Preset, QueryNote, RecordSizes, Scheme, SelectorKind, Shape,
};
use restante_tables::{Schema, Selector, measure};

use super::{query, table};
use crate::{
    arguments::SearchPlanArguments,
    error::CliError,
    report::{Report, note},
    session::Session,
};

/// How much longer a pass takes than its kernels alone: `bench search` prints it as `limit_ratio`.
const OVERHEAD: f64 = 1.7;

pub fn run(session: &Session, arguments: &SearchPlanArguments) -> Result<(), CliError> {
    if arguments.table.follow {
        return Err(CliError::Usage("--follow: a plan is made from a whole table".into()));
    }
    let schema = Schema::open(&arguments.table.schema)?;
    let measured = table::with_rows(&arguments.table, &schema, |mut rows| {
        Ok(measure(&mut *rows, &schema, arguments.skip_malformed)?)
    })?;
    if let (Selector::Field { .. }, true) = (schema.selector(), measured.empty > 1) {
        note!(
            "restante: {} records have the empty text as selector, which is a selector as any other; if an empty cell says that there \
             is none, write null = \"\" under [csv] in the schema",
            measured.empty
        );
    }
    let limit = arguments.hits.map_or(u64::MAX, u64::from);
    let sizes = RecordSizes { max_hits: measured.sizes.max_hits.min(limit), ..measured.sizes };
    let scheme = Scheme::new(Preset::standard(), session.backend)?;
    let selectors = usize::from(arguments.selectors);
    let sharing = arguments.sharing.map_or_else(|| query::sharing(selectors), usize::from);
    let chunk_bytes = Shape::new(MIN_HASH_BITS, sharing)?.chunk_bytes(scheme.preset());
    let plan = match arguments.hash_bits {
        Some(bits) => Plan::predict(&sizes, bits, chunk_bytes)?,
        None => Plan::recommend(&sizes, chunk_bytes)?,
    };
    let shape = Shape::new(plan.hash_bits, sharing)?;
    let occupied = occupied_buckets(&sizes, plan.hash_bits);
    // A bucket's mean size says how many of its columns hold something.
    let filled =
        (sizes.records as f64 * (sizes.mean_bytes + 16.0) / occupied.max(1.0) / chunk_bytes as f64).max(1.0);
    let chunks = (occupied * filled.ceil().min(f64::from(plan.columns.max(1)))).round();
    let groups = shape.groups(selectors);
    let threads = session.runner.threads();
    let seconds = chunks * SearchKernels::measure(&scheme)?.chunk_seconds(groups) * OVERHEAD / threads as f64;
    Report::new()
        .with("schema_id", schema.id().to_string())
        .with("records", sizes.records)
        .with("rows_without_selector", measured.unselected)
        .with("rows_with_empty_selector", measured.empty)
        .with("skipped_rows", measured.malformed)
        .with("skipped_bytes", measured.malformed_bytes)
        .with("mean_record_bytes", (sizes.mean_bytes * 10.0).round() / 10.0)
        .with("max_record_bytes", sizes.max_bytes)
        .with("max_hits", measured.sizes.max_hits)
        .with("chunk_bytes", chunk_bytes)
        .with("hash_bits", plan.hash_bits)
        .with("mean_records_per_bucket", (plan.mean_records * 1000.0).round() / 1000.0)
        .with("max_records_per_bucket", plan.max_records)
        .with("columns", plan.columns)
        .with("selectors", selectors)
        .with("sharing", sharing)
        .with("query_bytes", shape.query_bytes(&scheme, selectors, QueryNote::bytes(&schema.agreement())))
        .with("answer_bytes", shape.answer_bytes(&scheme, selectors, plan.columns, AnswerNote::BYTES))
        .with("query_memory_bytes", shape.prepared_bytes(scheme.preset(), selectors, true))
        .with("working_memory_bytes", shape.working_bytes(scheme.preset(), groups, plan.columns, threads))
        .with("chunks", chunks as u64)
        .with("threads", threads)
        .with("estimated_search_seconds", (seconds * 100.0).round() / 100.0)
        .print(session.json)
}

/// The number of buckets that hold something.
fn occupied_buckets(sizes: &RecordSizes, hash_bits: u32) -> f64 {
    let buckets = f64::from(1u32 << hash_bits);
    match sizes.kind {
        SelectorKind::Number => (sizes.records as f64).min(buckets),
        SelectorKind::Bytes => buckets * (1.0 - (-(sizes.records as f64) / buckets).exp()),
    }
}
