//! Envelopes, heads, bodies and tokens.

use ed25519_dalek::SigningKey;
use restante_wire::binding::BoardId;
use restante_wire::merkle::{ConsistencyProof, Hash};
use restante_wire::relay::{
    DigestList, HeadStatus, Hex, MessageId, Page, PostBatch, PostMessage, SignedHead, Token,
};
use restante_wire::{Decode, Encode, Envelope, Kind, ParameterId, WireError};

use crate::{BAD, GOOD, array, assert_refused, bytes, number, parameters, section, text};

/// Reads the proof in a body of its own.
pub(crate) fn consistency(bytes: &[u8]) -> Result<ConsistencyProof, WireError> {
    let envelope = Envelope::open_as(bytes, Kind::ConsistencyProof, 1, parameters())?;
    ConsistencyProof::from_bytes(&(), envelope.body)
}

#[test]
fn envelopes() {
    for vector in section(GOOD, "envelopes") {
        let file = bytes(&vector, "file");
        let envelope = Envelope::open(&file).unwrap();
        assert_eq!(envelope.kind as u64, number(&vector, "kind"));
        assert_eq!(envelope.kind.to_string(), text(&vector, "name"));
        assert_eq!(u64::from(envelope.version), number(&vector, "version"));
        assert_eq!(envelope.parameters.0, array::<8>(&vector, "parameters"));
        assert_eq!(envelope.body, bytes(&vector, "body"));
        assert_eq!(envelope.seal(), file);
    }
    assert_refused("envelopes", |file| Envelope::open(file).map(|envelope| envelope.kind));
}

#[test]
fn heads() {
    for vector in section(GOOD, "heads") {
        let head = SignedHead::from_file(&bytes(&vector, "file")).unwrap();
        let key = SigningKey::from_bytes(&array(&vector, "secret"));
        let (parameters, root) = (ParameterId(array(&vector, "parameters")), Hash(array(&vector, "root")));
        let board = (BoardId(array(&vector, "board")), parameters);
        // Signing is deterministic, and covers the bytes that the vector names.
        let signed = SignedHead::sign(&key, board, number(&vector, "count"), root, number(&vector, "time"));
        assert_eq!(head, signed);
        assert_eq!(head.relay.0, array(&vector, "relay"));
        assert_eq!(head.signature.0, array(&vector, "signature"));
        let signature = ed25519_dalek::Signature::from_bytes(&array(&vector, "signature"));
        key.verifying_key().verify_strict(&bytes(&vector, "signed"), &signature).unwrap();
        assert!(head.is_signed_by(&Hex(array(&vector, "relay"))));
        assert_eq!(head.to_file(), bytes(&vector, "file"));
        let status: HeadStatus = serde_json::from_value(vector["json"].clone()).unwrap();
        assert_eq!(status.signed(), head);
        assert_eq!(
            serde_json::to_value(HeadStatus::new(&head, status.retained_from)).unwrap(),
            vector["json"]
        );
    }
    assert_refused("heads", |file| {
        // `from_file` takes the parameter id from the file.
        Envelope::open(file)?;
        SignedHead::from_file(file)
    });
}

#[test]
fn signatures_that_must_not_be_believed() {
    for vector in section(BAD, "signatures") {
        let head = SignedHead::from_file(&bytes(&vector, "file")).unwrap();
        assert!(!head.is_signed_by(&Hex(array(&vector, "known"))), "{}", text(&vector, "reason"));
    }
}

#[test]
fn consistency_proofs() {
    for vector in section(GOOD, "consistency") {
        let file = bytes(&vector, "file");
        let body = consistency(&file).unwrap().to_bytes();
        let kind = Kind::ConsistencyProof;
        assert_eq!(Envelope { kind, version: 1, parameters: parameters(), body: &body }.seal(), file);
    }
    assert_refused("consistency", consistency);
}

#[test]
fn pages() {
    let mut clue_bytes = 0;
    for vector in section(GOOD, "pages") {
        let file = bytes(&vector, "file");
        clue_bytes = number(&vector, "clue_bytes") as usize;
        let page = Page::from_body(parameters(), clue_bytes, &file).unwrap();
        assert_eq!((page.first, page.end()), (number(&vector, "first"), number(&vector, "end")));
        assert_eq!(
            (page.head.count, page.proof.hashes().len() as u64),
            (number(&vector, "count"), number(&vector, "hashes"))
        );
        assert!(page.head.is_signed_by(&page.head.relay));
        assert_eq!(page.to_body(), file);
    }
    assert_refused("pages", |file| Page::from_body(parameters(), clue_bytes, file));
}

#[test]
fn batches() {
    let mut clue_bytes = 0;
    for vector in section(GOOD, "batches") {
        let file = bytes(&vector, "file");
        clue_bytes = number(&vector, "clue_bytes") as usize;
        let messages = vector["messages"].as_array().unwrap().iter();
        let message = |one| PostMessage {
            id: MessageId(array(one, "id")),
            clue: bytes(one, "clue"),
            payload: bytes(one, "payload"),
        };
        let batch = PostBatch(messages.map(message).collect());
        assert_eq!(PostBatch::from_body(parameters(), clue_bytes, &file).unwrap(), batch);
        assert_eq!(batch.to_body(parameters()), file);
    }
    assert_refused("batches", |file| PostBatch::from_body(parameters(), clue_bytes, file));
}

#[test]
fn lists_of_digests() {
    for vector in section(GOOD, "digest_lists") {
        let file = bytes(&vector, "file");
        let list = DigestList::from_body(parameters(), &file).unwrap();
        let files: Vec<String> =
            list.0.iter().map(|one| one.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
        assert_eq!(serde_json::to_value(files).unwrap(), vector["files"]);
        assert_eq!(list.to_body(parameters()), file);
    }
    assert_refused("digest_lists", |file| DigestList::from_body(parameters(), file));
}

#[test]
fn tokens() {
    for vector in section(GOOD, "tokens") {
        let token = Token::new(array(&vector, "bytes"));
        assert_eq!(token.reveal(), text(&vector, "text"));
        assert_eq!(text(&vector, "text").parse::<Token>().unwrap().hash(), token.hash());
    }
    for vector in section(BAD, "tokens") {
        assert!(text(&vector, "text").parse::<Token>().is_err(), "{}", text(&vector, "reason"));
    }
}
