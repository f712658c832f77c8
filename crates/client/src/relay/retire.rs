//! Taking detection keys back from a relay.

use std::time::Duration;

use rand_core::CryptoRng;
use restante_wire::relay::media;

use super::{
    Machine, Method, Registration, RelayError, Reply, Request, Retries, Side, Step, exchange::Attempts,
};

/// Removes registrations whose key was replaced by another, once there has been a round with that.
///
/// A relay that sees an old key go over the same connection, or right after the first round with a new one, knows whose it is: use
/// another circuit, and another time.
///
/// ```no_run
/// # use rand_core::CryptoRng;
/// use restante_client::{relay::*};
///
/// # fn example<H: Host<Error = std::io::Error>>(
/// #     mut state: SyncState, config: SyncConfig, host: &mut H, rng: &mut impl CryptoRng,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let mut machine = RetireMachine::new(state.retired().to_vec(), config.pace, Retries::default());
/// Driver::new().run(&mut machine, host, rng, |machine: &RetireMachine| {
///     state.set_retired(machine.registrations());
///     std::fs::write("state", state.to_file())
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RetireMachine {
    registrations: Vec<Registration>,
    attempts: Attempts,
    pace: Duration,
}

impl RetireMachine {
    /// A machine for these registrations at the first relay, whose requests have the pace of the round before them
    /// ([`SyncConfig::pace`](super::SyncConfig::pace)). It runs before that round's answers are read
    /// ([`SyncMachine::finish`](super::SyncMachine::finish)), so that when it begins says nothing about them.
    pub fn new(registrations: Vec<Registration>, pace: Duration, retries: Retries) -> Self {
        Self { registrations, attempts: Attempts::new(retries), pace }
    }

    /// Those that are left: to be saved after every answer, [`SyncState::set_retired`](super::SyncState::set_retired).
    pub fn registrations(&self) -> &[Registration] {
        &self.registrations
    }

    fn request(&self) -> Option<Request> {
        let registration = self.registrations.last()?;
        let request = Request::new(Side::First, Method::Delete, registration.path("")).accept(media::JSON);
        Some(Request { pace: self.pace, ..request.token(registration.token()) })
    }
}

impl Machine for RetireMachine {
    fn step(&mut self) -> Step {
        self.attempts.wait().map_or_else(|| self.request().into(), Step::Wait)
    }

    /// As [`Machine::respond`] says.
    ///
    /// # Errors
    ///
    /// [`RelayError`]; the registration stays.
    fn respond(&mut self, reply: Reply, _now: u64, rng: &mut impl CryptoRng) -> Result<(), RelayError> {
        let Some(request) = self.request() else { return Ok(()) };
        let Some(response) = self.attempts.judge(reply, request.answer_bytes_max, rng)? else {
            return Ok(());
        };
        match response.status {
            // That the relay does not know it any more is as good.
            200 | 204 | 401 | 404 => {
                self.registrations.pop();
                Ok(())
            }
            _ => Err(response.refusal()),
        }
    }
}
