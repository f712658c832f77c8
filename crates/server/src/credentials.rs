//! Credentials: who may register a detection key, where an operator does not let everybody.
//!
//! An operator issues them into the data directory's folder `credentials`, as a file of hashes and terms, and a relay takes them
//! over from there into its registry, whether it runs or starts later. Revoking goes the same way. An order that is taken over
//! twice, because a crash came before its file was removed, changes nothing the second time.
//!
//! A registration that a credential pays for has an id of the client's choice. The registry keeps, of each use, a hash of that id
//! and a hash that binds it to the key, and nothing that leads to the registration: the token follows from the credential, the id
//! and the key, none of which but the key is kept. So the request can be repeated, and has the same answer, for as long as the
//! credential is known; and who reads the disk cannot tell which credential paid for which key.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use restante_wire::relay::{Credential, DigestKind, Hex, Token, headers};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::ServerError;
use crate::clock::{Ration, now};
use crate::files::{read_limited, remove, sync_directory, write_whole};
use crate::randomness::random;
use crate::refusal::{Answer, Code, Refusal};
use crate::registry::Registry;

const FOLDER: &str = "credentials";
const EXTENSION: &str = "order";
/// Bytes of the longest order that is read.
const ORDER_BYTES: u64 = 64 << 20;
/// The most registrations of one credential: the names of its uses are kept.
const MAX_USES: u32 = 1000;
/// Seconds for which an expired credential is known as such.
const KEPT_SECONDS: u64 = 30 * 24 * 3600;

/// The registrations that a credential pays for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialTerms {
    /// Registrations of keys for stream digests, at most 1,000.
    pub stream: u32,
    /// Registrations of keys for compact digests, at most 1,000.
    pub compact: u32,
    /// Until when, in seconds since 1970.
    pub expires: u64,
}

impl CredentialTerms {
    fn uses(&self, kind: DigestKind) -> u32 {
        match kind {
            DigestKind::Stream => self.stream,
            DigestKind::Compact => self.compact,
        }
    }
}

/// A credential's entry in the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CredentialRecord {
    hash: Hex<32>,
    terms: CredentialTerms,
    #[serde(default)]
    revoked: bool,
    uses: Vec<Use>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Use {
    /// Hash of the request's id.
    name: Hex<16>,
    /// Hash of that and the key.
    key: Hex<16>,
    kind: DigestKind,
}

/// A credential as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CredentialStatus {
    id: Hex<16>,
    state: &'static str,
    stream: [usize; 2],
    compact: [usize; 2],
    expires: u64,
}

/// An order to a relay: a file in its folder.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Order {
    issue: Vec<(Hex<32>, CredentialTerms)>,
    revoke: Vec<Hex<16>>,
}

/// Names a credential: the first bytes of its hash.
fn id_of(hash: &[u8; 32]) -> Hex<16> {
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    Hex(id)
}

/// Issues credentials for the relay with this data directory, which need not run. Returns each with its id; nobody can do so again.
///
/// # Errors
///
/// [`ServerError::Config`] for terms without a use, with too many, or that have expired; [`ServerError::Io`].
pub fn issue_credentials(
    data: &Path,
    count: usize,
    terms: &CredentialTerms,
) -> Result<Vec<(Hex<16>, Credential)>, ServerError> {
    let uses = [terms.stream, terms.compact];
    if uses == [0, 0] || uses.into_iter().any(|uses| uses > MAX_USES) {
        let found = format!("{} stream and {} compact registrations", terms.stream, terms.compact);
        return Err(ServerError::Config(format!("{found}, expected 1 to {MAX_USES} of either kind")));
    }
    if terms.expires <= now() {
        return Err(ServerError::Config("the credentials would have expired already".into()));
    }
    let mut issued = Vec::with_capacity(count);
    for _ in 0..count {
        let mut bytes = zeroize::Zeroizing::new([0; 32]);
        random(&mut *bytes)?;
        issued.push(Credential::new(*bytes));
    }
    let issue = issued.iter().map(|credential| (Hex(credential.hash()), terms.clone())).collect();
    give(data, &Order { issue, ..Order::default() })?;
    Ok(issued.into_iter().map(|credential| (id_of(&credential.hash()), credential)).collect())
}

/// Revokes credentials, by their ids, at the relay with this data directory. What was registered with them stays.
///
/// # Errors
///
/// [`ServerError::Io`].
pub fn revoke_credentials(data: &Path, ids: &[Hex<16>]) -> Result<(), ServerError> {
    give(data, &Order { revoke: ids.to_vec(), ..Order::default() })
}

/// Leaves an order in the folder.
fn give(data: &Path, order: &Order) -> Result<(), ServerError> {
    let folder = data.join(FOLDER);
    fs::create_dir_all(&folder).map_err(ServerError::io("create", &folder))?;
    // The relay must be able to read it; and what it may write, somebody with more rights had better not follow.
    #[cfg(unix)]
    {
        let metadata = fs::metadata(data).map_err(ServerError::io("look at", data))?;
        let owner = std::os::unix::fs::MetadataExt::uid(&metadata);
        if owner != rustix::process::geteuid().as_raw() {
            let data = data.display();
            return Err(ServerError::Config(format!("{data} is user {owner}'s: run this as that user")));
        }
    }
    let mut name = [0; 8];
    random(&mut name)?;
    let path = folder.join(format!("{:012}-{}.{EXTENSION}", now(), Hex(name)));
    let bytes = serde_json::to_vec(order)
        .map_err(|error| ServerError::Environment(format!("an order cannot be written: {error}")))?;
    let draft = path.with_extension("draft");
    write_whole(&draft, &bytes)?;
    fs::rename(&draft, &path).map_err(ServerError::io("name", &path))?;
    sync_directory(&folder)
}

/// Takes over the orders that there are, and returns how many there were.
pub(crate) fn collect(data: &Path, registry: &Registry) -> Result<usize, ServerError> {
    let folder = data.join(FOLDER);
    let mut orders: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&folder).map_err(ServerError::io("list", &folder))? {
        let path = entry.map_err(ServerError::io("list", &folder))?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            orders.push(path);
        }
    }
    let (mut all, mut taken) = (Order::default(), Vec::new());
    for path in &orders {
        let read = read_limited(path, ORDER_BYTES).map_err(|error| error.to_string());
        match read
            .and_then(|bytes| serde_json::from_slice::<Order>(&bytes).map_err(|error| error.to_string()))
        {
            Ok(order) => {
                all.issue.extend(order.issue);
                all.revoke.extend(order.revoke);
                taken.push(path);
            }
            Err(error) => {
                // Kept for whoever wrote it, and not read again; the others do not wait for it.
                let refused = path.with_extension("refused");
                tracing::error!(%error, path = %path.display(), "an order about credentials cannot be read");
                fs::rename(path, &refused).map_err(ServerError::io("name", &refused))?;
            }
        }
    }
    if !taken.is_empty() {
        // What is issued before what is revoked: their files have no order within a second.
        let known: HashSet<Hex<16>> =
            registry.credentials::<CredentialRecord>()?.iter().map(|one| id_of(&one.hash.0)).collect();
        let issued: HashSet<Hex<16>> = all.issue.iter().map(|(hash, _)| id_of(&hash.0)).collect();
        let unknown = all.revoke.iter().filter(|id| !known.contains(id) && !issued.contains(id)).count();
        take_over(registry, &all)?;
        taken.into_iter().try_for_each(|path| remove(path))?;
        sync_directory(&folder)?;
        let (issued, revoked) = (all.issue.len(), all.revoke.len() - unknown);
        tracing::info!(issued, revoked, "credentials");
        if unknown > 0 {
            tracing::warn!(
                unknown,
                "ids were to be revoked of which there is no credential; GET /credentials lists those that there are"
            );
        }
    }
    Ok(orders.len())
}

/// Whatever the bytes of an order are: an answer.
pub(crate) fn try_order(bytes: &[u8]) {
    let _ = serde_json::from_slice::<Order>(bytes);
}

fn take_over(registry: &Registry, order: &Order) -> Result<(), ServerError> {
    let mut changes: Vec<(Hex<16>, Option<Hex<32>>, Option<&CredentialTerms>)> = Vec::new();
    changes.extend(order.issue.iter().map(|(hash, terms)| (id_of(&hash.0), Some(*hash), Some(terms))));
    changes.extend(order.revoke.iter().map(|id| (*id, None, None)));
    registry.change_credentials(changes.iter().map(|(id, hash, terms)| {
        let change = move |record: Option<CredentialRecord>| match (record, hash, terms) {
            (None, Some(hash), Some(terms)) => Some(CredentialRecord {
                hash: *hash,
                terms: (*terms).clone(),
                revoked: false,
                uses: Vec::new(),
            }),
            (Some(record), None, None) => Some(CredentialRecord { revoked: true, ..record }),
            // Issued already, or never.
            (record, _, _) => record,
        };
        (id.0, change)
    }))
}

/// Forgets credentials that expired long ago.
pub(crate) fn expire(registry: &Registry, now: u64, ration: &mut Ration) -> Result<(), ServerError> {
    let before = now.saturating_sub(KEPT_SECONDS);
    let all: Vec<CredentialRecord> = registry.credentials()?;
    let old = all.iter().filter(|one| one.terms.expires < before).map(|one| id_of(&one.hash.0));
    let mut old: Vec<_> = old.collect();
    old.truncate(ration.take(old.len(), 1000, "credentials"));
    if old.is_empty() {
        return Ok(());
    }
    registry.change_credentials(old.iter().map(|id| (id.0, |_: Option<CredentialRecord>| None)))
}

/// All credentials.
pub(crate) fn list(registry: &Registry) -> Result<Vec<CredentialStatus>, ServerError> {
    let all: Vec<CredentialRecord> = registry.credentials()?;
    Ok(all.iter().map(CredentialRecord::status).collect())
}

impl CredentialRecord {
    fn used(&self, kind: DigestKind) -> usize {
        self.uses.iter().filter(|one| one.kind == kind).count()
    }

    fn status(&self) -> CredentialStatus {
        let of = |kind| [self.used(kind), self.terms.uses(kind) as usize];
        let (stream, compact) = (of(DigestKind::Stream), of(DigestKind::Compact));
        let state = match () {
            () if self.revoked => "revoked",
            () if self.terms.expires <= now() => "expired",
            () if [stream, compact].into_iter().all(|[used, of]| used >= of) => "spent",
            () => "usable",
        };
        CredentialStatus { id: id_of(&self.hash.0), state, stream, compact, expires: self.terms.expires }
    }
}

/// A credential that came with a registration, and the registration's id.
#[derive(Debug)]
pub(crate) struct Payment {
    credential: Credential,
    request: Hex<16>,
}

impl Payment {
    /// A payment for the registration with this id, which the client drew.
    pub(crate) fn new(credential: Credential, request: Hex<16>) -> Self {
        Self { credential, request }
    }

    /// The id under which the registry has the credential.
    pub(crate) fn id(&self) -> Hex<16> {
        id_of(&self.credential.hash())
    }

    /// The token of the registration: the same whenever the request comes. Who knows the credential alone cannot tell it.
    pub(crate) fn token(&self, key: &Hex<32>) -> Token {
        Token::new(self.derive("restante/1/relay/credential/token", key))
    }

    fn derive(&self, purpose: &'static str, key: &Hex<32>) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key(purpose);
        for part in [&self.credential.as_bytes()[..], &self.request.0, &key.0] {
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    /// The credential after it has paid for a registration of a key; none if it paid for this registration before.
    pub(crate) fn spend(
        &self,
        record: Option<CredentialRecord>,
        kind: DigestKind,
        key: &Hex<32>,
    ) -> Answer<Option<CredentialRecord>> {
        let hash = self.credential.hash();
        let known = record.as_ref().map_or([0; 32], |record| record.hash.0);
        let is_known: bool = known.ct_eq(&hash).into();
        let mut record = record.filter(|_| is_known).ok_or_else(unknown)?;
        let refuse =
            |code, detail: &str| Err(Refusal::new(code, detail.to_owned()).at("header:authorization"));
        if record.revoked {
            return refuse(Code::CredentialRevoked, "the operator has revoked this credential");
        }
        if record.terms.expires <= now() {
            return refuse(Code::CredentialExpired, "this credential has expired");
        }
        // None of the two hashes says anything to whoever does not know the request's id.
        let name = id_of(&self.derive("restante/1/relay/credential/use", &Hex([0; 32])));
        let key = id_of(&self.derive("restante/1/relay/credential/use/key", key));
        if let Some(before) = record.uses.iter().find(|one| one.name == name) {
            if before.key != key || before.kind != kind {
                let detail = "this id was used for another key or kind, expected 16 new random bytes";
                let field = format!("header:{}", headers::REQUEST_ID);
                return Err(Refusal::new(Code::Conflict, detail).at(field));
            }
            return Ok(None);
        }
        if record.used(kind) >= record.terms.uses(kind) as usize {
            let detail = format!("this credential is good for no more registrations of {kind} keys");
            return refuse(Code::CredentialSpent, &detail);
        }
        record.uses.push(Use { name, key, kind });
        Ok(Some(record))
    }
}

pub(crate) fn unknown() -> Refusal {
    let detail = "expected \"Authorization: Bearer \" and a credential of this relay's operator";
    Refusal::new(Code::Credential, detail).at("header:authorization")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn terms(stream: u32, compact: u32) -> CredentialTerms {
        CredentialTerms { stream, compact, expires: now() + 1000 }
    }

    fn open(scratch: &Path) -> Registry {
        fs::create_dir_all(scratch.join(FOLDER)).unwrap();
        Registry::open(&scratch.join("registry")).unwrap()
    }

    fn pay(credential: &Credential, request: u8) -> Payment {
        Payment { credential: credential.clone(), request: Hex([request; 16]) }
    }

    fn record(registry: &Registry) -> CredentialRecord {
        registry.credentials().unwrap().remove(0)
    }

    #[test]
    fn orders_are_taken_over_once_however_often_they_come() {
        let scratch = tempfile::tempdir().unwrap();
        let registry = open(scratch.path());
        let issued = issue_credentials(scratch.path(), 3, &terms(2, 0)).unwrap();
        let folder = scratch.path().join(FOLDER);
        let path = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        let order = fs::read(&path).unwrap();
        // No secret is in it.
        let text = String::from_utf8(order.clone()).unwrap();
        assert!(issued.iter().all(|(_, one)| !text.contains(&Hex(*one.as_bytes()).to_string())));
        assert_eq!(collect(scratch.path(), &registry).unwrap(), 1);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);

        let spent = pay(&issued[0].1, 1).spend(
            registry
                .credentials()
                .unwrap()
                .into_iter()
                .find(|one: &CredentialRecord| one.hash == Hex(issued[0].1.hash())),
            DigestKind::Stream,
            &Hex([9; 32]),
        );
        let spent = spent.unwrap().unwrap();
        registry
            .change_credentials([(issued[0].0.0, |_: Option<CredentialRecord>| Some(spent.clone()))])
            .unwrap();
        // A crash left the file.
        fs::write(&path, &order).unwrap();
        collect(scratch.path(), &registry).unwrap();
        let all: Vec<CredentialRecord> = registry.credentials().unwrap();
        assert!(all.len() == 3 && all.contains(&spent));

        revoke_credentials(scratch.path(), &[issued[1].0, Hex([0; 16])]).unwrap();
        // Revoked in the same pass as it is issued, by a file that sorts before it.
        let late = issue_credentials(scratch.path(), 1, &terms(1, 0)).unwrap().remove(0);
        let revoke = Order { revoke: vec![late.0], ..Order::default() };
        fs::write(folder.join("00.order"), serde_json::to_vec(&revoke).unwrap()).unwrap();
        // Nothing waits for what cannot be read.
        fs::create_dir(folder.join("000.order")).unwrap();
        fs::write(folder.join("0.order"), b"{\"issue\": 5}").unwrap();
        fs::write(folder.join("half.draft"), b"{").unwrap();
        assert_eq!(collect(scratch.path(), &registry).unwrap(), 5);
        assert_eq!(collect(scratch.path(), &registry).unwrap(), 0);
        assert!(folder.join("0.refused").exists() && folder.join("000.refused").exists());
        let state = |id| list(&registry).unwrap().into_iter().find(|one| one.id == id).unwrap().state;
        assert_eq!(state(late.0), "revoked");
        let states: Vec<_> = issued
            .iter()
            .map(|(id, _)| list(&registry).unwrap().into_iter().find(|one| one.id == *id).unwrap().state)
            .collect();
        assert_eq!(states, ["usable", "revoked", "usable"]);
    }

    #[test]
    fn a_use_is_paid_for_once_and_says_nothing_without_its_id() {
        let scratch = tempfile::tempdir().unwrap();
        let registry = open(scratch.path());
        let (_, credential) = issue_credentials(scratch.path(), 1, &terms(2, 1)).unwrap().remove(0);
        collect(scratch.path(), &registry).unwrap();
        let (key, other) = (Hex([1; 32]), Hex([2; 32]));
        let mut now = record(&registry);
        let spend = |now: &CredentialRecord, request, kind, key: &Hex<32>| {
            pay(&credential, request).spend(Some(now.clone()), kind, key)
        };
        let code = |answer: Answer<Option<CredentialRecord>>| answer.unwrap_err().code();
        now = spend(&now, 1, DigestKind::Stream, &key).unwrap().unwrap();
        assert_eq!(spend(&now, 1, DigestKind::Stream, &key).unwrap(), None);
        assert_eq!(code(spend(&now, 1, DigestKind::Stream, &other)), Code::Conflict);
        // What was paid for as one kind is not had as another.
        assert_eq!(code(spend(&now, 1, DigestKind::Compact, &key)), Code::Conflict);
        now = spend(&now, 2, DigestKind::Stream, &key).unwrap().unwrap();
        assert_eq!(code(spend(&now, 3, DigestKind::Stream, &key)), Code::CredentialSpent);
        now = spend(&now, 3, DigestKind::Compact, &key).unwrap().unwrap();
        assert_eq!(now.status().state, "spent");
        assert_eq!(spend(&now, 1, DigestKind::Stream, &key).unwrap(), None);
        // The two uses for one key have nothing in common.
        assert!(now.uses[0].name != now.uses[1].name && now.uses[0].key != now.uses[1].key);
        let text = serde_json::to_string(&now).unwrap();
        for secret in [Hex([1; 16]).to_string(), key.to_string(), Hex(*credential.as_bytes()).to_string()] {
            assert!(!text.contains(&secret[..32]), "{text}");
        }
        // Tokens differ by request, key and credential.
        let token =
            |credential: &Credential, request, key: &Hex<32>| pay(credential, request).token(key).hash();
        let stranger = Credential::new([3; 32]);
        let all = [
            token(&credential, 1, &key),
            token(&credential, 2, &key),
            token(&credential, 1, &other),
            token(&stranger, 1, &key),
        ];
        assert!((0..4).all(|i| (0..i).all(|j| all[i] != all[j])));
        assert_eq!(token(&credential, 1, &key), all[0]);

        assert_eq!(
            code(pay(&stranger, 1).spend(Some(now.clone()), DigestKind::Stream, &key)),
            Code::Credential
        );
        assert_eq!(code(pay(&stranger, 1).spend(None, DigestKind::Stream, &key)), Code::Credential);
        let revoked = CredentialRecord { revoked: true, ..now.clone() };
        assert_eq!(code(spend(&revoked, 1, DigestKind::Stream, &key)), Code::CredentialRevoked);
        let expired = CredentialRecord { terms: CredentialTerms { expires: 1, ..now.terms.clone() }, ..now };
        assert_eq!(code(spend(&expired, 1, DigestKind::Stream, &key)), Code::CredentialExpired);
    }

    #[test]
    fn terms_without_a_use_are_refused_and_old_credentials_forgotten() {
        let scratch = tempfile::tempdir().unwrap();
        let registry = open(scratch.path());
        for wrong in [terms(0, 0), terms(1001, 0), CredentialTerms { expires: 1, ..terms(1, 0) }] {
            assert!(issue_credentials(scratch.path(), 1, &wrong).is_err());
        }
        let (id, _) = issue_credentials(scratch.path(), 1, &terms(1, 0)).unwrap().remove(0);
        issue_credentials(scratch.path(), 1, &terms(1, 0)).unwrap();
        collect(scratch.path(), &registry).unwrap();
        let aged = |record: Option<CredentialRecord>| {
            record.map(|one| CredentialRecord { terms: CredentialTerms { expires: 1, ..one.terms }, ..one })
        };
        registry.change_credentials([(id.0, aged)]).unwrap();
        expire(&registry, now(), &mut Ration::default()).unwrap();
        let left = list(&registry).unwrap();
        assert!(left.len() == 1 && left[0].id != id);
    }
}
