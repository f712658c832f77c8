//! Standard streams that nobody reads, and an environment that is no text.

use std::{io::pipe, time::Duration};

use super::*;

/// The reader is gone before the command starts: there is no race to win.
#[test]
fn a_reader_that_stops_reading_is_no_failure() {
    let place = correspondence();
    place.run("detect --board board --key alice.detection --out digest");
    for command in [
        "params",
        "params --json",
        "keys show alice.address",
        "keys new carol",
        "board stats board",
        "read --secret alice.secret --digest digest --board board",
        "board export board --out messages",
    ] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let output = place.command(command).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = output.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && told.is_empty(), "{command}: {:?} {told}", output.status);
    }
    assert!(place.path("messages").exists() && place.path("carol.secret").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn a_result_that_cannot_be_written_is_a_failure() {
    let place = Place::new();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let output = place.command("params").stdout(full()).stderr(Stdio::piped()).spawn().unwrap();
    check_refusal("params", &output.wait_with_output().unwrap(), 4, &["standard output", "No space left"]);
    // That nobody could be told is none.
    let output = place.command("params").stderr(full()).output().unwrap();
    assert!(output.status.success());
}

#[test]
fn a_standard_error_that_nobody_reads_is_no_failure() {
    let place = correspondence();
    for (command, code) in
        [("nonsense", 2), ("keys show missing", 4), ("keys rotate alice.secret --state s --new", 0)]
    {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let status = place.command(command).stdout(Stdio::null()).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(code), "{command}");
    }
    // One that is full, and stays so, does not keep what is to be done from being done.
    let (_reader, mut writer) = pipe().unwrap();
    let filler = writer.try_clone().unwrap();
    std::thread::spawn(move || {
        use std::io::Write;
        while writer.write_all(&[0; 4096]).is_ok() {}
    });
    std::thread::sleep(Duration::from_millis(300));
    let send = "send --relay http://127.0.0.1:9 --to alice.address --text x --outbox box --attempts 2";
    let mut child = place.command(send).stdout(Stdio::null()).stderr(filler).spawn().unwrap();
    for _ in 0..300 {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let ended = child.try_wait().unwrap();
    drop(child.kill());
    drop(child.wait());
    assert_eq!(ended.and_then(|status| status.code()), Some(4));
    assert!(place.path("box").exists());
}

#[test]
#[cfg(all(unix, feature = "serve"))]
fn an_environment_that_is_no_text_is_no_panic() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

    let place = Place::new();
    let bad = OsStr::from_bytes(b"\xff\xfe");
    for command in ["credentials new --data relay", "serve --data relay --openapi", "keys new alice"] {
        let output = place.command(command).env("SOMETHING", bad).env(bad, "x").output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    for command in ["credentials new --data relay", "serve --data relay"] {
        let output = place.command(command).env("RESTANTE_LOG", bad).output().unwrap();
        check_refusal(command, &output, 2, &["RESTANTE_LOG", "not UTF-8"]);
    }
    let send = "send --relay https://relay.example --to alice.address --text x";
    let output = place.command(send).env("https_proxy", bad).output().unwrap();
    check_refusal(send, &output, 2, &["https_proxy", "not UTF-8"]);
}
