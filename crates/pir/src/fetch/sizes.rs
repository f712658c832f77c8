//! How large the queries and answers about an epoch are.

use restante_wire::Envelope;

use crate::PirError;
use crate::fetch::answer::ANSWER_HEADER_BYTES;
use crate::fetch::info::{EpochInfo, MAX_RECORD_BYTES};
use crate::fetch::query::{MAX_FETCHES, QUERY_HEADER_BYTES, check_fetches};

impl EpochInfo {
    /// The exact size in bytes of the file of a query to one server.
    ///
    /// # Errors
    ///
    /// [`PirError::Size`] for no fetch or more than [`MAX_FETCHES`].
    pub fn query_bytes(&self, fetches: usize) -> Result<usize, PirError> {
        check_fetches(fetches)?;
        Ok(Envelope::OVERHEAD_BYTES + QUERY_HEADER_BYTES + fetches * self.key_parameters()?.key_bytes())
    }

    /// Memory that a query of so many fetches takes once it is read, from above; while it is read, twice its file besides.
    ///
    /// # Errors
    ///
    /// As for [`EpochInfo::query_bytes`].
    #[cfg(feature = "server")]
    pub fn query_memory_bytes(&self, fetches: usize) -> Result<usize, PirError> {
        check_fetches(fetches)?;
        // A correction word has three blocks in memory and two in the file. The rest is the key itself and its two allocations.
        Ok(fetches * (self.key_parameters()?.key_bytes() * 3 / 2 + 256))
    }

    /// The most fetches that a query's file of so many bytes can have; 0 if it is no file of a query.
    ///
    /// # Errors
    ///
    /// Those of the parameters, which an epoch that was opened does not have.
    #[cfg(feature = "server")]
    pub fn fetches_of(&self, query_bytes: usize) -> Result<usize, PirError> {
        let keys = query_bytes.saturating_sub(Envelope::OVERHEAD_BYTES + QUERY_HEADER_BYTES);
        Ok((keys / self.key_parameters()?.key_bytes()).min(MAX_FETCHES))
    }

    /// The exact size in bytes of the file of one server's answer.
    ///
    /// # Errors
    ///
    /// As for [`EpochInfo::query_bytes`].
    pub fn answer_bytes(&self, fetches: usize) -> Result<usize, PirError> {
        check_fetches(fetches)?;
        Ok(Envelope::OVERHEAD_BYTES + ANSWER_HEADER_BYTES + fetches * self.record_bytes())
    }
}

const _: () = assert!(MAX_FETCHES as u64 * MAX_RECORD_BYTES as u64 <= 1 << 26);
