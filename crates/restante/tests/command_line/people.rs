//! What a person sees, and what a program sees in its place.

use super::*;

/// The one object that a failing command with `--json` says on standard error, as its last line.
fn failure(place: &Place, arguments: &str, code: i32) -> Value {
    let output = place.command(arguments).output().unwrap();
    check_refusal(arguments, &output, code, &[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    let object: Value = serde_json::from_str(errors.lines().last().unwrap()).unwrap();
    let fields: Vec<&String> = object.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["error", "causes"], "{arguments}");
    object
}

#[test]
fn a_failure_is_json_for_those_who_asked_for_json() {
    let place = Place::new();
    let missing = failure(&place, "board stats nowhere --json", 4);
    assert!(missing["error"].as_str().unwrap().contains("nowhere"), "{missing}");
    fs::write(place.path("no.secret"), "no key").unwrap();
    let refused = failure(&place, "--json keys show no.secret", 3);
    assert!(refused["error"].as_str().unwrap().contains("no.secret"), "{refused}");
    let causes = refused["causes"].as_array().unwrap();
    assert!(causes.iter().all(|cause| refused["error"].as_str().unwrap().contains(cause.as_str().unwrap())));
    assert!(!causes.is_empty(), "{refused}");
    // Arguments that cannot be read, and arguments that do not fit together.
    let unread = failure(&place, "demo --messages many --json", 2);
    let words = unread["error"].as_str().unwrap();
    assert!(words.contains("many") && words.contains("--messages"), "{unread}");
    assert!(!words.contains('\n') && !words.starts_with("error:"), "{unread}");
    failure(&place, "--json nonsense", 2);
    failure(&place, "detect --json --board b --key a --out c --out d", 2);
    // What is looked for stays out of it.
    let withheld =
        failure(&place, "fetch query --json --epoch e --index CaNaRy --out-a a --out-b b --state s", 2);
    assert!(!withheld.to_string().contains("CaNaRy"), "{withheld}");
}

#[test]
fn a_failure_is_a_sentence_for_everybody_else() {
    let place = Place::new();
    for (arguments, code) in [
        ("board stats nowhere", 4),
        ("demo --messages many", 2),
        // This is a text that is looked for, and no option.
        ("fetch demo --records many -- --json", 2),
    ] {
        let output = place.command(arguments).output().unwrap();
        check_refusal(arguments, &output, code, &[]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!errors.lines().any(|line| line.starts_with('{')), "{arguments}: {errors}");
    }
    let help = place.command("demo --help --json").output().unwrap();
    assert!(help.status.success() && help.stderr.is_empty());
}

/// Letters come from anybody: here every one tries to take the terminal over, and is too long.
#[test]
fn the_demonstration_shows_letters_that_do_nothing_to_a_terminal() {
    let place = Place::new();
    let letter = format!("\u{1b}[2JDear \u{202e}reader{}", " and so on".repeat(20));
    fs::write(place.path("letters.txt"), format!("{letter}\n")).unwrap();
    let demo = "demo --messages 300 --recipients 2 --threads 2 --corpus letters.txt";
    let text = place.run(demo);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    let shown: Vec<&str> = text.lines().filter(|line| line.contains("Dear \\u{202e}reader")).collect();
    assert!((1..=5).contains(&shown.len()), "{text}");
    assert!(shown.iter().all(|line| line.contains("\\u{1b}[2J") && line.ends_with("...")), "{text}");
    assert!(shown.iter().all(|line| line.chars().count() <= 110), "{text}");
    // Beside the figures, what the same costs without detection.
    assert!(text.contains("Each recipient downloaded "), "{text}");
    assert!(text.contains("to read the whole board"), "{text}");
}

#[test]
fn people_get_units_in_columns_and_programs_exact_numbers() {
    let place = Place::new();
    let demo = "demo --messages 300 --recipients 2 --threads 2";
    let exact = &place.json(demo)[0];
    let key = exact["detection_key_bytes"].as_u64().unwrap();
    assert!(key > 1000 && exact["seconds"].is_number(), "{exact}");
    // Both are over all clues and payloads: 300 of each, and a payload is longer than nothing.
    let whole = exact["whole_board_bytes"].as_u64().unwrap();
    assert!(whole > 300 * exact["clue_bytes"].as_u64().unwrap(), "{exact}");
    assert!(exact["downloaded_bytes_per_recipient"].as_u64().unwrap() < whole, "{exact}");
    assert!(!exact["letters"].as_array().unwrap().is_empty(), "{exact}");

    let text = place.run(demo);
    let figures: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("messages:")).collect();
    let figures: Vec<&str> = figures.into_iter().take_while(|line| !line.is_empty()).collect();
    let value = |name: &str| {
        let line = figures.iter().find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.unwrap_or_else(|| panic!("{name} in {figures:?}")).trim()
    };
    assert_eq!(value("messages"), "300");
    assert_eq!(value("detection key size"), format!("{} kB", (key as f64 / 1000.0).round()));
    // Values begin in one column.
    let columns = figures.iter().map(|line| {
        let (name, value) = line.split_once(':').unwrap();
        name.len() + 1 + value.len() - value.trim_start().len()
    });
    let columns: Vec<usize> = columns.collect();
    assert!(columns.iter().all(|column| *column == columns[0]), "{figures:?}");
}

/// Exactly one line for each round says how it stands, on standard error: standard output is for messages.
#[cfg(feature = "serve")]
#[test]
fn sync_always_says_how_it_stands() {
    let place = Place::new();
    place.run("keys new alice");
    let relay = relay::RelayProcess::start(&place, "--data relay");
    let sync = format!("sync --relay {} --account alice.secret --state state --whole --pace 0", relay.url);
    let said = |wanted: &str, messages: usize| {
        let output = place.command(&sync).output().unwrap();
        check_refusal(&sync, &output, 0, &[wanted]);
        assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), messages);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(errors.matches(" new message").count(), 1, "{errors}");
    };
    said("restante: no new message", 0);
    for text in ["one", "two"] {
        place.run(&format!("send --relay {} --to alice.address --text {text}", relay.url));
    }
    said("restante: 2 new messages", 2);
    said("restante: no new message", 0);
    // A program gets an object for each round, and no sentence.
    let output = place.command(&format!("{sync} --json")).output().unwrap();
    check_refusal(&sync, &output, 0, &[]);
    assert!(!String::from_utf8(output.stderr).unwrap().contains("new message"));
    let round: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((round["messages"].as_u64(), round["behind"].as_u64()), (Some(0), Some(0)));
}

/// Messages have a day, and a new state can begin at one.
#[cfg(feature = "serve")]
#[test]
fn messages_have_a_day_and_a_state_begins_at_one() {
    let date = || {
        let date = Command::new("date").args(["-u", "+%F"]).output().unwrap().stdout;
        String::from_utf8(date).unwrap().trim().to_owned()
    };
    let before = date();
    let place = Place::new();
    place.run("keys new alice");
    let relay = relay::RelayProcess::start(&place, "--data relay");
    for text in ["one", "two"] {
        place.run(&format!("send --relay {} --to alice.address --text {text}", relay.url));
    }
    let sync = |state: &str, since: &str| {
        let sync = "sync --account alice.secret --whole --pace 0";
        let shown = place.json(&format!("{sync} --relay {} --state {state} --since {since}", relay.url));
        shown.into_iter().filter(|line| line.get("text").is_some()).collect::<Vec<Value>>()
    };
    let shown = sync("all", "2026-01-01");
    assert_eq!(shown.len(), 2);
    let day = shown[0]["day"].as_str().unwrap().to_owned();
    assert!(before <= day && day <= date(), "{before} {day}");
    assert!(sync("none", "2999-12-31").is_empty());
    place.refuse(
        &format!("sync --relay {} --account alice.secret --state other --since yesterday", relay.url),
        2,
        &["such as 2026-12-31"],
    );
}

/// A message is a file with its bytes and nothing else; what is there already is left as it is, and no message is lost to it.
#[cfg(feature = "serve")]
#[test]
fn sync_puts_messages_into_a_directory_and_replaces_nothing() {
    let place = Place::new();
    place.run("keys new alice");
    let relay = relay::RelayProcess::start(&place, "--data relay");
    let sync = format!(
        "sync --relay {} --account alice.secret --state state --whole --pace 0 --out letters",
        relay.url
    );
    for text in ["one", "two", "three"] {
        place.run(&format!("send --relay {} --to alice.address --text {text}", relay.url));
    }
    fs::create_dir(place.path("letters")).unwrap();
    fs::write(place.path("letters/1"), "mine").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../elsewhere", place.path("letters/2")).unwrap();
    let read = |name: &str| fs::read_to_string(place.path(&format!("letters/{name}"))).unwrap();
    place.refuse(&sync, 5, &["2 messages", "letters/1", "exists with other contents"]);
    assert_eq!((read("0"), read("1")), ("one".into(), "mine".into()));

    fs::remove_file(place.path("letters/1")).unwrap();
    if cfg!(unix) {
        place.refuse(&sync, 5, &["1 messages", "letters/2"]);
        assert!(!place.path("elsewhere").exists());
        fs::remove_file(place.path("letters/2")).unwrap();
    }
    let shown = place.json(&sync);
    let shown: Vec<&Value> = shown.iter().filter(|line| line.get("file").is_some()).collect();
    assert_eq!(shown.last().unwrap()["index"], 2);
    assert_eq!((read("0"), read("1"), read("2")), ("one".into(), "two".into(), "three".into()));
    let mut names: Vec<_> = fs::read_dir(place.path("letters"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["0", "1", "2"], "no half-written file is left");
}
