//! `restante bench`: measurements as JSON lines, each beside a limit that is measured in the same run.

mod detect_stream;
mod limits;

pub use detect_stream::run as detect_stream;
