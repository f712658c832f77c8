//! The board as handlers see it: a snapshot with its signed head, and proofs from it.

use std::sync::{Arc, Mutex, RwLock};

use ed25519_dalek::SigningKey;
use restante_board::{Board, BoardError};
use restante_wire::merkle::{ConsistencyProof, RangeProof};
use restante_wire::relay::{Hex, Page, PageMessage, RelayKey, SignedHead};

use crate::clock::Clock;
use crate::locks::{lock, read, write};
use crate::refusal::{Answer, Code, Refusal};

/// A head is signed anew at least so often, in seconds.
const HEAD_SECONDS: u64 = 30;

/// The state of the board after a commit, as readers see it.
#[derive(Debug)]
pub(crate) struct BoardView {
    signer: SigningKey,
    clock: Arc<Clock>,
    snapshot: RwLock<Arc<Board>>,
    head: Mutex<SignedHead>,
}

impl BoardView {
    pub(crate) fn new(board: Board, signer: SigningKey, clock: Arc<Clock>) -> Self {
        let head = sign(&signer, &board, &clock);
        Self { signer, clock, snapshot: RwLock::new(Arc::new(board)), head: Mutex::new(head) }
    }

    /// The newest snapshot.
    pub(crate) fn board(&self) -> Arc<Board> {
        read(&self.snapshot).clone()
    }

    /// Publishes a new snapshot.
    pub(crate) fn publish(&self, board: Board) {
        // Under the lock, so that no head is older than the snapshot that a client was given before.
        let mut head = lock(&self.head);
        *head = sign(&self.signer, &board, &self.clock);
        *write(&self.snapshot) = Arc::new(board);
    }

    /// A snapshot and the head that belongs to it.
    pub(crate) fn signed(&self) -> (Arc<Board>, SignedHead) {
        let mut head = lock(&self.head);
        let board = self.board();
        if head.time.saturating_add(HEAD_SECONDS) < self.clock.now() {
            *head = sign(&self.signer, &board, &self.clock);
        }
        (board, *head)
    }

    /// The relay's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn relay(&self) -> RelayKey {
        Hex(self.signer.verifying_key().to_bytes())
    }
}

/// The time never goes back, whatever the system's clock does.
fn sign(signer: &SigningKey, board: &Board, clock: &Clock) -> SignedHead {
    let head = board.head();
    SignedHead::sign(signer, (head.board, head.parameters), head.count, head.root, clock.now())
}

/// Messages from `first` on, at most `messages` of them and `bytes` bytes, but at least one.
pub(crate) fn page(
    board: &Board,
    head: SignedHead,
    first: u64,
    end: u64,
    messages: u32,
    bytes: u64,
) -> Answer<Page> {
    let mut page = Page { head, first, messages: Vec::new(), proof: empty_proof() };
    let mut size = 0;
    for index in first..end.min(first.saturating_add(messages.into())) {
        let message = board.message(index).map_err(refuse)?;
        size += (message.clue.len() + message.payload.len()) as u64;
        if size > bytes && !page.messages.is_empty() {
            break;
        }
        page.messages.push(PageMessage { clue: message.clue.to_vec(), payload: message.payload.to_vec() });
    }
    page.proof =
        RangeProof::build(&(first..page.end()), head.count, |range| board.subtree(range)).map_err(refuse)?;
    Ok(page)
}

fn empty_proof() -> RangeProof {
    let Ok(proof) =
        RangeProof::build::<std::convert::Infallible>(&(0..0), 0, |_| Ok(restante_board::Hash([0; 32])));
    proof
}

/// The proof that the first `from` of `to` messages are what a head of `from` messages counts.
pub(crate) fn consistency(board: &Board, from: u64, to: u64) -> Answer<ConsistencyProof> {
    ConsistencyProof::build(from, to, |range| board.subtree(range)).map_err(refuse)
}

/// An error of the board, as a client learns of it.
pub(crate) fn refuse(error: BoardError) -> Refusal {
    match error {
        BoardError::Forgotten { retained_from, .. } => {
            Refusal::new(Code::Gone, format!("the relay has the messages from {retained_from} on"))
        }
        BoardError::OutOfRange { .. } => Refusal::new(Code::Range, error.to_string()),
        error => crate::ServerError::from(error).into(),
    }
}
