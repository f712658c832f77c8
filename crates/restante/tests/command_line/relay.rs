//! A relay's process, and what a client does with it.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::Child,
};

use super::*;

/// A relay's process; it ends with the test.
pub struct RelayProcess {
    child: Child,
    pub address: String,
    pub url: String,
}

impl RelayProcess {
    pub fn start(place: &Place, arguments: &str) -> Self {
        Self::start_at(place, "127.0.0.1:0", arguments)
    }

    pub fn start_at(place: &Place, address: &str, arguments: &str) -> Self {
        Self::launch(place, address, &format!("serve {arguments}"))
    }

    /// Of a command that ends in one.
    pub fn launch(place: &Place, address: &str, command: &str) -> Self {
        let arguments = format!("{command} --listen {address} --operations 127.0.0.1:0 --json");
        let mut child =
            place.command(&arguments).env("RESTANTE_LOG", "error").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let report: Value = serde_json::from_str(&line).unwrap();
        let address = report["listen"].as_str().unwrap().to_owned();
        Self { child, url: format!("http://{address}"), address }
    }
}

impl Drop for RelayProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// An address of this machine where nobody listens, and where a relay may soon.
pub fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The texts that a recipient finds on a relay, in order.
pub fn texts(place: &Place, url: &str, name: &str) -> Vec<String> {
    let sync =
        format!("sync --relay {url} --account {name}.secret --state {name}.fresh --whole --pace 0 --quiet");
    let printed = place.json(&sync);
    fs::remove_file(place.path(&format!("{name}.fresh"))).unwrap();
    printed.iter().filter_map(|line| Some(line.get("text")?.as_str()?.to_owned())).collect()
}
