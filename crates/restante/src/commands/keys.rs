//! `restante keys`.

use std::path::Path;

use restante_client::{
    Account, Address,
    relay::{KnownRelay, SyncState},
};
use restante_clue::ClueParameters;
use restante_omr::{
    compact::CompactDetectionKey,
    stream::{DetectionKey, KeyId},
};
use restante_wire::{Envelope, Kind, relay::DigestKind};
use zeroize::Zeroizing;

use crate::{
    arguments::KeysCommand,
    error::CliError,
    files::{Kept, Locked, Output, Work, read},
    report::{Report, note},
    session::Session,
};

pub fn run(session: &Session, command: KeysCommand) -> Result<(), CliError> {
    match command {
        KeysCommand::New { name, clue, compact } => new(session, &name, clue.clue, compact),
        KeysCommand::Show { file } => show(session, &file),
        KeysCommand::Address { secret, out, detection, compact } => {
            address(session, &secret, out.as_ref(), detection.as_ref(), compact.as_ref())
        }
        KeysCommand::Rotate { secret, state, new, compact } => {
            rotate(session, &secret, &state, new, compact.as_ref())
        }
    }
}

fn new(session: &Session, name: &Work, clue: ClueParameters, compact: bool) -> Result<(), CliError> {
    let account = Account::random(clue, &mut session.rng()?);
    let detection = detection_key(session, &account)?.to_file();
    let [secret_path, address_path, detection_path] =
        ["secret", "address", "detection"].map(|extension| name.with_extension(extension));
    if secret_path.exists() {
        let reason = "exists already, and what was sent to it can be read with it alone: nothing replaces it. Give another name, or \
                      move it away yourself";
        return Err(CliError::input(&secret_path)(&reason));
    }
    let compact_path = name.with_extension("compact");
    let compact = compact.then(|| compact_detection_key(session, &account)).transpose()?;
    let compact = compact.map(|key| key.to_file());
    let (address, secret) = (account.address().to_file(), account.to_file());
    let mut parts: Vec<(&Output, &[u8])> = vec![(&address_path, &address), (&detection_path, &detection)];
    parts.extend(compact.as_deref().map(|compact| (&compact_path, compact)));
    parts.push((&secret_path, &secret));
    let mut made: Vec<&Output> = Vec::new();
    for (path, bytes) in parts {
        match session.outputs.write(path, bytes) {
            Ok(is_new) => made.extend(is_new.then_some(path)),
            Err(error) => {
                // All or none, so that the next attempt finds the names free.
                made.iter().for_each(|path| drop(std::fs::remove_file(&***path)));
                return Err(error);
            }
        }
    }
    let mut report = Report::new()
        .with("secret", secret_path.display().to_string())
        .with("address", address_path.display().to_string())
        .with("detection_key", detection_path.display().to_string())
        .with("fingerprint", account.address().fingerprint())
        .with("detection_key_id", KeyId::of_file(&detection).to_string())
        .with("clue", clue.name());
    if compact.is_some() {
        report = report.with("compact_detection_key", compact_path.display().to_string());
    }
    report.print(session.json)
}

fn show(session: &Session, path: &Path) -> Result<(), CliError> {
    let bytes = read(path)?;
    let envelope = Envelope::open(&bytes).map_err(|error| CliError::input(path)(&error))?;
    let mut report = Report::new()
        .with("kind", envelope.kind.to_string())
        .with("format_version", envelope.version)
        .with("parameters", envelope.parameters.to_string())
        .with("bytes", bytes.len());
    let client = |error: restante_client::LetterError| CliError::input(path)(&error);
    match envelope.kind {
        Kind::SecretKey => {
            let account = Account::from_file(&bytes).map_err(client)?;
            report = report
                .with("clue", account.parameters().name())
                .with("fingerprint", account.address().fingerprint());
        }
        Kind::Address => {
            let address = Address::from_file(&bytes).map_err(client)?;
            report =
                report.with("clue", address.parameters().name()).with("fingerprint", address.fingerprint());
        }
        Kind::CompactDetectionKey => {
            let id =
                CompactDetectionKey::id_of_file(&bytes).map_err(|error| CliError::input(path)(&error))?;
            report = report.with("detection_key_id", id.to_string());
        }
        Kind::DetectionKey => report = report.with("detection_key_id", KeyId::of_file(&bytes).to_string()),
        _ => {}
    }
    report.print(session.json)
}

fn address(
    session: &Session,
    secret: &Path,
    out: Option<&Output>,
    detection: Option<&Output>,
    compact: Option<&Output>,
) -> Result<(), CliError> {
    let account = load_account(secret)?;
    let mut report = Report::new().with("fingerprint", account.address().fingerprint());
    if let Some(path) = out {
        session.outputs.write(path, &account.address().to_file())?;
        report = report.with("address", path.display().to_string());
    }
    if let Some(path) = detection {
        session.outputs.write(path, &detection_key(session, &account)?.to_file())?;
        report = report.with("detection_key", path.display().to_string());
    }
    if let Some(path) = compact {
        session.outputs.write(path, &compact_detection_key(session, &account)?.to_file())?;
        report = report.with("compact_detection_key", path.display().to_string());
    }
    report.print(session.json)
}

fn rotate(
    session: &Session,
    secret: &Path,
    path: &Kept,
    new: bool,
    compact: Option<&Output>,
) -> Result<(), CliError> {
    let account = load_account(secret)?;
    let file = Locked::now(path)?;
    let mut state = match (new, file.read()?) {
        (true, None) => SyncState::new(*account.parameters(), 0, KnownRelay::default()),
        (true, Some(_)) => {
            return Err(CliError::input(path)(&"exists already; --new makes one after a loss"));
        }
        (false, Some(bytes)) => {
            SyncState::from_file(&bytes).map_err(|error| CliError::input(path)(&error))?
        }
        (false, None) => {
            return Err(CliError::input(path)(&"no such state; after a loss --new makes another"));
        }
    };
    state.claim(&account).map_err(|error| CliError::input(path)(&error))?;
    let kind = if compact.is_some() { DigestKind::Compact } else { DigestKind::Stream };
    state.rotate(kind, &mut session.rng()?);
    let rotation = state.rotation(kind);
    let id = match compact {
        Some(path) => {
            let context = session.compact_context(*account.parameters(), false)?;
            let key = account.compact_secret_of(&context, rotation)?.detection_key()?;
            session.outputs.write(path, &key.to_file())?;
            key.id()
        }
        None => {
            let context = session.stream_context(*account.parameters())?;
            KeyId::of_file(&account.recipient_secret_of(&context, rotation)?.detection_key()?.to_file())
        }
    };
    file.write(&state.to_file())?;
    note!(
        "restante: which key it is stands in {} alone: if that is lost, rotate again, with --new, before the next sync",
        path.display()
    );
    Report::new()
        .with("detection_key_id", id.to_string())
        .with("rotation", rotation)
        .with("retired", state.retired().len())
        .print(session.json)
}

/// Reads a secret key.
pub fn load_account(path: &Path) -> Result<Account, CliError> {
    let bytes = Zeroizing::new(read(path)?);
    Account::from_file(&bytes).map_err(|error| CliError::input(path)(&error))
}

/// Reads an address.
pub fn load_address(path: &Path) -> Result<Address, CliError> {
    Address::from_file(&read(path)?).map_err(|error| CliError::input(path)(&error))
}

/// The account's detection key.
fn detection_key(session: &Session, account: &Account) -> Result<DetectionKey, CliError> {
    let context = session.stream_context(*account.parameters())?;
    Ok(account.recipient_secret(&context)?.detection_key()?)
}

/// The account's detection key for compact digests.
fn compact_detection_key(session: &Session, account: &Account) -> Result<CompactDetectionKey, CliError> {
    let context = session.compact_context(*account.parameters(), false)?;
    Ok(account.compact_secret(&context)?.detection_key()?)
}
