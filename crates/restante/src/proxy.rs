//! Through which proxy a relay is reached. What cannot be honoured stops the program: a proxy that is left out without a word tells
//! the relay what it was to hide.

use restante_client::relay::Side;
use ureq::{Proxy, ProxyProtocol, http::Uri};

use crate::{environment, error::CliError};

/// The target of a relay's URL, as far as proxies go.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Whether it is `https`.
    pub is_https: bool,
    /// The host, without brackets.
    pub host: &'a str,
}

impl Target<'_> {
    /// Whether it is this machine.
    pub fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Whether it is an onion service, whose name is for Tor alone (RFC 7686).
    pub fn is_onion(&self) -> bool {
        self.host.to_ascii_lowercase().trim_end_matches('.').ends_with(".onion")
    }
}

/// A proxy, with the names of relays left to it.
#[derive(Debug, Clone)]
pub struct Chosen(Proxy);

const EXPECTED: &str = "expected socks5://HOST:PORT or http://HOST:PORT, or none";

/// The proxy for a relay: that of `--proxy`; otherwise that of the environment, as `curl` has it: `HTTPS_PROXY` or `HTTP_PROXY`, then
/// `ALL_PROXY`, the names in small letters first, unless `NO_PROXY` has the host. What goes to this machine takes none.
///
/// # Errors
///
/// [`CliError::Usage`] for what is not understood, whether it would be used or not.
pub fn choose(option: Option<&str>, target: Target<'_>) -> Result<Option<Chosen>, CliError> {
    choose_from(option, target, environment::variable)
}

fn choose_from(
    option: Option<&str>,
    target: Target<'_>,
    variable: impl Fn(&str) -> Result<Option<String>, CliError>,
) -> Result<Option<Chosen>, CliError> {
    let chosen = match option {
        Some("none") => None,
        Some(url) => Some(parse("--proxy", url)?),
        None => {
            let scheme =
                if target.is_https { ["https_proxy", "HTTPS_PROXY"] } else { ["http_proxy", "HTTP_PROXY"] };
            let names = scheme.into_iter().chain(["all_proxy", "ALL_PROXY"]);
            let mut found = None;
            for name in names {
                if let Some(url) = variable(name)? {
                    found = Some(parse(name, &url)?);
                    break;
                }
            }
            let mut exceptions = variable("no_proxy")?;
            if exceptions.is_none() {
                exceptions = variable("NO_PROXY")?;
            }
            found.filter(|_| !exceptions.is_some_and(|list| is_exception(target.host, &list)))
        }
    };
    if target.is_onion() {
        let is_socks = chosen.as_ref().is_some_and(Chosen::is_socks);
        if !is_socks && (chosen.is_none() || !target.is_https) {
            let reason = "an onion service is reached through Tor's SOCKS proxy alone: give --proxy socks5://127.0.0.1:9050";
            return Err(CliError::Usage(reason.into()));
        }
    }
    Ok(chosen.filter(|_| !target.is_loopback()))
}

/// Whether a list such as `example.com, .example.org, 10.0.0.1, *` has a host. A name is that host alone, one with a dot in front all
/// below it.
fn is_exception(host: &str, list: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    list.split([',', ' ']).map(|entry| entry.trim().to_ascii_lowercase()).any(|entry| {
        let entry = entry.trim_matches(['[', ']']);
        match entry.trim_start_matches('*').strip_prefix('.') {
            _ if entry == "*" => true,
            Some(domain) => {
                host.strip_suffix(domain).is_some_and(|rest| !domain.is_empty() && rest.ends_with('.'))
            }
            None => !entry.is_empty() && host == entry,
        }
    })
}

fn parse(source: &str, url: &str) -> Result<Chosen, CliError> {
    let refused = |reason: &str| CliError::Usage(format!("{source}: {reason}"));
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let protocol = match scheme.as_deref() {
        // Names are the proxy's to resolve in any case.
        Some("socks" | "socks5" | "socks5h") => ProxyProtocol::Socks5,
        Some("http") => ProxyProtocol::Http,
        _ => return Err(refused(&format!("not a kind of proxy that this program knows: {EXPECTED}"))),
    };
    // The error would say what the URL holds, which may be a password.
    let parsed = Proxy::new(url).map_err(|_| refused(&format!("not the URL of a proxy: {EXPECTED}")))?;
    let uri = parsed.uri();
    if parsed.host().is_empty() || uri.path().len() > 1 || uri.query().is_some() {
        return Err(refused(&format!("not the URL of a proxy: {EXPECTED}")));
    }
    let port = match (port(uri), protocol) {
        (Some(Some(port)), _) => port,
        (None, _) => return Err(refused("its port is none: expected 1 to 65535")),
        (_, ProxyProtocol::Socks5) => 1080,
        _ => return Err(refused("it has no port: expected http://HOST:PORT")),
    };
    let mut builder = Proxy::builder(protocol).host(parsed.host()).port(port).resolve_target(false);
    match (parsed.username(), parsed.password()) {
        (None, None) => {}
        (Some(user), Some(password))
            if [user, password].iter().all(|text| (1..=255).contains(&text.len())) =>
        {
            builder = builder.username(user).password(password);
        }
        _ => return Err(refused("expected a user and a password of 1 to 255 bytes each, or neither")),
    }
    let built = builder.build().map_err(|_| refused(&format!("not the URL of a proxy: {EXPECTED}")))?;
    Ok(Chosen(built))
}

impl Chosen {
    /// Whether it speaks SOCKS5.
    pub fn is_socks(&self) -> bool {
        self.0.protocol() == ProxyProtocol::Socks5
    }

    /// Its host and port, to be shown.
    pub fn name(&self) -> String {
        format!("{}:{}", self.0.host(), self.0.port())
    }

    /// Whether it was given a user.
    #[cfg(feature = "serve")]
    pub fn has_user(&self) -> bool {
        self.0.username().is_some()
    }

    /// The proxy for one relay. A SOCKS proxy that wants no user gets one for each relay and each run: Tor then takes a circuit of
    /// its own for each, and one relay's exit is not another's.
    pub fn isolated(&self, side: Side, password: &str) -> Result<Proxy, CliError> {
        if !self.is_socks() || self.0.username().is_some() {
            return Ok(self.0.clone());
        }
        let proxy = Proxy::builder(ProxyProtocol::Socks5)
            .host(self.0.host())
            .port(self.0.port())
            .username(&format!("restante-{side}"))
            .password(password)
            .resolve_target(false)
            .build();
        proxy.map_err(|_| CliError::Usage(format!("the proxy cannot be used: {EXPECTED}")))
    }
}

/// The port of a URL, if it has one; nothing for what is no port, which the parser takes for none at all.
pub fn port(uri: &Uri) -> Option<Option<u16>> {
    let authority = uri.authority()?.as_str();
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    match place.strip_prefix(uri.host()?)? {
        "" => Some(None),
        port => port.strip_prefix(':')?.parse().ok().filter(|port| *port > 0).map(Some),
    }
}

/// The host of a URL, without brackets.
pub fn host(uri: &Uri) -> Option<&str> {
    Some(uri.host()?.trim_matches(['[', ']']))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    const RELAY: Target<'_> = Target { is_https: true, host: "relay.example" };

    fn chosen(
        option: Option<&str>,
        target: Target<'_>,
        environment: &[(&str, &str)],
    ) -> Result<Option<String>, String> {
        let variable = |name: &str| {
            let found = environment.iter().find(|(known, value)| *known == name && !value.is_empty());
            Ok(found.map(|(_, value)| value.to_string()))
        };
        let chosen = choose_from(option, target, variable).map_err(|error| error.to_string())?;
        Ok(chosen
            .map(|chosen| format!("{} {}", if chosen.is_socks() { "socks" } else { "http" }, chosen.name())))
    }

    #[test]
    fn what_is_not_understood_is_refused_and_not_quoted() {
        let long = format!("socks5://user:{}@127.0.0.1:1", "x".repeat(256));
        for wrong in [
            "nonsense://x",
            "127.0.0.1:9050",
            "socks4://127.0.0.1:9050",
            "socks4a://h:1",
            "https://proxy.example:443",
            "socks5://",
            "socks5://:9050",
            "http://proxy.example",
            "socks5://secret@h:1",
            "socks5://secret:@h:1",
            "socks5://h:1/path",
            "socks5://h:1?q",
            "socks5://h:99999",
            "socks5://h:",
            "socks5://h:0",
            "socks5://%ff:secret@h:1",
            "",
            " ",
            &long,
        ] {
            for target in [RELAY, Target { is_https: false, host: "localhost" }] {
                let from_option = chosen(Some(wrong), target, &[]).unwrap_err();
                assert!(
                    from_option.starts_with("--proxy: ") && !from_option.contains("secret"),
                    "{from_option}"
                );
                if !wrong.is_empty() {
                    let error = chosen(None, target, &[("ALL_PROXY", wrong)]).unwrap_err();
                    assert!(error.starts_with("ALL_PROXY: "), "{error}");
                }
            }
        }
    }

    #[test]
    fn the_option_goes_over_the_environment_and_that_is_read_as_curl_does() {
        let all = ("ALL_PROXY", "socks5h://127.0.0.1:9050");
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(chosen(None, RELAY, &[]), Ok(None));
        assert_eq!(chosen(None, RELAY, &[all]), some("socks 127.0.0.1:9050"));
        assert_eq!(chosen(None, RELAY, &[("HTTP_PROXY", "http://p:1"), all]), some("socks 127.0.0.1:9050"));
        assert_eq!(chosen(None, RELAY, &[("HTTPS_PROXY", "http://p:1"), all]), some("http p:1"));
        assert_eq!(
            chosen(None, RELAY, &[("https_proxy", "http://q:1"), ("HTTPS_PROXY", "http://p:1")]),
            some("http q:1")
        );
        assert_eq!(chosen(None, RELAY, &[("ALL_PROXY", "")]), Ok(None));
        assert_eq!(
            chosen(Some("socks5://[::1]"), RELAY, &[("HTTPS_PROXY", "http://p:1")]),
            some("socks [::1]:1080")
        );
        assert_eq!(chosen(Some("none"), RELAY, &[all]), Ok(None));
        // What is excepted, and what is only alike.
        for (list, is_direct) in [
            ("relay.example", true),
            ("a, RELAY.example", true),
            ("*", true),
            (".example", true),
            ("*.example", true),
            ("other.example", false),
            ("lay.example", false),
            (".relay.example", false),
            ("example", false),
            ("", false),
            (".", false),
            ("relay.example.org", false),
        ] {
            let expected = if is_direct { None } else { Some("socks 127.0.0.1:9050".to_owned()) };
            assert_eq!(chosen(None, RELAY, &[all, ("NO_PROXY", list)]), Ok(expected), "{list}");
            assert_eq!(
                chosen(Some("socks5://p:1"), RELAY, &[("NO_PROXY", list)]),
                some("socks p:1"),
                "{list}"
            );
        }
    }

    #[test]
    fn this_machine_is_reached_directly_and_nothing_else_is_this_machine() {
        for (host, is_direct) in [
            ("localhost", true),
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("0.0.0.0", false),
            ("localhost.example", false),
            ("10.0.0.1", false),
            ("::", false),
        ] {
            let target = Target { is_https: true, host };
            assert_eq!(chosen(Some("socks5://p:1"), target, &[]).unwrap().is_none(), is_direct, "{host}");
        }
    }

    #[test]
    fn an_onion_service_is_never_reached_without_tor() {
        for is_https in [false, true] {
            for host in ["abc.onion", "ABC.Onion", "abc.onion."] {
                let target = Target { is_https, host };
                let attempt = |option| chosen(option, target, &[("NO_PROXY", "abc.onion")]);
                assert!(attempt(Some("socks5://127.0.0.1:9050")).unwrap().is_some());
                assert_eq!(attempt(Some("http://127.0.0.1:9080")).is_ok(), is_https);
                assert!(attempt(None).unwrap_err().contains("--proxy") && attempt(Some("none")).is_err());
                let excepted = [("ALL_PROXY", "socks5://127.0.0.1:9050"), ("NO_PROXY", "*")];
                assert!(chosen(None, target, &excepted).is_err());
            }
        }
    }

    #[test]
    fn each_relay_has_a_user_of_its_own_unless_one_was_given() {
        let parse = |url| parse("--proxy", url).unwrap();
        let own = parse("socks5://127.0.0.1:9050");
        let [first, second] = [Side::First, Side::Second].map(|side| own.isolated(side, "drawn").unwrap());
        assert_ne!(first.username(), second.username());
        assert_eq!((first.password(), first.resolve_target()), (Some("drawn"), false));
        let given = parse("socks5://us%40er:pass@h:1").isolated(Side::First, "drawn").unwrap();
        assert_eq!((given.username(), given.password()), (Some("us@er"), Some("pass")));
        assert!(!given.resolve_target());
    }
}
