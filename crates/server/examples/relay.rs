//! A relay in a program of one's own: it starts, says what it is, and stops.
//!
//!     cargo run --release -p restante-server --example relay

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use restante_server::{Config, Relay, serve};

fn main() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    // Port 0: any that is free. A real relay has a configuration file (`Config::from_file`) and TLS.
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let config =
        Config { data: scratch.path().join("relay"), listen: local, operations: local, ..Config::default() };
    let relay = Relay::open(config)?;
    println!("the relay's key is {}", relay.key());

    let runtime = tokio::runtime::Runtime::new()?;
    let running = runtime.block_on(serve(relay))?;
    let mut connection = TcpStream::connect(running.address)?;
    write!(connection, "GET /v1/parameters HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    println!("{answer}");
    runtime.block_on(running.stop());
    assert!(answer.starts_with("HTTP/1.1 200"));
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the example runs");
}
