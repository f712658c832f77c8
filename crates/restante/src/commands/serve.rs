//! `restante serve` and `restante mirror`.

use restante_server::{Config, MirrorConfig, Relay, Running, openapi_json, serve, start_logging};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    arguments::{MirrorArguments, ServeArguments},
    environment::variables,
    error::CliError,
    proxy::{self, Target},
    report::{Report, print_line},
    session::Session,
};

pub fn run(session: &Session, arguments: &ServeArguments) -> Result<(), CliError> {
    if arguments.openapi {
        return print_line(openapi_json().trim_end());
    }
    let mut config = configuration(session, arguments)?;
    set_proxy(&mut config, None)?;
    run_until_told(session, config)
}

pub fn mirror(session: &Session, arguments: &MirrorArguments) -> Result<(), CliError> {
    let mut config = configuration(session, &arguments.serve)?;
    let configured = config.mirror.take();
    let missing = |option: &str| {
        CliError::Usage(format!(
            "{option} is missing, and there is no [mirror] in a configuration (--config) that has it"
        ))
    };
    let url = arguments.of.clone().or(configured.as_ref().map(|mirror| mirror.url.clone()));
    let relay = arguments.relay.or(configured.as_ref().map(|mirror| mirror.relay));
    let mut mirror =
        MirrorConfig::new(url.ok_or_else(|| missing("--of"))?, relay.ok_or_else(|| missing("--relay"))?);
    if let Some(configured) = configured {
        mirror = MirrorConfig { url: mirror.url, relay: mirror.relay, ..configured };
    }
    mirror.authority = arguments.authority.clone().or(mirror.authority);
    config.mirror = Some(mirror);
    set_proxy(&mut config, arguments.proxy.as_deref())?;
    run_until_told(session, config)
}

/// Through which proxy the relay is reached that is followed: the command line goes over the configuration, and that over what the
/// environment says of proxies.
fn set_proxy(config: &mut Config, option: Option<&str>) -> Result<(), CliError> {
    let Some(mirror) = &mut config.mirror else { return Ok(()) };
    if option.is_none() && mirror.proxy.is_some() {
        return Ok(());
    }
    let uri: ureq::http::Uri =
        mirror.url.parse().map_err(|_| CliError::Usage("the URL of the relay to follow is none".into()))?;
    let Some(host) = proxy::host(&uri) else {
        return Err(CliError::Usage("the URL of the relay to follow has no host".into()));
    };
    let target = Target { is_https: uri.scheme_str() == Some("https"), host };
    mirror.proxy = match proxy::choose(option, target)? {
        None => None,
        Some(chosen) if chosen.is_socks() && !chosen.has_user() => {
            Some(format!("socks5://{}", chosen.name()))
        }
        Some(_) => {
            let reason = "a mirror takes a SOCKS5 proxy without user, socks5://HOST:PORT, or --proxy none";
            return Err(CliError::Usage(reason.into()));
        }
    };
    Ok(())
}

/// The command line goes over the environment, and that over the file.
fn configuration(session: &Session, arguments: &ServeArguments) -> Result<Config, CliError> {
    let mut config = Config::load(arguments.config.as_deref(), variables("RESTANTE_")?)?;
    if let Some(data) = &arguments.data {
        config.data = data.to_path_buf();
    }
    config.listen = arguments.listen.unwrap_or(config.listen);
    config.operations = arguments.operations.unwrap_or(config.operations);
    config.threads = session.threads.map_or(config.threads, usize::from);
    config.backend = session.backend.to_string();
    Ok(config)
}

fn run_until_told(session: &Session, config: Config) -> Result<(), CliError> {
    start_logging(&config.log)?;
    let relay = Relay::open(config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::Environment(format!("cannot start threads: {error}")))?;
    runtime.block_on(async {
        let failed = |error| CliError::Environment(format!("cannot wait for signals: {error}"));
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
        let (key, messages) = (relay.key(), relay.messages());
        let mut running: Running = serve(relay).await?;
        Report::new()
            .with("listen", running.address.to_string())
            .with("operations", running.operations.to_string())
            .with("relay", key.to_string())
            .with("messages", messages)
            .print(session.json)?;
        let outcome = loop {
            tokio::select! {
                _ = terminate.recv() => break Ok(()),
                _ = interrupt.recv() => break Ok(()),
                _ = hangup.recv() => running.reload(),
                error = running.failed() => break Err(error.into()),
            }
        };
        running.stop().await;
        outcome
    })
}
