//! Registrations: a detection key and the token that owns it.
//!
//! Whoever changes something holds `changes` until the registry has it, and then the memory's lock for a moment: whoever only looks,
//! which is every request with a token, never waits for the disk.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use restante_wire::relay::{
    DigestKind, Hex, KeyId, KeyState, KeyStatus, RegisterRequest, RegistrationId, StandingStatus, Token,
    headers,
};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::clock::Clock;
use crate::credentials::Payment;
use crate::files::{DataDirectory, remove};
use crate::locks::{lock, read, write};
use crate::randomness::random;
use crate::refusal::{Answer, Code, Refusal};
use crate::registry::{Change, Registry};
use crate::vectors::{Owner, Vectors};
use crate::{Limits, ServerError};

/// Seconds of a day: when a registration was used is known by the day, so that it says little.
const DAY: u64 = 24 * 3600;
/// When the relay has as many registrations as it takes, one makes room that was not used for so many days.
const UNUSED_DAYS: u64 = 7;
/// From this share of the limit on, in eighths, networks have a quota of new registrations in a day: a 64th of the limit.
const NEARLY_FULL: usize = 7;
const QUOTA: usize = 64;
/// Networks whose registrations are counted at most.
const NETWORKS: usize = 1 << 16;

/// A registration. Its id follows from the key's id and the token's hash, so that registrations of the same key are strangers
/// to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registration {
    pub(crate) id: RegistrationId,
    /// BLAKE3 hash of the key's file.
    pub(crate) hash: Hex<32>,
    pub(crate) token_hash: Hex<32>,
    pub(crate) kind: DigestKind,
    pub(crate) bytes: u64,
    pub(crate) ready: bool,
    pub(crate) registered: u64,
    pub(crate) standing: Option<StandingStatus>,
    /// The day on which its owner last used it, in days since 1970.
    #[serde(default)]
    pub(crate) used: u64,
}

/// A registration that is gone: what it leaves to be forgotten elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Removed {
    pub(crate) id: RegistrationId,
    /// Of the key's file, if no other registration has it.
    pub(crate) key: Option<Hex<32>>,
}

impl Registration {
    /// One whose key is to be uploaded.
    fn new(request: &RegisterRequest, token_hash: [u8; 32], now: u64) -> Self {
        Self {
            id: registration_id(&KeyId::of(&request.hash), &token_hash),
            hash: request.hash,
            token_hash: Hex(token_hash),
            kind: request.kind,
            bytes: request.bytes,
            ready: false,
            registered: now,
            standing: None,
            used: now / DAY,
        }
    }

    pub(crate) fn key(&self) -> KeyId {
        KeyId::of(&self.hash)
    }
}

fn registration_id(key: &KeyId, token_hash: &[u8; 32]) -> RegistrationId {
    let hash = blake3::derive_key("restante/1/relay/registration", &[&key.0[..], token_hash].concat());
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    RegistrationId(id)
}

/// All registrations: in memory, and in the registry before that.
#[derive(Debug)]
pub(crate) struct Keys {
    data: DataDirectory,
    registry: Arc<Registry>,
    vectors: Arc<Vectors>,
    clock: Arc<Clock>,
    /// Held while something changes.
    changes: Mutex<()>,
    all: RwLock<HashMap<RegistrationId, Registration>>,
    /// Those whose day of use is not in the registry yet.
    touched: Mutex<HashSet<RegistrationId>>,
    /// From which network the uploads that are not finished come. In memory alone, and until they are.
    uploading: Mutex<HashMap<RegistrationId, IpAddr>>,
    /// How many registrations networks have made of late. In memory alone, and for a day.
    recent: Mutex<HashMap<IpAddr, (usize, Instant)>>,
    /// Those that something is being written for: one upload, verification or deletion at a time.
    busy: Mutex<HashSet<RegistrationId>>,
    limit: usize,
    upload_limit: usize,
    upload_network_limit: usize,
    compact_limit: usize,
}

impl Keys {
    pub(crate) fn load(
        data: DataDirectory,
        registry: Arc<Registry>,
        vectors: Arc<Vectors>,
        clock: Arc<Clock>,
        limits: &Limits,
        compact_limit: usize,
    ) -> Result<Self, ServerError> {
        let mut all: Vec<Registration> = registry.registrations()?;
        let today = clock.now() / DAY;
        // An earlier version did not say when they were used.
        let unknown: HashSet<RegistrationId> =
            all.iter().filter(|one| one.used == 0).map(|one| one.id).collect();
        all.iter_mut().filter(|one| one.used == 0).for_each(|one| one.used = today);
        for one in all.iter_mut().filter(|one| one.ready && !data.key(&one.hash).exists()) {
            // A backup came between the registration and its deletion: the key can be uploaded again.
            (one.ready, one.standing) = (false, None);
        }
        let this = Self {
            data,
            registry,
            vectors,
            clock,
            changes: Mutex::default(),
            all: RwLock::new(all.into_iter().map(|one| (one.id, one)).collect()),
            touched: Mutex::new(unknown),
            uploading: Mutex::default(),
            recent: Mutex::default(),
            busy: Mutex::default(),
            limit: limits.keys,
            upload_limit: limits.uploads,
            upload_network_limit: limits.uploads_per_network,
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

    pub(crate) fn get(&self, id: &RegistrationId) -> Option<Registration> {
        read(&self.all).get(id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Registration> {
        read(&self.all).values().cloned().collect()
    }

    /// The registration of a key that a token owns. The answer is the same for no such key, another's key and a token of
    /// another key; the token's hash is compared in constant time.
    pub(crate) fn authorize(&self, key: &KeyId, token: &Token) -> Answer<Registration> {
        let token_hash = token.hash();
        let found = self.get(&registration_id(key, &token_hash));
        let expected = found.as_ref().map_or([0; 32], |one| one.token_hash.0);
        let is_owner: bool = expected.ct_eq(&token_hash).into();
        let mut found =
            found.filter(|one| is_owner && one.key() == *key).ok_or_else(Refusal::unauthorized)?;
        let today = self.clock.now() / DAY;
        if found.used < today {
            found.used = today;
            if let Some(one) = write(&self.all).get_mut(&found.id) {
                one.used = one.used.max(today);
                lock(&self.touched).insert(found.id);
            }
        }
        Ok(found)
    }

    /// Writes down which registrations were used today.
    pub(crate) fn write_used(&self) -> Result<(), ServerError> {
        let _one_at_a_time = lock(&self.changes);
        // A use that comes while this writes is there the next time.
        let touched = std::mem::take(&mut *lock(&self.touched));
        let changed: Vec<Registration> = touched.iter().filter_map(|id| self.get(id)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let changes: Vec<_> = changed.iter().map(|one| (one.id.0, Change::Put(one))).collect();
        let written = self.registry.change_registrations(&changes);
        if written.is_err() {
            lock(&self.touched).extend(touched);
        }
        written
    }

    /// Registrations whose owners have not used them for so many seconds, those first that were used the longest ago.
    pub(crate) fn unused(&self, now: u64, seconds: u64) -> Vec<RegistrationId> {
        let before = now.saturating_sub(seconds) / DAY;
        let mut old: Vec<(u64, RegistrationId)> =
            read(&self.all).values().filter(|one| one.used < before).map(|one| (one.used, one.id)).collect();
        old.sort_unstable();
        old.into_iter().map(|(_, id)| id).collect()
    }

    /// Uploads that were begun before `time` and are not finished, the oldest first.
    pub(crate) fn unfinished(&self, time: u64) -> Vec<RegistrationId> {
        let all = read(&self.all);
        let late = all.values().filter(|one| !one.ready && one.registered < time);
        let mut late: Vec<(u64, RegistrationId)> = late.map(|one| (one.registered, one.id)).collect();
        late.sort_unstable();
        late.into_iter().map(|(_, id)| id).collect()
    }

    /// Registers a key whose file is to be uploaded, for somebody of a network. A registration that a credential paid for before is
    /// found again. Others may have to make room.
    pub(crate) fn register(
        &self,
        request: &RegisterRequest,
        payment: Option<&Payment>,
        from: IpAddr,
    ) -> Answer<(Token, Registration, Vec<Removed>)> {
        let token = match payment {
            Some(payment) => payment.token(&request.hash),
            None => {
                let mut bytes = zeroize::Zeroizing::new([0; 32]);
                random(&mut *bytes).map_err(Refusal::from)?;
                Token::new(*bytes)
            }
        };
        let token_hash = token.hash();
        let registration = Registration::new(request, token_hash, self.clock.now());
        let again = |before: &Registration| {
            if (before.kind, before.bytes) == (request.kind, request.bytes) {
                Ok((token.clone(), before.clone(), Vec::new()))
            } else {
                let detail =
                    "this id was used for a key of another kind or length, expected 16 new random bytes";
                Err(Refusal::new(Code::Conflict, detail).at(format!("header:{}", headers::REQUEST_ID)))
            }
        };
        if let Some(payment) = payment {
            if let Some(before) = self.get(&registration.id) {
                return again(&before);
            }
            // Whoever has no credential is refused before anybody waits for it; what is paid is decided below.
            let credential = self.registry.credential(&payment.id().0)?;
            payment.spend(credential, request.kind, &request.hash)?;
        }
        let _one_at_a_time = lock(&self.changes);
        if let Some(before) = self.get(&registration.id) {
            return again(&before);
        }
        let removed = self.make_room(request.kind, from)?;
        match payment {
            None => self.store(&registration)?,
            Some(payment) => self.registry.register_paid(
                &payment.id().0,
                |credential| payment.spend(credential, request.kind, &request.hash),
                &registration.id.0,
                &registration,
            )?,
        }
        write(&self.all).insert(registration.id, registration.clone());
        lock(&self.uploading).insert(registration.id, from);
        let mut recent = lock(&self.recent);
        if recent.len() >= NETWORKS {
            recent.clear();
        }
        recent.entry(from).or_insert((0, Instant::now())).0 += 1;
        Ok((token, registration, removed))
    }

    /// Whether there is room for one more registration of a kind, of somebody of a network, and what goes for it.
    fn make_room(&self, kind: DigestKind, from: IpAddr) -> Answer<Vec<Removed>> {
        let busy =
            |detail: &str, seconds| Err(Refusal::new(Code::Busy, detail.to_owned()).retry_after(seconds));
        let today = self.clock.now() / DAY;
        let (len, compact, mut uploads, unused) = {
            let all = read(&self.all);
            let compact = all.values().filter(|one| one.kind == DigestKind::Compact).count();
            let uploads = all.values().filter(|one| !one.ready).map(|one| (one.registered, one.id, one.kind));
            let unused = all.values().filter(|one| one.used + UNUSED_DAYS <= today && self.is_idle(&one.id));
            let unused = unused.min_by_key(|one| one.used).map(|one| one.id);
            (all.len(), compact, uploads.collect::<Vec<_>>(), unused)
        };
        if len * 8 >= self.limit * NEARLY_FULL && self.has_its_share(from) {
            let detail = "this relay has nearly as many keys as it takes, and your network has registered its share today";
            return busy(detail, 3600);
        }
        uploads.sort_unstable_by_key(|(registered, id, _)| (*registered, *id));
        let of = self.by_network(uploads.iter().map(|(_, id, _)| *id));
        let is_compact = |one: &&(u64, RegistrationId, DigestKind)| one.2 == DigestKind::Compact;
        let compact_of = self.by_network(uploads.iter().filter(is_compact).map(|(_, id, _)| *id));
        let mut gone = Vec::new();
        if kind == DigestKind::Compact {
            gone.extend(self.compact_place(compact, &compact_of, from)?);
        }
        let own = of.get(&from).map_or(0, Vec::len);
        if own >= self.upload_network_limit {
            return busy("too many uploads of your network are not finished", 60);
        }
        if uploads.len() >= self.upload_limit && gone.is_empty() {
            match self.oldest(&of, own) {
                Some(id) => gone.push(id),
                None => return busy("too many uploads are not finished", 60),
            }
        }
        if len >= self.limit && gone.is_empty() {
            match unused {
                Some(id) => gone.push(id),
                None => return busy("this relay has as many keys as it takes", 3600),
            }
        }
        Ok(gone
            .iter()
            .map(|id| self.remove_now(id))
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .collect())
    }

    /// The upload that goes for one more key for compact digests, if one has to. Announcing a key costs nothing, and there are few places:
    /// nobody's announcements have more than a quarter of them, and uploads that are not finished make room.
    fn compact_place(
        &self,
        compact: usize,
        of: &HashMap<IpAddr, Vec<RegistrationId>>,
        from: IpAddr,
    ) -> Answer<Option<RegistrationId>> {
        let own = of.get(&from).map_or(0, Vec::len);
        if own >= self.compact_limit.div_ceil(4) {
            let detail = "too many uploads of keys for compact digests of your network are not finished";
            return Err(Refusal::new(Code::Busy, detail).retry_after(60));
        }
        if compact < self.compact_limit {
            return Ok(None);
        }
        let full = || Refusal::new(Code::Busy, "this relay has as many keys for compact digests as it takes");
        self.oldest(of, own).map(Some).ok_or_else(|| full().retry_after(3600))
    }

    /// Of whoever has the most, if that is more than somebody with `own` asks for: the oldest that nothing is being written for.
    fn oldest(&self, of: &HashMap<IpAddr, Vec<RegistrationId>>, own: usize) -> Option<RegistrationId> {
        let most = of.values().max_by_key(|ids| ids.len()).filter(|ids| ids.len() >= own + 2)?;
        most.iter().find(|id| self.is_idle(id)).copied()
    }

    /// Uploads by the networks that they come from; those from before a start of the relay are of none that is known.
    fn by_network(
        &self,
        uploads: impl Iterator<Item = RegistrationId>,
    ) -> HashMap<IpAddr, Vec<RegistrationId>> {
        let uploading = lock(&self.uploading);
        let mut of = HashMap::<IpAddr, Vec<RegistrationId>>::new();
        for id in uploads {
            let network = uploading.get(&id).copied().unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
            of.entry(network).or_default().push(id);
        }
        of
    }

    /// Whether a network has registered as many keys today as one may when there is little room.
    fn has_its_share(&self, from: IpAddr) -> bool {
        let mut recent = lock(&self.recent);
        recent.retain(|_, (_, since)| since.elapsed() < Duration::from_secs(DAY));
        let quota = (self.limit / QUOTA).max(1);
        self.limit >= QUOTA && recent.get(&from).is_some_and(|(count, _)| *count >= quota)
    }

    /// Whether nothing is being written for it.
    fn is_idle(&self, id: &RegistrationId) -> bool {
        !lock(&self.busy).contains(id)
    }

    fn store(&self, registration: &Registration) -> Result<(), ServerError> {
        self.registry.change_registrations(&[(registration.id.0, Change::Put(registration))])
    }

    /// Changes a registration, if it is still there.
    fn update_now(
        &self,
        id: &RegistrationId,
        change: impl FnOnce(&mut Registration),
    ) -> Answer<Registration> {
        let mut changed = self.get(id).ok_or_else(Refusal::unauthorized)?;
        change(&mut changed);
        self.store(&changed)?;
        let mut all = write(&self.all);
        if let Some(one) = all.get_mut(id) {
            changed.used = changed.used.max(one.used);
            *one = changed.clone();
        }
        Ok(changed)
    }

    /// Gives a registration a standing order. The same order again changes nothing; another one has to wait until that is deleted.
    pub(crate) fn order(&self, id: &RegistrationId, order: StandingStatus) -> Answer<Registration> {
        let _one_at_a_time = lock(&self.changes);
        let registration = self.get(id).ok_or_else(Refusal::unauthorized)?;
        match &registration.standing {
            Some(standing) if standing.first == order.first => Ok(registration),
            Some(_) => {
                Err(Refusal::new(Code::Conflict, "there is another order: delete it first").at("body:first"))
            }
            None => self.update_now(id, |one| one.standing = Some(order)),
        }
    }

    /// Ends a standing order and removes what was made for it, before anybody can order again.
    pub(crate) fn cancel_order(&self, id: &RegistrationId) -> Answer<()> {
        let _one_at_a_time = lock(&self.changes);
        self.update_now(id, |one| one.standing = None)?;
        self.vectors.keep_of(&Owner::order(*id), |_| false)?;
        Ok(remove(&self.data.standing(id))?)
    }

    /// Removes the digests of an order that was deleted while they were made; another order's stay.
    pub(crate) fn remove_orphans(&self, id: &RegistrationId) -> Result<(), ServerError> {
        let _one_at_a_time = lock(&self.changes);
        if self.get(id).is_none_or(|one| one.standing.is_none()) {
            remove(&self.data.standing(id))
        } else {
            Ok(())
        }
    }

    /// Notes how far standing orders are, in one transaction. An order that is not what it was meanwhile stays as it is.
    pub(crate) fn advance(&self, done: &[(RegistrationId, StandingStatus, u64)]) -> Result<(), ServerError> {
        let _one_at_a_time = lock(&self.changes);
        let mut changed = Vec::new();
        for (id, before, complete_to) in done {
            if let Some(one) = self.get(id)
                && let Some(standing) = one.standing.as_ref().filter(|standing| *standing == before)
            {
                let standing = StandingStatus { complete_to: *complete_to, ..standing.clone() };
                changed.push(Registration { standing: Some(standing), ..one });
            }
        }
        let changes: Vec<_> = changed.iter().map(|one| (one.id.0, Change::Put(one))).collect();
        self.registry.change_registrations(&changes)?;
        let mut all = write(&self.all);
        for one in changed {
            if let Some(before) = all.get_mut(&one.id) {
                before.standing = one.standing;
            }
        }
        Ok(())
    }

    /// Removes a registration with its files; those of its jobs are the caller's. The key's file stays if another registration
    /// has the same.
    pub(crate) fn remove(&self, id: &RegistrationId) -> Result<Option<Removed>, ServerError> {
        let _one_at_a_time = lock(&self.changes);
        self.remove_now(id)
    }

    fn remove_now(&self, id: &RegistrationId) -> Result<Option<Removed>, ServerError> {
        let Some(registration) = self.get(id) else { return Ok(None) };
        self.registry.remove_registration(&id.0)?;
        let last = {
            let mut all = write(&self.all);
            all.remove(id);
            !all.values().any(|one| one.ready && one.hash == registration.hash)
        };
        lock(&self.uploading).remove(id);
        lock(&self.touched).remove(id);
        remove(&self.data.upload(id))?;
        remove(&self.data.standing(id))?;
        self.vectors.remove_registration(id)?;
        if last {
            remove(&self.data.key(&registration.hash))?;
        }
        Ok(Some(Removed { id: *id, key: last.then_some(registration.hash) }))
    }

    /// Claims a registration's upload; one request has it at a time.
    pub(crate) fn claim(self: &Arc<Self>, id: RegistrationId) -> Answer<Claim> {
        if lock(&self.busy).insert(id) {
            Ok(Claim { keys: self.clone(), id })
        } else {
            Err(Refusal::new(Code::Conflict, "another request is uploading this key").retry_after(1))
        }
    }

    /// The file of a registration's key has been verified under the name of the upload: makes it the key's file.
    pub(crate) fn finish_upload(&self, id: &RegistrationId) -> Answer<Registration> {
        // Before the file gets its name, so that a deletion of the same key by another does not remove it in between.
        let _one_at_a_time = lock(&self.changes);
        let registration = self.get(id).ok_or_else(Refusal::unauthorized)?;
        let (from, to) = (self.data.upload(id), self.data.key(&registration.hash));
        std::fs::rename(&from, &to).map_err(ServerError::io("name", &to))?;
        crate::files::sync_directory(&self.data.root().join("keys"))?;
        let ready = self.update_now(id, |one| one.ready = true)?;
        lock(&self.uploading).remove(id);
        Ok(ready)
    }

    pub(crate) fn status(&self, registration: &Registration) -> KeyStatus {
        let uploaded = if registration.ready { registration.bytes } else { self.uploaded(&registration.id) };
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
    pub(crate) fn uploaded(&self, id: &RegistrationId) -> u64 {
        std::fs::metadata(self.data.upload(id)).map_or(0, |metadata| metadata.len())
    }
}

/// The right to write an upload.
#[derive(Debug)]
pub(crate) struct Claim {
    keys: Arc<Keys>,
    id: RegistrationId,
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.keys.busy).remove(&self.id);
    }
}
