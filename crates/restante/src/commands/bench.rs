//! `restante bench`: measurements as JSON lines, each beside a limit that is measured in the same run.

mod detect_compact;
mod detect_stream;
mod dpf;
mod fetch;
pub mod limits;
#[cfg(feature = "serve")]
mod relay;
mod search;

pub use detect_compact::run as detect_compact;
pub use detect_stream::run as detect_stream;
pub use dpf::run as dpf;
pub use fetch::run as fetch;
#[cfg(feature = "serve")]
pub use relay::run as relay;
pub use search::run as search;
