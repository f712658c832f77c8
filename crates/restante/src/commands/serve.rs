//! `restante serve` and `restante mirror`.

use restante_server::{Config, MirrorConfig, Relay, Running, openapi_json, serve, start_logging};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    arguments::{MirrorArguments, ServeArguments},
    environment::variables,
    error::CliError,
    report::{Report, print_line},
    session::Session,
};

pub fn run(session: &Session, arguments: &ServeArguments) -> Result<(), CliError> {
    if arguments.openapi {
        return print_line(openapi_json().trim_end());
    }
    let config = configuration(session, arguments)?;
    run_until_told(session, config)
}

pub fn mirror(session: &Session, arguments: &MirrorArguments) -> Result<(), CliError> {
    let mut config = configuration(session, &arguments.serve)?;
    let relay = arguments.relay.parse().map_err(|error| CliError::Usage(format!("--relay: {error}")))?;
    let seconds = config.mirror.map_or(5, |mirror| mirror.seconds);
    let (url, authority) = (arguments.of.clone(), arguments.authority.clone());
    config.mirror = Some(MirrorConfig { url, relay, seconds, authority });
    run_until_told(session, config)
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
        let (key, messages) = (relay.key(), relay.messages());
        let running: Running = serve(relay).await?;
        Report::new()
            .with("listen", running.address.to_string())
            .with("operations", running.operations.to_string())
            .with("relay", key.to_string())
            .with("messages", messages)
            .print(session)?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        running.stop().await;
        Ok(())
    })
}
