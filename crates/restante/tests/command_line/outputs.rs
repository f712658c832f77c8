//! One path for two things.

use super::*;

#[test]
fn a_result_never_replaces_what_it_was_made_of() {
    let place = correspondence();
    let kept = |name: &str| (name.to_owned(), fs::read(place.path(name)).unwrap());
    fs::write(place.path("t.toml"), "[selector]\nfield = 'k'\n[[return]]\nfield = 'v'\ntype = 'text'\n")
        .unwrap();
    fs::write(place.path("t.csv"), "k,v\na,b\n").unwrap();
    place.run("search query --schema t.toml --selector a --hash-bits 8 --out query --state state");
    place.run("fetch build --board board --record-bytes 4200 --out epoch");
    fs::hard_link(place.path("alice.secret"), place.path("hard")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("alice.secret", place.path("soft")).unwrap();
    let before: Vec<_> = ["alice.secret", "t.csv", "query", "state", "board/manifest"].map(kept).into();
    let fetch = "fetch query --epoch-info epoch --pad-to 1";
    let refused = [
        "keys address alice.secret --out alice.secret",
        "keys address alice.secret --out hard",
        #[cfg(unix)]
        "keys address alice.secret --detection soft",
        "keys address alice.secret --out ./new --detection new",
        "search answer --schema t.toml --table t.csv --query query --out t.csv",
        "search answer --schema t.toml --table t.csv --query query --out t.toml",
        "search query --schema t.toml --selector a --hash-bits 8 --out x --state x",
        "search open --schema t.toml --state state --answer state --out state",
        &format!("{fetch} --out-a q --out-b q --state s"),
        "detect --board board --key alice.detection --key bob.detection --out a --out a",
        "detect --board board --key alice.detection --out board/manifest",
        "detect --board board --key alice.detection --out board/new",
        "board export board --out board/messages",
        "send --relay http://127.0.0.1:9 --to alice.address --text x --outbox alice.address",
        "keys rotate alice.secret --state alice.secret",
    ];
    for command in refused {
        for force in ["", " --force"] {
            place.refuse(&format!("{command}{force}"), 2, &["one file or overlap"]);
        }
    }
    // A table that comes through standard input is a file as well.
    let mut command =
        place.command("search answer --schema t.toml --table - --format csv --query query --out t.csv");
    let output = command.stdin(fs::File::open(place.path("t.csv")).unwrap()).output().unwrap();
    check_refusal("standard input", &output, 2, &["standard input"]);
    assert!(before.iter().all(|(name, bytes)| fs::read(place.path(name)).unwrap() == *bytes));
    assert!(["x", "q", "s", "a", "new", "board/new"].iter().all(|name| !place.path(name).exists()));
}

#[test]
fn what_exists_is_replaced_only_by_its_like_or_when_somebody_says_so() {
    let place = correspondence();
    let detect = |out: &str| format!("detect --board board --key alice.detection --out {out}");
    // A digest by a digest.
    (0..2).for_each(|_| drop(place.run(&detect("digest"))));
    fs::write(place.path("table.csv"), "rows").unwrap();
    for (name, forced) in [("table.csv", true), ("bob.address", true), ("bob.secret", false)] {
        let before = fs::read(place.path(name)).unwrap();
        place.refuse(&detect(name), 3, &[name, "it exists"]);
        assert_eq!(fs::read(place.path(name)).unwrap(), before);
        let with = format!("{} --force", detect(name));
        if forced {
            drop(place.run(&with))
        } else {
            place.refuse(&with, 3, &[name, "secret key"])
        }
        assert_eq!(fs::read(place.path(name)).unwrap() == before, !forced);
    }
    // An account by nothing, though the rest of it may be made again.
    let secret = fs::read(place.path("alice.secret")).unwrap();
    for force in ["", " --force"] {
        place.refuse(&format!("keys new alice{force}"), 3, &["alice.secret", "exists already"]);
    }
    assert_eq!(fs::read(place.path("alice.secret")).unwrap(), secret);
    place.run("keys address alice.secret --out alice.address --detection alice.detection");
    place.refuse("keys address bob.secret --out alice.address", 3, &["alice.address", "--force"]);
    // What has no secret key is not half made.
    fs::write(place.path("carol.detection"), "notes").unwrap();
    place.refuse("keys new carol", 3, &["carol.detection"]);
    assert!(!place.path("carol.secret").exists() && !place.path("carol.address").exists());
    assert_eq!(fs::read(place.path("carol.detection")).unwrap(), b"notes");
}

/// As the superuser a name in /dev could be replaced by a file.
#[test]
#[cfg(target_os = "linux")]
fn devices_and_pipes_are_written_to() {
    use std::os::unix::fs::FileTypeExt;

    let place = correspondence();
    place.run("board export board --range 0..2 --out /dev/null");
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    place.run("board export board --range 0..2 --out messages");
    let piped = place.command("board export board --range 0..2 --out /dev/stdout").output().unwrap();
    assert!(piped.status.success() && piped.stdout.starts_with(&fs::read(place.path("messages")).unwrap()));
    // The same where standard output is a file: what is printed comes behind it.
    let file = fs::File::create(place.path("all")).unwrap();
    let status =
        place.command("board export board --range 0..2 --out /dev/stdout").stdout(file).status().unwrap();
    assert!(status.success() && fs::read(place.path("all")).unwrap() == piped.stdout);
}
