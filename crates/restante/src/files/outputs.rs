//! The files that a command writes under names that a person gave: never over an input, another output, or a file that cannot be
//! made again.
//!
//! The types of the command line's paths say what is done with them: a `PathBuf` is read, an [`Output`] written, a [`Kept`] read and
//! written again, a [`Work`] is a place for files with names of the program's own. [`Outputs::new`] compares them before a command
//! begins, as files and not as names; [`Outputs::write`] does it again when the time has come, and looks at what is there.

use std::{
    any::TypeId,
    ffi::OsString,
    fs::{self, File, Metadata},
    io::{self, BufWriter, Read, Write},
    ops::Deref,
    path::{Path, PathBuf},
    sync::Mutex,
};

use clap::{Arg, ArgMatches, Command};
use restante_wire::Kind;

use super::{Existing, resolved, with_extension, write_with};
use crate::error::CliError;

/// Where a result goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output(PathBuf);

/// A file that is read, changed and written again: see [`Locked`](super::Locked).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept(PathBuf);

/// A directory for files whose names are the program's own, or what such names begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work(PathBuf);

impl Output {
    /// This name with an extension appended to it.
    pub fn with_extension(&self, extension: &str) -> Self {
        Self(with_extension(&self.0, extension))
    }

    /// A file in this directory.
    pub fn join(&self, name: &str) -> Self {
        Self(self.0.join(name))
    }
}

impl Work {
    /// This name with an extension appended to it, for a result.
    pub fn with_extension(&self, extension: &str) -> Output {
        Output(with_extension(&self.0, extension))
    }

    /// A result in this directory.
    pub fn output(&self, name: &str) -> Output {
        Output(self.0.join(name))
    }
}

macro_rules! paths {
    ($($name:ident),*) => {$(
        impl From<OsString> for $name {
            fn from(path: OsString) -> Self {
                Self(path.into())
            }
        }

        impl AsRef<Path> for $name {
            fn as_ref(&self) -> &Path {
                &self.0
            }
        }

        impl Deref for $name {
            type Target = Path;

            fn deref(&self) -> &Path {
                &self.0
            }
        }
    )*};
}
paths!(Output, Kept, Work);

/// The use of a path that an argument gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Input,
    Kept,
    Output,
}

impl Role {
    fn of(argument: &Arg) -> Option<Self> {
        let found = argument.get_value_parser().type_id();
        let roles = [
            (TypeId::of::<PathBuf>(), Self::Input),
            (TypeId::of::<Kept>(), Self::Kept),
            (TypeId::of::<Output>(), Self::Output),
        ];
        roles.into_iter().find(|(id, _)| found == *id).map(|(_, role)| role)
    }
}

/// A path of the command line, and the argument that gave it.
#[derive(Debug)]
struct Named {
    role: Role,
    argument: String,
    path: PathBuf,
}

/// The files that a command may write: see the module.
#[derive(Debug, Default)]
pub struct Outputs {
    inputs: Vec<Named>,
    force: bool,
    written: Mutex<Vec<PathBuf>>,
}

/// The kind of a file, whatever its name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Identity {
    /// Device and inode. Pipes have them, too.
    #[cfg(unix)]
    File(u64, u64),
    /// Not there: the directory's device and inode, and the name in it.
    #[cfg(unix)]
    New(u64, u64, OsString),
    /// Other signs.
    Path(PathBuf),
    /// A terminal, or the null device: what comes from it is not what went there.
    Device,
}

impl Identity {
    fn of(path: &Path) -> Self {
        let path = resolved(path);
        match fs::metadata(&path) {
            Ok(found) => Self::of_metadata(&found).unwrap_or(Self::Path(path)),
            Err(_) => Self::of_new(&path).unwrap_or(Self::Path(path)),
        }
    }

    #[cfg(unix)]
    fn of_metadata(found: &Metadata) -> Option<Self> {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};

        Some(if found.file_type().is_char_device() {
            Self::Device
        } else {
            Self::File(found.dev(), found.ino())
        })
    }

    #[cfg(unix)]
    fn of_new(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;

        let folder = fs::metadata(super::folder_of(path)).ok()?;
        Some(Self::New(folder.dev(), folder.ino(), path.file_name()?.to_owned()))
    }

    #[cfg(not(unix))]
    fn of_metadata(_: &Metadata) -> Option<Self> {
        None
    }

    #[cfg(not(unix))]
    fn of_new(_: &Path) -> Option<Self> {
        None
    }

    fn is(&self, other: &Self) -> bool {
        *self != Self::Device && self == other
    }
}

/// Whether a path leads into a directory.
fn is_within(path: &Path, directory: &Path) -> bool {
    directory.is_dir()
        && fs::canonicalize(directory)
            .is_ok_and(|directory| resolved(path).ancestors().skip(1).any(|above| above == directory))
}

impl Outputs {
    /// Compares all paths of a command line with each other.
    ///
    /// # Errors
    ///
    /// [`CliError::Usage`] if something would be written that is read, or that is written already.
    pub fn new(command: &Command, matches: &ArgMatches, force: bool) -> Result<Self, CliError> {
        let mut named = Vec::new();
        collect(command, matches, &mut named);
        let identities: Vec<Identity> = named.iter().map(|one| Identity::of(&one.path)).collect();
        for (place, (one, identity)) in named.iter().zip(&identities).enumerate() {
            for (other, other_identity) in named.iter().zip(&identities).take(place) {
                if one.role == Role::Input && other.role == Role::Input {
                    continue;
                }
                let same = identity.is(other_identity)
                    || one.role == Role::Output
                        && other.role == Role::Input
                        && is_within(&one.path, &other.path)
                    || other.role == Role::Output
                        && one.role == Role::Input
                        && is_within(&other.path, &one.path);
                if same {
                    return Err(both(&other.argument, &one.argument, &one.path));
                }
            }
        }
        let outputs = named.iter().zip(&identities).filter(|(one, _)| one.role != Role::Input);
        if let Some(found) = standard_input()
            && let Some((one, _)) = outputs.into_iter().find(|(_, identity)| identity.is(&found))
        {
            return Err(both("standard input", &one.argument, &one.path));
        }
        named.retain(|one| one.role != Role::Output);
        Ok(Self { inputs: named, force, written: Mutex::default() })
    }

    /// Writes a file that appears under its name only when it is complete and durable, readable by its owner alone. What is no file
    /// (a pipe, a terminal) is written to.
    ///
    /// A file that is there is replaced if it is of the same kind and can be made again, or if `--force` was given. A secret key, a
    /// state of `sync` and an outbox are never replaced. Gives whether there was no file.
    ///
    /// # Errors
    ///
    /// [`CliError`]; nothing has changed then.
    pub fn write(&self, output: &Output, bytes: &[u8]) -> Result<bool, CliError> {
        let kind = kind_of(bytes);
        self.place(output, kind, Some(bytes), |file| {
            file.write_all(bytes).map_err(CliError::system("write", output))
        })
    }

    /// The same for what is written piece by piece, and is a file of some kind of the project's, or none.
    pub fn write_with(
        &self,
        output: &Output,
        kind: Option<Kind>,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
    ) -> Result<bool, CliError> {
        self.place(output, kind.map(|kind| kind as u8), None, fill)
    }

    fn place(
        &self,
        output: &Output,
        kind: Option<u8>,
        bytes: Option<&[u8]>,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
    ) -> Result<bool, CliError> {
        let identity = Identity::of(output);
        if let Some(input) = self.inputs.iter().find(|input| identity.is(&Identity::of(&input.path))) {
            return Err(both(&input.argument, "an output", output));
        }
        let mut written = self.written.lock().map_err(|_| CliError::Environment("a thread failed".into()))?;
        // The same once more is no harm.
        if let Some(bytes) = bytes
            && fs::metadata(output).is_ok_and(|found| found.is_file())
            && has_contents(output, bytes).map_err(CliError::system("read", output))?
        {
            written.push(resolved(output));
            return Ok(false);
        }
        if written.iter().any(|path| identity.is(&Identity::of(path))) {
            return Err(both("an output", "another", output));
        }
        let path = resolved(output);
        if standard_output().is_some_and(|out| identity.is(&out)) {
            // Another handle would write over what is printed, or be written over.
            written.push(path);
            return write_through(io::stdout(), output, fill).map(|()| false);
        }
        let (existing, is_new) = match fs::metadata(&path) {
            Ok(found) if found.is_dir() => {
                return Err(CliError::input(output)(&"it is a directory, expected the name of a file"));
            }
            Ok(found) if !found.is_file() => {
                written.push(path.clone());
                let file =
                    File::options().write(true).open(&path).map_err(CliError::system("open", output))?;
                return write_through(file, output, fill).map(|()| false);
            }
            Ok(_) => {
                self.check_existing(&path, kind)?;
                (Existing::Replace, false)
            }
            // Somebody else may make it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Existing::Refuse, true),
            Err(error) => return Err(CliError::system("inspect", &path)(error)),
        };
        let mut outcome = Ok(());
        write_with(&path, existing, |file| {
            let mut buffered = BufWriter::with_capacity(1 << 18, file);
            outcome = fill(&mut buffered);
            match &outcome {
                Ok(()) => buffered.flush(),
                Err(_) => Err(io::ErrorKind::Other.into()),
            }
        })
        .map_err(|error| std::mem::replace(&mut outcome, Ok(())).err().unwrap_or(error))?;
        written.push(path);
        Ok(is_new)
    }

    /// Refuses to replace what cannot be made again.
    fn check_existing(&self, path: &Path, kind: Option<u8>) -> Result<(), CliError> {
        let mut head = Vec::new();
        let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
        read.map_err(CliError::system("read", path))?;
        let found = kind_of(&head);
        let is_one_of =
            |kinds: &[Kind]| found.is_some_and(|found| kinds.iter().any(|kind| *kind as u8 == found));
        if is_one_of(&LASTING) {
            let reason = "it exists and is a secret key, a state or an outbox: nothing replaces that. Give another name, or move \
                          it away yourself";
            return Err(CliError::input(path)(&reason));
        }
        if self.force || found.is_some() && found == kind && !is_one_of(&PRECIOUS) {
            return Ok(());
        }
        Err(CliError::input(path)(
            &"it exists, and is left as it is: give another name, or --force to replace it",
        ))
    }
}

/// Their contents exist nowhere else.
const LASTING: [Kind; 4] = [Kind::SecretKey, Kind::SyncState, Kind::Outbox, Kind::Outboxes];
/// Replaced only if somebody says so, even by the same kind: other people's addresses, and states.
const PRECIOUS: [Kind; 4] = [Kind::Address, Kind::Contact, Kind::FetchState, Kind::SearchState];

/// The magic number and the kind.
const HEAD_BYTES: u64 = 5;

fn kind_of(bytes: &[u8]) -> Option<u8> {
    bytes.strip_prefix(b"RSTN")?.first().copied()
}

fn both(one: &str, other: &str, path: &Path) -> CliError {
    CliError::Usage(format!("{one} and {other} are one file or overlap: {}", path.display()))
}

fn has_contents(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let file = File::open(path)?;
    if file.metadata()?.len() != bytes.len() as u64 {
        return Ok(false);
    }
    let (mut file, mut rest, mut part) = (file, bytes, vec![0; 1 << 16]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(rest.is_empty()),
            read => match rest.strip_prefix(&part[..read]) {
                Some(left) => rest = left,
                None => return Ok(false),
            },
        }
    }
}

/// Writes to what is no file.
fn write_through(
    file: impl Write,
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut file = BufWriter::new(file);
    let outcome = fill(&mut file).and_then(|()| file.flush().map_err(CliError::system("write", path)));
    match outcome {
        Err(CliError::System { reason, .. }) if reason.kind() == io::ErrorKind::BrokenPipe => {
            Err(CliError::OutputClosed)
        }
        outcome => outcome,
    }
}

/// Standard input, if it is a file or a pipe.
fn standard_input() -> Option<Identity> {
    #[cfg(unix)]
    return of_stream(&io::stdin());
    #[cfg(not(unix))]
    None
}

/// Standard output, if it is a file or a pipe.
fn standard_output() -> Option<Identity> {
    #[cfg(unix)]
    return of_stream(&io::stdout());
    #[cfg(not(unix))]
    None
}

#[cfg(unix)]
fn of_stream(stream: &impl std::os::fd::AsFd) -> Option<Identity> {
    let stream = stream.as_fd().try_clone_to_owned().ok()?;
    Identity::of_metadata(&File::from(stream).metadata().ok()?)
}

/// The paths of a command line, those of subcommands included.
fn collect(command: &Command, matches: &ArgMatches, named: &mut Vec<Named>) {
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let Some(role) = Role::of(argument) else { continue };
        let paths: Vec<PathBuf> = match role {
            Role::Input => values::<PathBuf>(matches, id).collect(),
            Role::Kept => values::<Kept>(matches, id).map(|kept| kept.0).collect(),
            Role::Output => values::<Output>(matches, id).map(|output| output.0).collect(),
        };
        let argument = match (argument.get_long(), argument.get_value_names()) {
            (Some(long), _) => format!("--{long}"),
            (None, Some([name, ..])) => name.to_string(),
            (None, _) => id.to_uppercase(),
        };
        // A dash stands for standard input, which is looked at in any case.
        let paths = paths.into_iter().filter(|path| path != Path::new("-"));
        named.extend(paths.map(|path| Named { role, argument: argument.clone(), path }));
    }
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        collect(command, matches, named);
    }
}

fn values<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> impl Iterator<Item = T> {
    matches.try_get_many::<T>(id).ok().flatten().into_iter().flatten().cloned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use clap::{ArgAction, CommandFactory};

    use super::*;
    use crate::arguments::Arguments;

    /// Paths in a directory of their own, as they would be given on a command line.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn output(&self, name: &str) -> Output {
            Output(self.path(name))
        }
    }

    /// A value that every argument takes which is no path.
    fn sample(argument: &Arg) -> OsString {
        let known = argument.get_possible_values();
        match known.first() {
            Some(value) => value.get_name().into(),
            None => match argument.get_id().as_str() {
                "name" | "text" | "selector" => "x".into(),
                "relay" if argument.get_value_names().is_some_and(|names| names[0] == "KEY") => {
                    "0".repeat(64).into()
                }
                "relay" | "of" | "second_relay" => "https://relay.example".into(),
                "ids" => "0".repeat(32).into(),
                _ => "9".into(),
            },
        }
    }

    fn given(argument: &Arg, value: OsString) -> Vec<OsString> {
        match argument.get_long() {
            Some(long) => vec![format!("--{long}").into(), value],
            None => vec![value],
        }
    }

    /// Every command that has an output, with the words that lead to it.
    fn commands_with_outputs(command: &Command, words: &[String], found: &mut Vec<(Vec<String>, Command)>) {
        if command.get_arguments().any(|argument| Role::of(argument) == Some(Role::Output)) {
            found.push((words.to_vec(), command.clone()));
        }
        for inner in command.get_subcommands() {
            commands_with_outputs(inner, &[words, &[inner.get_name().to_owned()]].concat(), found);
        }
    }

    /// Whatever can be read or written by a command cannot be its output as well.
    #[test]
    fn no_command_writes_what_it_reads_or_writes_already() {
        let place = Place::new();
        let table = Arguments::command();
        let mut commands = Vec::new();
        commands_with_outputs(&table, &["restante".into()], &mut commands);
        let names: Vec<String> = commands.iter().map(|(words, _)| words[1..].join(" ")).collect();
        for expected in [
            "keys address",
            "keys rotate",
            "board export",
            "detect",
            "digest",
            "read",
            "lookup",
            "fetch build",
            "fetch query",
            "fetch answer",
            "fetch open",
            "search query",
            "search answer",
            "search open",
        ] {
            assert!(names.iter().any(|name| name == expected), "{expected}: {names:?}");
        }
        for (words, command) in commands {
            let arguments: Vec<&Arg> = command.get_arguments().collect();
            let role = |argument: &Arg| Role::of(argument);
            for output in arguments.iter().filter(|argument| role(argument) == Some(Role::Output)) {
                let mut tried = 0;
                for other in arguments.iter().filter(|argument| role(argument).is_some()) {
                    let itself = other.get_id() == output.get_id();
                    if itself && !matches!(output.get_action(), ArgAction::Append) {
                        continue;
                    }
                    let mut line: Vec<OsString> = words.iter().map(OsString::from).collect();
                    for argument in &arguments {
                        if argument.get_id() == output.get_id() || argument.get_id() == other.get_id() {
                            continue;
                        }
                        // One of several, then.
                        let is_one_of = ["hash_bits", "record_bytes"].contains(&argument.get_id().as_str());
                        if argument.is_required_set() && !is_one_of {
                            let value = match role(argument) {
                                Some(_) => place.path(argument.get_id().as_str()).into(),
                                None => sample(argument),
                            };
                            line.extend(given(argument, value));
                        }
                    }
                    let same = place.path("same");
                    line.extend(given(output, same.clone().into()));
                    line.extend(given(other, place.path("x/../same").into()));
                    fs::create_dir_all(place.path("x")).unwrap();
                    // What is needed only if something else is not given, and cannot be given with everything.
                    let fillers: [&[&str]; 8] = [
                        &[],
                        &["--selector=x"],
                        &["--selector=x", "--hash-bits=9"],
                        &["--hash-bits=9"],
                        &["--table=other"],
                        &["--board=other"],
                        &["--board=other", "--record-bytes=9"],
                        &["--record-bytes=9"],
                    ];
                    let attempt = |filler: &&[&str]| {
                        let line = line.iter().cloned().chain(filler.iter().map(OsString::from));
                        table.clone().try_get_matches_from(line).ok()
                    };
                    let Some(matches) = fillers.iter().find_map(attempt) else {
                        panic!("{line:?} is not a command line: what does it lack?");
                    };
                    for exists in [false, true] {
                        if exists {
                            fs::write(&same, "sentinel").unwrap();
                        }
                        let outcome = Outputs::new(&table, &matches, true);
                        assert!(matches!(outcome, Err(CliError::Usage(_))), "{line:?}: {outcome:?}");
                    }
                    fs::remove_file(&same).unwrap();
                    tried += 1;
                }
                assert!(tried > 0, "{words:?}: nothing was tried with {}", output.get_id());
            }
        }
    }

    fn outputs(inputs: &[PathBuf], force: bool) -> Outputs {
        let input = |path: &PathBuf| Named { role: Role::Input, argument: "--in".into(), path: path.clone() };
        Outputs { inputs: inputs.iter().map(input).collect(), force, written: Mutex::default() }
    }

    #[test]
    #[cfg(unix)]
    fn files_are_compared_and_not_names() {
        use std::os::unix::fs::symlink;

        let place = Place::new();
        fs::write(place.path("table"), "rows").unwrap();
        fs::hard_link(place.path("table"), place.path("hard")).unwrap();
        symlink("table", place.path("soft")).unwrap();
        symlink("nothing yet", place.path("dangling")).unwrap();
        fs::create_dir(place.path("folder")).unwrap();
        let inputs = [place.path("table"), place.path("nothing yet"), place.path("folder")];
        for force in [false, true] {
            let outputs = outputs(&inputs, force);
            for name in
                ["table", "hard", "soft", "folder/../table", "dangling", "folder/../nothing yet", "folder"]
            {
                assert!(outputs.write(&place.output(name), b"x").is_err(), "{name}");
            }
        }
        assert_eq!(fs::read(place.path("table")).unwrap(), b"rows");
        assert!(!place.path("nothing yet").exists());
        // Names that follow from others are compared when they are written.
        let outputs = outputs(&[place.path("answer.1")], true);
        let answer = place.output("answer");
        assert!(outputs.write(&answer.with_extension("0"), b"x").unwrap());
        assert!(outputs.write(&answer.with_extension("1"), b"x").is_err());
        assert!(outputs.write(&answer.with_extension("0"), b"y").is_err(), "written already");
        assert_eq!(fs::read(place.path("answer.0")).unwrap(), b"x");
    }

    #[test]
    fn what_is_there_is_replaced_by_its_own_kind_or_when_somebody_says_so() {
        let place = Place::new();
        let file = |kind: Kind, body: &[u8]| [b"RSTN", &[kind as u8][..], body].concat();
        let digest = |body| file(Kind::StreamDigest, body);
        let output = place.output("x");
        let attempt = |existing: &[u8], new: &[u8], force: bool| {
            fs::write(&output, existing).unwrap();
            let outcome = outputs(&[], force).write(&output, new);
            let now = fs::read(&output).unwrap();
            assert_eq!(now, if outcome.is_ok() { new } else { existing });
            outcome.is_ok()
        };
        assert!(attempt(&digest(b"old"), &digest(b"new"), false));
        for existing in [&b"rows"[..], b"", b"RST", b"RSTN", &file(Kind::FetchQuery, b"q")] {
            assert_eq!([false, true].map(|force| attempt(existing, &digest(b"new"), force)), [false, true]);
        }
        assert_eq!([false, true].map(|force| attempt(b"old", b"text", force)), [false, true]);
        for kind in PRECIOUS {
            let (old, new) = (file(kind, b"old"), file(kind, b"new"));
            assert_eq!([false, true].map(|force| attempt(&old, &new, force)), [false, true], "{kind}");
            assert!(attempt(&old, &old, false), "nothing changes");
        }
        for kind in LASTING {
            let (old, new) = (file(kind, b"old"), file(kind, b"new"));
            assert_eq!([false, true].map(|force| attempt(&old, &new, force)), [false, false], "{kind}");
        }
    }

    /// A device or a pipe is written to. As a file that replaces it would, it is not.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_no_file_is_written_to() {
        use std::os::{fd::AsRawFd, unix::fs::FileTypeExt};

        let place = Place::new();
        let scripts = outputs(&[], false);
        let (mut reader, writer) = io::pipe().unwrap();
        std::os::unix::fs::symlink(format!("/proc/self/fd/{}", writer.as_raw_fd()), place.path("pipe"))
            .unwrap();
        assert!(!scripts.write(&place.output("pipe"), b"bytes").unwrap());
        assert!(scripts.write(&place.output("pipe"), b"bytes").is_err(), "two into one pipe");
        drop(writer);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"bytes");
        let null = Output("/dev/null".into());
        assert!((0..2).all(|_| scripts.write(&null, b"x").is_ok()));
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_failure_on_the_way_leaves_no_file() {
        let place = Place::new();
        let outputs = outputs(&[], false);
        let outcome = outputs.write_with(&place.output("x"), None, |file| {
            file.write_all(b"half").unwrap();
            Err(CliError::Refused("no more".into()))
        });
        assert!(matches!(outcome, Err(CliError::Refused(_))));
        assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 0);
        assert!(outputs.write(&place.output("x"), b"whole").unwrap());
    }
}
