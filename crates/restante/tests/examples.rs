//! The client's examples, against a relay's process.

#![cfg(feature = "serve")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

#[allow(dead_code, reason = "its `main` is for the command line")]
#[path = "../../client/examples/simple.rs"]
mod simple;
#[allow(dead_code, reason = "its `main` is for the command line")]
#[path = "../../client/examples/wallet.rs"]
mod wallet;

/// A relay's process; it ends with the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A relay, and the URL that it is reached at.
fn serve(data: &std::path::Path) -> (Serving, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_restante"));
    let any = "127.0.0.1:0";
    command.args(["serve", "--listen", any, "--operations", any, "--json", "--quiet", "--data"]).arg(data);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let report: Value = serde_json::from_str(&line).unwrap();
    (Serving(child), format!("http://{}", report["listen"].as_str().unwrap()))
}

#[test]
fn the_simple_mailbox_reads_each_letter_once() {
    let place = tempfile::tempdir().unwrap();
    let (relay, url) = serve(&place.path().join("relay"));
    let (alice, bob) = (place.path().join("alice"), place.path().join("bob"));
    assert_eq!(simple::run(&url, &alice).unwrap(), "0: meet at noon\n");
    // Somebody else's letter, and a second one of hers.
    assert_eq!(simple::run(&url, &bob).unwrap(), "1: meet at noon\n");
    assert_eq!(simple::run(&url, &alice).unwrap(), "2: meet at noon\n");
    drop(relay);
    // What is kept tells a relay that is gone from an empty board.
    assert_eq!(std::fs::read_to_string(alice.join("letters-2")).unwrap(), "2: meet at noon\n");
}

#[test]
fn the_wallets_rounds_keep_what_comes() {
    let place = tempfile::tempdir().unwrap();
    let (_relay, url) = serve(&place.path().join("relay"));
    let (address, wallet) = (url.strip_prefix("http://").unwrap().to_owned(), place.path().join("wallet"));
    wallet::run(address.clone(), &wallet, 2).unwrap();
    wallet::run(address, &wallet, 1).unwrap();
    let kept = |round: u32| std::fs::read_to_string(wallet.join(format!("mail-{round}"))).unwrap();
    assert_eq!([1, 2, 3].map(kept), ["0\ta note to myself\n", "", "1\ta note to myself\n"]);
}
