//! A proxy that was asked for is used, or nothing is.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use super::{
    relay::{RelayProcess, free_address, texts},
    *,
};

/// What a proxy does with whoever asks.
#[derive(Clone)]
enum Manner {
    /// Leads to this address, whatever was asked for.
    Lead(String),
    /// Says that it will not.
    Refuse,
    /// Says something that is no answer.
    Lie,
    /// Says nothing.
    Stall,
    /// Hangs up.
    HangUp,
}

/// What was asked of a proxy: the kind of address, the address, the port, and the user.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    is_name: bool,
    host: String,
    port: u16,
    user: Option<(String, String)>,
}

struct SocksProxy {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl SocksProxy {
    fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("socks5://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (manner, log) = (manner.clone(), log.clone());
                thread::spawn(move || drop(serve_socks(stream.unwrap(), &manner, &log)));
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn take<const LENGTH: usize>(stream: &mut TcpStream) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn take_text(stream: &mut TcpStream) -> io::Result<String> {
    let [length] = take(stream)?;
    let mut bytes = vec![0; length.into()];
    stream.read_exact(&mut bytes)?;
    Ok(String::from_utf8(bytes).unwrap())
}

/// RFC 1928 and RFC 1929, from the server's side.
fn serve_socks(mut stream: TcpStream, manner: &Manner, log: &Mutex<Vec<Asked>>) -> io::Result<()> {
    let [version, methods] = take(&mut stream)?;
    assert_eq!(version, 5);
    let mut offered = vec![0; methods.into()];
    stream.read_exact(&mut offered)?;
    match manner {
        Manner::Lie => return stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n"),
        Manner::HangUp => return Ok(()),
        Manner::Stall => loop {
            thread::sleep(Duration::from_secs(60));
        },
        _ => {}
    }
    let mut user = None;
    if offered.contains(&2) {
        stream.write_all(&[5, 2])?;
        assert_eq!(take(&mut stream)?, [1]);
        user = Some((take_text(&mut stream)?, take_text(&mut stream)?));
        stream.write_all(&[1, 0])?;
    } else {
        stream.write_all(&[5, 0])?
    }
    let [_, command, _, kind] = take(&mut stream)?;
    assert_eq!(command, 1);
    let host = match kind {
        1 => std::net::Ipv4Addr::from(take::<4>(&mut stream)?).to_string(),
        3 => take_text(&mut stream)?,
        _ => std::net::Ipv6Addr::from(take::<16>(&mut stream)?).to_string(),
    };
    let port = u16::from_be_bytes(take(&mut stream)?);
    log.lock().unwrap().push(Asked { is_name: kind == 3, host, port, user });
    let Manner::Lead(address) = manner else {
        return stream.write_all(&[5, 2, 0, 1, 0, 0, 0, 0, 0, 0]);
    };
    let relay = TcpStream::connect(address)?;
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    join(stream, relay)
}

/// Passes bytes on in both directions.
fn join(one: TcpStream, other: TcpStream) -> io::Result<()> {
    let (mut from, mut to) = (other.try_clone()?, one.try_clone()?);
    thread::spawn(move || {
        drop(io::copy(&mut from, &mut to));
        drop(to.shutdown(Shutdown::Write));
    });
    let (mut from, mut to) = (one, other);
    drop(io::copy(&mut from, &mut to));
    to.shutdown(Shutdown::Write)
}

/// A place where somebody would see a connection that took no proxy. 0.0.0.0 leads to this machine and is not its name for itself.
struct Watched {
    url: String,
    seen: Arc<Mutex<usize>>,
}

impl Watched {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://0.0.0.0:{}", listener.local_addr().unwrap().port());
        let seen = Arc::new(Mutex::new(0));
        let count = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                drop(stream);
                *count.lock().unwrap() += 1;
            }
        });
        Self { url, seen }
    }

    fn seen(&self) -> usize {
        thread::sleep(Duration::from_millis(50));
        *self.seen.lock().unwrap()
    }
}

fn send(place: &Place, url: &str, proxy: Option<&str>, environment: &[(&str, &str)]) -> Output {
    let mut command =
        place.command(&format!("send --relay {url} --to alice.address --text hidden --attempts 1"));
    command.args(proxy.iter().flat_map(|proxy| ["--proxy", proxy]));
    command.envs(environment.iter().copied()).output().unwrap()
}

#[test]
fn relays_are_reached_by_name_and_each_as_another_user() {
    let place = Place::new();
    place.run("keys new alice");
    let relay = RelayProcess::start(&place, "--data relay");
    let proxy = SocksProxy::start(Manner::Lead(relay.address.clone()));
    let output = send(&place, "http://first.onion", Some(&proxy.url), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let asked = proxy.asked();
    assert_eq!((asked[0].is_name, asked[0].host.as_str(), asked[0].port), (true, "first.onion", 80));
    // Nothing else was asked of anybody, and the message is there.
    assert!(asked.iter().all(|one| one.host == "first.onion"));
    assert_eq!(texts(&place, &relay.url, "alice"), ["hidden"]);

    let sync = "sync --relay http://first.onion --second-relay http://second.onion:81 --whole --pace 0 --attempts 1 \
                --account alice.secret --state state";
    let output =
        place.command(sync).env("ALL_PROXY", proxy.url.replace("socks5", "socks5h")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let users = |host: &str| {
        let asked = proxy.asked().split_off(asked.len());
        let mut users: Vec<_> =
            asked.into_iter().filter(|one| one.host == host).map(|one| one.user.unwrap()).collect();
        users.dedup();
        users
    };
    let (first, second) = (users("first.onion"), users("second.onion"));
    assert!(!first.is_empty() && !second.is_empty());
    assert!(first.iter().all(|user| !second.contains(user) && Some(user) != asked[0].user.as_ref()));
}

#[test]
fn a_proxy_that_fails_stops_the_program_and_nothing_goes_past_it() {
    let place = Place::new();
    place.run("keys new alice");
    let watched = Watched::start();
    // It would be seen.
    assert_eq!(send(&place, &watched.url, Some("none"), &[]).status.code(), Some(4));
    assert_eq!(watched.seen(), 1);
    let down = format!("socks5://{}", free_address());
    let down_http = down.replace("socks5", "http");
    let manners = [Manner::Refuse, Manner::Lie, Manner::HangUp].map(SocksProxy::start);
    let proxies =
        [down.as_str(), &down_http].into_iter().chain(manners.iter().map(|proxy| proxy.url.as_str()));
    for proxy in proxies {
        for output in [
            send(&place, &watched.url, Some(proxy), &[]),
            send(&place, &watched.url, None, &[("ALL_PROXY", proxy)]),
            send(&place, &watched.url, None, &[("https_proxy", proxy), ("NO_PROXY", "other.example")]),
        ] {
            check_refusal(proxy, &output, 4, &["proxy"]);
        }
    }
    let stalls = SocksProxy::start(Manner::Stall);
    let arguments =
        format!("send --relay {} --to alice.address --text x --proxy {}", watched.url, stalls.url);
    let mut child = place.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
    // What is not understood, wherever it stands.
    for wrong in ["nonsense://x", "socks4://127.0.0.1:1", "127.0.0.1:9050", "https://proxy.example:1"] {
        check_refusal(wrong, &send(&place, &watched.url, Some(wrong), &[]), 2, &["--proxy", "socks5://"]);
        check_refusal(wrong, &send(&place, &watched.url, None, &[("ALL_PROXY", wrong)]), 2, &["ALL_PROXY"]);
    }
    let sync = format!("sync --relay {} --account alice.secret --state s --attempts 1", watched.url);
    for command in [sync, format!("lookup --relay {} alice --attempts 1", watched.url)] {
        let output = place.command(&command).env("ALL_PROXY", "nonsense://x").output().unwrap();
        check_refusal(&command, &output, 2, &["ALL_PROXY"]);
        let output = place.command(&command).env("ALL_PROXY", &down).output().unwrap();
        check_refusal(&command, &output, 4, &["proxy"]);
    }
    check_refusal("onion", &send(&place, "http://first.onion", None, &[]), 2, &["onion", "--proxy"]);
    check_refusal("onion", &send(&place, "https://first.onion", None, &[]), 2, &["onion", "--proxy"]);
    assert_eq!(watched.seen(), 1);
}

/// This machine is not reached through a proxy, so that a wrong one is no harm; it is refused all the same.
#[test]
fn what_is_on_this_machine_takes_no_proxy() {
    let place = Place::new();
    place.run("keys new alice");
    let relay = RelayProcess::start(&place, "--data relay");
    let proxy = SocksProxy::start(Manner::Refuse);
    assert!(send(&place, &relay.url, Some(&proxy.url), &[]).status.success());
    assert!(proxy.asked().is_empty());
    assert_eq!(send(&place, &relay.url, Some("nonsense://x"), &[]).status.code(), Some(2));
}

#[test]
fn tls_goes_through_proxies_of_both_kinds() {
    let place = Place::new();
    place.run("keys new alice");
    let own = rcgen::generate_simple_self_signed(vec!["relay.example".into()]).unwrap();
    fs::write(place.path("certificate"), own.cert.pem()).unwrap();
    fs::write(place.path("key"), own.signing_key.serialize_pem()).unwrap();
    let config = "log = \"error\"\n[tls]\ncertificate = \"certificate\"\nkey = \"key\"\n";
    fs::write(place.path("relay.toml"), config).unwrap();
    let relay = RelayProcess::start(&place, "--config relay.toml --data relay");
    let socks = SocksProxy::start(Manner::Lead(relay.address.clone()));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let http = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, address) = (asked.clone(), relay.address.clone());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut text) = (stream.unwrap(), String::new());
            while !text.ends_with("\r\n\r\n") {
                let [byte] = take(&mut stream).unwrap();
                text.push(byte.into());
            }
            log.lock().unwrap().push(text.lines().next().unwrap().to_owned());
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
            let relay = TcpStream::connect(&address).unwrap();
            thread::spawn(move || drop(join(stream, relay)));
        }
    });
    for proxy in [&socks.url, &http] {
        let arguments = "send --relay https://relay.example --to alice.address --text x --authority certificate --attempts 1 --proxy";
        place.run(&format!("{arguments} {proxy}"));
        // The certificate is the relay's, not the proxy's to say.
        let trusting_others = arguments.replace(" --authority certificate", "");
        place.refuse(&format!("{trusting_others} {proxy}"), 4, &["certificate was refused"]);
    }
    assert_eq!(asked.lock().unwrap()[0], "CONNECT relay.example:443 HTTP/1.1");
    assert!(socks.asked().iter().all(|one| one.is_name && one.host == "relay.example" && one.port == 443));
}

/// A mirror has no need to tell the relay that it follows where it is.
#[test]
fn a_mirror_follows_through_the_proxy_or_not_at_all() {
    let place = Place::new();
    place.run("keys new alice");
    let relay = RelayProcess::start(&place, "--data relay");
    let key =
        place.json(&format!("send --relay {} --to alice.address --text mirrored", relay.url))[0]["relay"]
            .clone();
    let key = key.as_str().unwrap();
    let proxy = SocksProxy::start(Manner::Lead(relay.address.clone()));
    let mirror =
        |options: &str| format!("mirror --of http://first.onion --relay {key} --data mirror {options}");
    place.refuse(mirror("").trim_end(), 2, &["onion"]);
    for wrong in ["nonsense://x", "socks5://user:secret@127.0.0.1:1", "http://127.0.0.1:1"] {
        place.refuse(&mirror(&format!("--proxy {wrong}")), 2, &["socks5://"]);
    }
    let second = RelayProcess::launch(&place, "127.0.0.1:0", &mirror(&format!("--proxy {}", proxy.url)));
    for _ in 0..300 {
        if !proxy.asked().is_empty() && texts(&place, &second.url, "alice") == ["mirrored"] {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(texts(&place, &second.url, "alice"), ["mirrored"]);
    let asked = proxy.asked();
    assert!(asked.iter().all(|one| one.is_name && one.host == "first.onion" && one.port == 80));
    assert_eq!(asked[0].user.as_ref().map(|(user, _)| user.as_str()), Some("restante-mirror"));
}
