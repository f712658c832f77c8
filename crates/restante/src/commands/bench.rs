//! `restante bench`: measurements as JSON lines, each beside a limit that is measured in the same run.

mod detect_stream;
mod dpf;
mod fetch;
mod limits;
#[cfg(feature = "serve")]
mod relay;

pub use detect_stream::run as detect_stream;
pub use dpf::run as dpf;
pub use fetch::run as fetch;
#[cfg(feature = "serve")]
pub use relay::run as relay;
