//! The hash tree, and what proofs prove.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ops::Range;

use restante_wire::binding::{BoardId, MessageHashes, TAIL_BYTES};
use restante_wire::merkle::{ConsistencyProof, Frontier, Hash, ProofError, RangeProof, leaf};
use restante_wire::relay::{Page, PageMessage};
use serde_json::Value;

use crate::binary::consistency;
use crate::{BAD, GOOD, array, bytes, number, parameters, section, text};

/// Leaf i as docs/protocol.md, Vectors, says it: a clue of 9 bytes, of which 4 are i and 5, the tail, are i mod 251; a payload of
/// i mod 7 bytes of i mod 256.
fn leaf_of(index: u32) -> Hash {
    let payload = vec![(index % 256) as u8; (index % 7) as usize];
    leaf(&MessageHashes::of(&index.to_le_bytes(), &payload), &[(index % 251) as u8; TAIL_BYTES])
}

fn subtree(range: Range<u64>) -> Result<Hash, Infallible> {
    let mut tree = Frontier::default();
    range.for_each(|index| tree.push(0, leaf_of(index as u32)));
    Ok(tree.root())
}

fn root(count: u64) -> Hash {
    let Ok(root) = subtree(0..count);
    root
}

fn name(error: &ProofError) -> &'static str {
    match error {
        ProofError::Range { .. } => "range",
        ProofError::Shrunk { .. } => "shrunk",
        ProofError::Length { .. } => "length",
        ProofError::OtherBoard { .. } => "other-board",
        ProofError::Root { .. } => "root",
        other => panic!("{other} has no name in the vectors"),
    }
}

fn assert_unproved(vector: &Value, found: Result<(), ProofError>) {
    let error = found.expect_err(text(vector, "reason"));
    assert_eq!(name(&error), text(vector, "error"), "{}: {error}", text(vector, "reason"));
}

#[test]
fn leaves_and_roots() {
    for vector in section(GOOD, "leaves") {
        let (clue, payload) = (bytes(&vector, "clue"), bytes(&vector, "payload"));
        let message = PageMessage { clue, payload };
        assert_eq!(message.leaf().0, array(&vector, "leaf"));
        let binding = message.hashes().binding(&BoardId(array(&vector, "board")));
        assert_eq!(binding.0, array(&vector, "binding"));
    }
    for vector in section(GOOD, "roots") {
        assert_eq!(root(number(&vector, "messages")).0, array(&vector, "root"), "{vector}");
    }
}

#[test]
fn consistency_proofs() {
    let mut roots = HashMap::new();
    for vector in section(GOOD, "consistency") {
        let (older, newer) = (number(&vector, "from"), number(&vector, "to"));
        let proof = consistency(&bytes(&vector, "file")).unwrap();
        let [older_root, newer_root] =
            [older, newer].map(|count| *roots.entry(count).or_insert_with(|| root(count)));
        assert_eq!(proof.verify((older, &older_root), (newer, &newer_root)), Ok(()), "{vector}");
        assert_eq!(ConsistencyProof::build(older, newer, subtree), Ok(proof));
    }
    for vector in section(BAD, "consistency_unproved") {
        let proof = consistency(&bytes(&vector, "file")).unwrap();
        let (older, newer) = (Hash(array(&vector, "from_root")), Hash(array(&vector, "to_root")));
        assert_unproved(
            &vector,
            proof.verify((number(&vector, "from"), &older), (number(&vector, "to"), &newer)),
        );
    }
}

#[test]
fn pages() {
    let read = |vector: &Value| {
        Page::from_body(parameters(), number(vector, "clue_bytes") as usize, &bytes(vector, "file")).unwrap()
    };
    for vector in section(GOOD, "pages") {
        let page = read(&vector);
        assert!(page.verify().is_ok(), "{vector}");
        assert_eq!(page.head.root, root(page.head.count));
        assert_eq!(RangeProof::build(&(page.first..page.end()), page.head.count, subtree), Ok(page.proof));
    }
    for vector in section(BAD, "pages_unproved") {
        assert_unproved(&vector, read(&vector).verify().map(drop));
    }
}
