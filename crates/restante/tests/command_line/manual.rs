//! Completion scripts and manual pages, which are made from the table of commands.

use std::{collections::BTreeSet, io::Write};

use super::*;

/// The commands below one, as its help lists them.
fn subcommands(place: &Place, above: &str) -> Vec<String> {
    let help = place.run(format!("{above} --help").trim());
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // What goes on below a command's name is its text.
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(String::from)
        .collect()
}

/// Every command, "" for the program itself.
fn all_commands(place: &Place) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut at = 0;
    while let Some(above) = all.get(at).cloned() {
        all.extend(subcommands(place, &above).iter().map(|name| format!("{above} {name}").trim().to_owned()));
        at += 1;
    }
    all
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::new();
    let commands = all_commands(&place);
    assert!(commands.len() > 30 && commands.iter().any(|name| name == "bench detect-stream"), "{commands:?}");
    let report = place.json("man pages");
    assert_eq!(report[0]["pages"], commands.len());
    let expected: BTreeSet<String> =
        commands.iter().map(|name| format!("restante {name}").trim().replace(' ', "-") + ".1").collect();
    let found: BTreeSet<String> = fs::read_dir(place.path("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, expected);
    for name in &expected {
        let page = fs::read_to_string(place.path("pages").join(name)).unwrap();
        for heading in [".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"] {
            assert!(page.contains(heading), "{name}: {heading}");
        }
    }
    let page = fs::read_to_string(place.path("pages").join("restante-bench-detect-stream.1")).unwrap();
    assert!(page.contains("recipients") && page.contains("threads"), "{page}");
    assert_eq!(place.run("man"), fs::read_to_string(place.path("pages").join("restante.1")).unwrap());
    // Once more is no harm; what is no page of ours stays.
    place.run("man pages");
    fs::write(place.path("pages").join("restante-demo.1"), "mine").unwrap();
    place.refuse("man pages", 3, &["restante-demo.1", "--force"]);
}

#[test]
fn shells_get_a_script_with_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(&format!("completions {shell}"));
        for name in subcommands(&place, "") {
            assert!(script.contains(&name), "{shell}: {name}");
        }
    }
    place.refuse("completions tcsh", 2, &["tcsh", "bash"]);
}

/// Sources the script in bash and asks what follows the words; without bash, none of this can be seen.
#[test]
fn bash_completes_commands_and_options() {
    let place = Place::new();
    if Command::new("bash").arg("--version").output().is_err() {
        eprintln!("there is no bash: not checked");
        return;
    }
    let completed = |words: &[&str]| {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        let asked = format!(
            "\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_restante restante '{last}' '{before}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            quoted.join(" "),
            words.len() - 1
        );
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-s"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut bash = bash.spawn().unwrap();
        let mut input = bash.stdin.take().unwrap();
        input.write_all((place.run("completions bash") + &asked).as_bytes()).unwrap();
        drop(input);
        let output = bash.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && errors.is_empty(), "{errors}");
        String::from_utf8(output.stdout).unwrap().lines().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(completed(&["restante", "dem"]), ["demo"]);
    assert_eq!(completed(&["restante", "bench", "detect-s"]), ["detect-stream"]);
    assert_eq!(completed(&["restante", "demo", "--recip"]), ["--recipients"]);
    assert_eq!(completed(&["restante", "detect", "--digest", "co"]), ["compact"]);
}
