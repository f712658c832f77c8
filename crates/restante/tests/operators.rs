//! What an operator and an analyst see: processes, exit codes, files, and the documents' recipes word for word.

#![cfg(all(feature = "serve", unix))]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, ChildStderr, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

fn command(place: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
    command.current_dir(place.path()).args(arguments).stdin(Stdio::null());
    for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command
}

fn run(place: &TempDir, arguments: &[&str]) -> Output {
    command(place, arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A relay's process; it ends with the test.
struct Process {
    child: Child,
    report: Value,
    log: BufReader<ChildStderr>,
}

impl Process {
    fn start(place: &TempDir, arguments: &[&str]) -> Self {
        let local = ["--json", "--listen", "127.0.0.1:0", "--operations", "127.0.0.1:0"];
        let mut command = command(place, &[arguments, &local].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let Ok(report) = serde_json::from_str(&line) else {
            let mut text = String::new();
            log.read_to_string(&mut text).unwrap();
            panic!("{arguments:?}: {text}");
        };
        Self { child, report, log }
    }

    fn text(&self, name: &str) -> &str {
        self.report[name].as_str().unwrap()
    }

    fn hang_up(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    }

    /// Reads the log up to a line with this text.
    fn wait_for(&mut self, text: &str) -> String {
        for line in self.log.by_ref().lines() {
            let line = line.unwrap();
            if line.contains(text) {
                return line;
            }
        }
        panic!("the log ended without {text:?}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn write(place: &TempDir, name: &str, text: &str) {
    fs::write(place.path().join(name), text).unwrap();
}

/// A certificate for this machine, and its key.
fn certify(place: &TempDir, certificate: &str, key: &str) {
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    write(place, certificate, &own.cert.pem());
    write(place, key, &own.signing_key.serialize_pem());
}

const TLS: &str = "[tls]\ncertificate = \"chain.pem\"\nkey = \"key.pem\"\n";

#[test]
fn certificates_are_read_again_when_the_relay_is_told_to() {
    let place = tempfile::tempdir().unwrap();
    certify(&place, "chain.pem", "key.pem");
    write(&place, "relay.toml", TLS);
    let mut relay = Process::start(&place, &["serve", "--config", "relay.toml", "--data", "a"]);
    let url = format!("https://{}", relay.text("listen"));
    assert!(run(&place, &["keys", "new", "alice"]).status.success());
    let send = |authority: &str| {
        let arguments = ["send", "--relay", &url, "--to", "alice.address", "--text", "x", "--attempts", "1"];
        run(&place, &[&arguments[..], &["--authority", authority]].concat())
    };
    fs::copy(place.path().join("chain.pem"), place.path().join("old.pem")).unwrap();
    let output = send("old.pem");
    assert!(output.status.success(), "{}", said(&output));

    // A key that is not the certificate's: the log says so, and those from before stay.
    certify(&place, "new.pem", "new-key.pem");
    fs::rename(place.path().join("new-key.pem"), place.path().join("key.pem")).unwrap();
    relay.hang_up();
    let line = relay.wait_for("certificates stay as they were");
    assert!(line.contains("ERROR") && line.contains("tls.key") && line.contains("key.pem"), "{line}");
    assert!(send("old.pem").status.success());
    // And with its certificate.
    fs::rename(place.path().join("new.pem"), place.path().join("chain.pem")).unwrap();
    relay.hang_up();
    relay.wait_for("certificates are read again");
    assert!(!send("old.pem").status.success());
    let output = send("chain.pem");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn wrong_certificates_and_keys_are_named_with_what_would_be_right() {
    let place = tempfile::tempdir().unwrap();
    certify(&place, "chain.pem", "key.pem");
    // What `openssl req -x509` makes unless it is told otherwise: a certificate that may sign others.
    let key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    write(&place, "authority.pem", &authority.self_signed(&key).unwrap().pem());
    write(&place, "authority-key.pem", &key.serialize_pem());
    write(&place, "empty.pem", "nothing\n");
    for (certificate, key, words) in [
        ("authority.pem", "authority-key.pem", ["CA:TRUE", "basicConstraints=critical,CA:FALSE"]),
        ("chain.pem", "chain.pem", ["tls.key", "no private key"]),
        ("key.pem", "key.pem", ["tls.certificate", "no certificate"]),
        ("empty.pem", "key.pem", ["tls.certificate", "empty.pem"]),
        ("chain.pem", "authority-key.pem", ["tls.key", "not the key"]),
        ("missing.pem", "key.pem", ["tls.certificate", "missing.pem"]),
    ] {
        write(&place, "relay.toml", &format!("[tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n"));
        let arguments =
            ["serve", "--config", "relay.toml", "--listen", "127.0.0.1:0", "--operations", "127.0.0.1:0"];
        let output = run(&place, &arguments);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        for word in words {
            assert!(said(&output).contains(word), "{word}: {}", said(&output));
        }
    }
}

/// The recipe of docs/operating.md, if there is an openssl.
#[test]
fn the_certificate_of_the_recipe_is_taken() {
    let place = tempfile::tempdir().unwrap();
    let document = include_str!("../../../docs/operating.md");
    let start = document.find("openssl req -x509").unwrap();
    let recipe: String = document[start..].split("\n\n").next().unwrap().replace("\\\n", " ");
    let recipe = recipe.replace("DNS:relay.example", "IP:127.0.0.1");
    let made = Command::new("sh").current_dir(place.path()).args(["-c", &recipe]).output().unwrap();
    if Command::new("openssl").arg("version").output().is_err() {
        eprintln!("skipped: there is no openssl");
        return;
    }
    assert!(made.status.success(), "{recipe}: {}", said(&made));
    write(&place, "relay.toml", TLS);
    let relay = Process::start(&place, &["serve", "--config", "relay.toml", "--data", "a"]);
    let url = format!("https://{}", relay.text("listen"));
    // A mirror takes it as well.
    let follow =
        ["mirror", "--of", &url, "--relay", relay.text("relay"), "--authority", "chain.pem", "--data", "b"];
    Process::start(&place, &follow);
    assert!(run(&place, &["keys", "new", "alice"]).status.success());
    let send = ["send", "--relay", &url, "--to", "alice.address", "--text", "x", "--authority", "chain.pem"];
    let output = run(&place, &send);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_mirror_needs_a_configuration_or_options_and_ends_if_they_are_wrong() {
    let place = tempfile::tempdir().unwrap();
    let relay = Process::start(&place, &["serve", "--data", "a"]);
    let (listen, key) = (relay.text("listen").to_owned(), relay.text("relay").to_owned());
    let config = |key: &str| {
        write(&place, "b.toml", &format!("[mirror]\nurl = \"http://{listen}\"\nrelay = \"{key}\"\n"))
    };
    config(&key);
    for command in ["mirror", "serve"] {
        let mirror = Process::start(&place, &[command, "--config", "b.toml", "--data", "b"]);
        assert_ne!(mirror.text("relay"), key);
    }
    let local = ["--data", "b", "--listen", "127.0.0.1:0", "--operations", "127.0.0.1:0"];
    let output = run(&place, &[&["mirror"], &local[..]].concat());
    assert!(output.status.code() == Some(2) && said(&output).contains("--of"), "{}", said(&output));
    // The data directory is there: it ends all the same, at once, and says why.
    config(&key.replace(char::is_alphanumeric, "0"));
    let start = Instant::now();
    let output = run(&place, &[&["mirror", "--config", "b.toml"], &local[..]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        said(&output).contains("is not signed by") && said(&output).contains(&listen),
        "{}",
        said(&output)
    );
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn nobody_else_on_the_machine_can_read_a_relays_data() {
    let place = tempfile::tempdir().unwrap();
    let relay = Process::start(&place, &["serve", "--data", "deep/relay"]);
    let mode = |name: &str| fs::metadata(place.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("deep/relay"), 0o700);
    for folder in ["keys", "uploads", "results", "standing", "credentials"] {
        assert_eq!(mode(&format!("deep/relay/{folder}")), 0o700, "{folder}");
    }
    for file in ["registry.redb", "identity"] {
        assert_eq!(mode(&format!("deep/relay/{file}")), 0o600, "{file}");
    }
    drop(relay);
    fs::set_permissions(place.path().join("deep/relay"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut relay = Process::start(&place, &["serve", "--data", "deep/relay"]);
    assert!(relay.wait_for("chmod 700").contains("WARN"));
}

#[test]
fn a_plan_answers_in_sentences_and_its_configuration_is_one() {
    let place = tempfile::tempdir().unwrap();
    let arguments = ["plan", "--users", "20000", "--messages-per-day", "50000"];
    let output = run(&place, &arguments);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for words in [
        "20,000 users and 50,000 messages a day, kept for 30 days, need ",
        " cores, ",
        " GB of disk.",
        "They are most of it",
        "bit/s in and ",
        "in an epoch of private fetch after 1 h at most",
        "Compact digests instead, for all users once a day: ",
        "Limits that must be raised: limits.keys from 10,000 to 22,600",
        "the cores run out first",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // It can be used as it stands, and the relay takes as many keys as it says.
    let (_, configuration) = text.split_once("Recommended configuration:\n").unwrap();
    write(&place, "relay.toml", configuration);
    Process::start(&place, &["serve", "--config", "relay.toml", "--data", "a"]);
    assert!(configuration.contains("keys = 22600"));
    // Exact numbers for programs, and nothing to raise for few.
    let output = run(&place, &[&arguments[..], &["--json"]].concat());
    let exact: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((exact["users"].as_u64(), exact["runs_out_first"].as_str()), (Some(20_000), Some("cores")));
    let compact = exact["compact_cores_for_all_users"].as_f64().unwrap();
    assert!((9.5..20.0).contains(&compact), "{compact}");
    let few = run(&place, &["plan", "--users", "100", "--messages-per-day", "1000"]);
    assert!(String::from_utf8(few.stdout).unwrap().contains("the defaults suffice"));
}

/// The steps of docs/tables.md, run as they stand there.
#[test]
fn the_walkthrough_of_the_air_gap_works_word_for_word() {
    let place = tempfile::tempdir().unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    fs::create_dir(place.path().join("corpus")).unwrap();
    for name in ["characters.csv", "characters.toml"] {
        fs::copy(corpus.join(name), place.path().join("corpus").join(name)).unwrap();
    }
    let document = include_str!("../../../docs/tables.md");
    let section = document.split("\n## ").find(|section| section.starts_with("Across an air gap")).unwrap();
    let steps: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert!(steps.len() > 8, "{steps:?}");
    let program = Path::new(env!("CARGO_BIN_EXE_restante")).parent().unwrap().display().to_string();
    let path = format!("{program}:{}", std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    let script = format!("set -e\n{}\n", steps.join("\n"));
    let output = shell.current_dir(place.path()).env("PATH", path).args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let found = fs::read_to_string(place.path().join("analyst/found.csv")).unwrap();
    assert!(found.contains("2603") && found.contains("2604") && !found.contains("2605"), "{found}");
}

/// A relay whose disk is full says so, and so does the client: at once, before it waits, and at the end.
#[test]
fn a_full_disk_is_named_at_once_and_at_the_end() {
    let place = tempfile::tempdir().unwrap();
    assert!(run(&place, &["keys", "new", "alice"]).status.success());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while request.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let answer =
                "HTTP/1.1 507 Full\r\nretry-after: 2\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            std::io::Write::write_all(&mut stream, answer.as_bytes()).unwrap();
        }
    });
    // Two attempts, unless somebody says otherwise.
    let output = run(&place, &["send", "--relay", &url, "--to", "alice.address", "--text", "x"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let text = said(&output);
    let places = [
        "no space left on the relay's disk",
        "trying again in ",
        "in 2 attempts: status 507, it has no space left",
    ]
    .map(|words| text.find(words).unwrap_or_else(|| panic!("{words}: {text}")));
    assert!(places.is_sorted(), "{text}");
}
