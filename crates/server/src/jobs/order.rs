//! The rules for requests for jobs.

use restante_board::Board;
use restante_wire::relay::{JobId, JobRequest};

use crate::detection::{Detection, Wanted};
use crate::keys::Registration;
use crate::refusal::{Answer, Code, Refusal};

/// A job that may be done: its digest is one that this relay makes, of messages that it has.
#[derive(Debug, Clone)]
pub(crate) struct JobOrder {
    pub(crate) id: JobId,
    pub(crate) wanted: Wanted,
    /// Whether the request named the end of the range, or meant all that there was.
    pub(crate) end_given: bool,
}

impl JobOrder {
    /// Reads a request of a registration's owner. `most` is the most messages of a job.
    pub(crate) fn read(
        request: &JobRequest,
        owner: &Registration,
        detection: &Detection,
        board: &Board,
        most: u64,
    ) -> Answer<Self> {
        if !owner.ready {
            return Err(Refusal::new(Code::Conflict, "the key has not been uploaded"));
        }
        if request.kind != owner.kind {
            let detail = format!("{}, but the key is for {}", request.kind, owner.kind);
            return Err(Refusal::new(Code::Invalid, detail).at("body:kind"));
        }
        let form = detection.form(request.kind, request.capacity, request.payload_bytes)?;
        let (first, end) = (request.first, request.end.unwrap_or(board.len()));
        if end > board.len() {
            let detail = format!("{end}, but the board has {} messages", board.len());
            return Err(Refusal::new(Code::Range, detail).at("body:end"));
        }
        if first >= end {
            return Err(
                Refusal::new(Code::Range, format!("{first}, expected less than {end}")).at("body:first")
            );
        }
        if first < board.retained_from() {
            let detail = format!("the relay has the messages from {} on", board.retained_from());
            return Err(Refusal::new(Code::Gone, detail).at("body:first"));
        }
        let wanted = Wanted { range: first..end, form };
        detection.check(&wanted, most)?;
        Ok(Self { id: request.id, wanted, end_given: request.end.is_some() })
    }
}
