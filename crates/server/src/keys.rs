//! Registrations: a detection key and the token that owns it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, RwLock};

use restante_wire::relay::{
    DigestKind, Hex, KeyState, KeyStatus, RegisterRequest, StandingStatus, Token, headers,
};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::ServerError;
use crate::clock::{lock, now, read, write};
use crate::credentials::Payment;
use crate::files::{DataDirectory, remove};
use crate::identity::random;
use crate::problem::{Answer, Code, Refusal};
use crate::registry::{Change, Registry};
use crate::vectors::Vectors;

/// A registration. Its id follows from the key's id and the token's hash, so that registrations of the same key are strangers
/// to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    pub(crate) id: Hex<16>,
    /// BLAKE3 hash of the key's file.
    pub(crate) hash: Hex<32>,
    pub(crate) token_hash: Hex<32>,
    pub(crate) kind: DigestKind,
    pub(crate) bytes: u64,
    pub(crate) ready: bool,
    pub(crate) registered: u64,
    pub(crate) standing: Option<StandingStatus>,
}

impl Registration {
    pub(crate) fn key(&self) -> Hex<16> {
        key_id(&self.hash)
    }
}

fn key_id(hash: &Hex<32>) -> Hex<16> {
    let mut id = [0; 16];
    id.copy_from_slice(&hash.0[..16]);
    Hex(id)
}

fn registration_id(key: &Hex<16>, token_hash: &[u8; 32]) -> Hex<16> {
    let hash = blake3::derive_key("restante/1/relay/registration", &[&key.0[..], token_hash].concat());
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    Hex(id)
}

/// All registrations: in memory, and in the registry before that.
#[derive(Debug)]
pub(crate) struct Keys {
    data: DataDirectory,
    registry: Arc<Registry>,
    vectors: Arc<Vectors>,
    all: RwLock<HashMap<Hex<16>, Registration>>,
    /// Those that something is being written for: one upload, verification or deletion at a time.
    busy: Mutex<HashSet<Hex<16>>>,
    limit: usize,
    upload_limit: usize,
    compact_limit: usize,
}

impl Keys {
    pub(crate) fn load(
        data: DataDirectory,
        registry: Arc<Registry>,
        vectors: Arc<Vectors>,
        limit: usize,
        upload_limit: usize,
        compact_limit: usize,
    ) -> Result<Self, ServerError> {
        let mut all: Vec<Registration> = registry.registrations()?;
        for one in all.iter_mut().filter(|one| one.ready && !data.key(&one.hash).exists()) {
            // A backup came between the registration and its deletion: the key can be uploaded again.
            (one.ready, one.standing) = (false, None);
        }
        let this = Self {
            data,
            registry,
            vectors,
            all: RwLock::new(all.into_iter().map(|one| (one.id, one)).collect()),
            busy: Mutex::default(),
            limit,
            upload_limit,
            compact_limit,
        };
        this.remove_strays()?;
        Ok(this)
    }

    /// Removes the files of registrations that are gone: a crash came between.
    fn remove_strays(&self) -> Result<(), ServerError> {
        let all = read(&self.all);
        let hashes: HashSet<String> =
            all.values().filter(|one| one.ready).map(|one| one.hash.to_string()).collect();
        let ids: HashSet<String> = all.keys().map(ToString::to_string).collect();
        for (folder, known) in [("keys", &hashes), ("uploads", &ids), ("standing", &ids)] {
            let folder = self.data.root().join(folder);
            for entry in std::fs::read_dir(&folder).map_err(ServerError::io("list", &folder))? {
                let entry = entry.map_err(ServerError::io("list", &folder))?;
                if entry.file_name().to_str().is_none_or(|name| !known.contains(name)) {
                    remove(&entry.path())?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        read(&self.all).len()
    }

    pub(crate) fn get(&self, id: &Hex<16>) -> Option<Registration> {
        read(&self.all).get(id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Registration> {
        read(&self.all).values().cloned().collect()
    }

    /// The registration of a key that a token owns. The answer is the same for no such key, another's key and a token of
    /// another key; the token's hash is compared in constant time.
    pub(crate) fn authorize(&self, key: &Hex<16>, token: &Token) -> Answer<Registration> {
        let token_hash = token.hash();
        let found = self.get(&registration_id(key, &token_hash));
        let expected = found.as_ref().map_or([0; 32], |one| one.token_hash.0);
        let is_owner: bool = expected.ct_eq(&token_hash).into();
        found.filter(|one| is_owner && one.key() == *key).ok_or_else(Refusal::unauthorized)
    }

    /// Registers a key whose file is to be uploaded. A registration that a credential paid for before is found again.
    pub(crate) fn register(
        &self,
        request: &RegisterRequest,
        payment: Option<&Payment>,
    ) -> Answer<(Token, Registration)> {
        let token = match payment {
            Some(payment) => payment.token(&request.hash),
            None => {
                let mut bytes = zeroize::Zeroizing::new([0; 32]);
                random(&mut *bytes).map_err(Refusal::from)?;
                Token::new(*bytes)
            }
        };
        let token_hash = token.hash();
        let registration = Registration {
            id: registration_id(&key_id(&request.hash), &token_hash),
            hash: request.hash,
            token_hash: Hex(token_hash),
            kind: request.kind,
            bytes: request.bytes,
            ready: false,
            registered: now(),
            standing: None,
        };
        let again = |before: &Registration| match (before.kind, before.bytes) == (request.kind, request.bytes)
        {
            true => Ok((token.clone(), before.clone())),
            false => {
                let detail =
                    "this id was used for a key of another kind or length, expected 16 new random bytes";
                Err(Refusal::new(Code::Conflict, detail).at(format!("header:{}", headers::REQUEST_ID)))
            }
        };
        if let Some(payment) = payment {
            if let Some(before) = read(&self.all).get(&registration.id) {
                return again(before);
            }
            // Whoever has no credential is refused before anybody waits for it; what is paid is decided below.
            let credential = self.registry.credential(&payment.id().0)?;
            payment.spend(credential, request.kind, &request.hash)?;
        }
        let mut all = write(&self.all);
        if let Some(before) = all.get(&registration.id) {
            return again(before);
        }
        if all.len() >= self.limit {
            return Err(Refusal::new(Code::Busy, "this relay has as many keys as it takes").retry_after(3600));
        }
        let compact = all.values().filter(|one| one.kind == DigestKind::Compact).count();
        if request.kind == DigestKind::Compact && compact >= self.compact_limit {
            let detail = "this relay has as many keys for compact digests as it takes";
            return Err(Refusal::new(Code::Busy, detail).retry_after(3600));
        }
        if all.values().filter(|one| !one.ready).count() >= self.upload_limit {
            return Err(Refusal::new(Code::Busy, "too many uploads are not finished").retry_after(60));
        }
        match payment {
            None => self.store(&registration)?,
            Some(payment) => self.registry.register_paid(
                &payment.id().0,
                |credential| payment.spend(credential, request.kind, &request.hash),
                &registration.id.0,
                &registration,
            )?,
        }
        all.insert(registration.id, registration.clone());
        Ok((token, registration))
    }

    fn store(&self, registration: &Registration) -> Result<(), ServerError> {
        self.registry.change_registrations(&[(registration.id.0, Change::Put(registration))])
    }

    /// Changes a registration, if it is still there.
    pub(crate) fn update(
        &self,
        id: &Hex<16>,
        change: impl FnOnce(&mut Registration),
    ) -> Answer<Registration> {
        let mut all = write(&self.all);
        let registration = all.get_mut(id).ok_or_else(Refusal::unauthorized)?;
        let mut changed = registration.clone();
        change(&mut changed);
        self.store(&changed)?;
        *registration = changed.clone();
        Ok(changed)
    }

    /// Notes how far standing orders are, in one transaction. An order that is not what it was meanwhile stays as it is.
    pub(crate) fn advance(&self, done: &[(Hex<16>, StandingStatus, u64)]) -> Result<(), ServerError> {
        let mut all = write(&self.all);
        let mut changed = Vec::new();
        for (id, before, complete_to) in done {
            if let Some(one) = all.get(id)
                && let Some(standing) = one.standing.as_ref().filter(|standing| *standing == before)
            {
                let standing = StandingStatus { complete_to: *complete_to, ..standing.clone() };
                changed.push(Registration { standing: Some(standing), ..one.clone() });
            }
        }
        let changes: Vec<_> = changed.iter().map(|one| (one.id.0, Change::Put(one))).collect();
        self.registry.change_registrations(&changes)?;
        all.extend(changed.into_iter().map(|one| (one.id, one)));
        Ok(())
    }

    /// Removes a registration with its files; those of its jobs are the caller's. The key's file stays if another registration
    /// has the same.
    pub(crate) fn remove(&self, id: &Hex<16>) -> Result<bool, ServerError> {
        let mut all = write(&self.all);
        let Some(registration) = all.get(id).cloned() else { return Ok(false) };
        self.registry.remove_registration(&id.0)?;
        all.remove(id);
        remove(&self.data.upload(id))?;
        remove(&self.data.standing(id))?;
        self.vectors.remove_registration(id)?;
        let last = !all.values().any(|one| one.ready && one.hash == registration.hash);
        if last {
            remove(&self.data.key(&registration.hash))?;
        }
        Ok(last)
    }

    /// Claims a registration's upload; one request has it at a time.
    pub(crate) fn claim(self: &Arc<Self>, id: Hex<16>) -> Answer<Claim> {
        match lock(&self.busy).insert(id) {
            true => Ok(Claim { keys: self.clone(), id }),
            false => {
                Err(Refusal::new(Code::Conflict, "another request is uploading this key").retry_after(1))
            }
        }
    }

    /// The file of a registration's key has been verified under the name of the upload: makes it the key's file.
    pub(crate) fn finish_upload(&self, id: &Hex<16>) -> Answer<Registration> {
        // Before the file gets its name, so that a deletion of the same key by another does not remove it in between.
        let mut all = write(&self.all);
        let registration = all.get_mut(id).ok_or_else(Refusal::unauthorized)?;
        let (from, to) = (self.data.upload(id), self.data.key(&registration.hash));
        std::fs::rename(&from, &to).map_err(ServerError::io("name", &to))?;
        crate::files::sync_directory(&self.data.root().join("keys"))?;
        let ready = Registration { ready: true, ..registration.clone() };
        self.store(&ready)?;
        *registration = ready.clone();
        Ok(ready)
    }

    pub(crate) fn status(&self, registration: &Registration) -> KeyStatus {
        let uploaded = match registration.ready {
            true => registration.bytes,
            false => self.uploaded(&registration.id),
        };
        KeyStatus {
            key: registration.key(),
            kind: registration.kind,
            state: if registration.ready { KeyState::Ready } else { KeyState::Uploading },
            bytes: registration.bytes,
            uploaded,
            registered: registration.registered,
            standing: registration.standing.clone(),
        }
    }

    /// The bytes of an upload that are here.
    pub(crate) fn uploaded(&self, id: &Hex<16>) -> u64 {
        std::fs::metadata(self.data.upload(id)).map_or(0, |metadata| metadata.len())
    }
}

/// The right to write an upload.
#[derive(Debug)]
pub(crate) struct Claim {
    keys: Arc<Keys>,
    id: Hex<16>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.keys.busy).remove(&self.id);
    }
}
