//! F-Stack's config.ini and its options of the command line.
//!
//! The file describes cards and memory, which are the service's here. What is left is which interface a port is: the one that has its address.

use std::fs;
use std::net::IpAddr;
use std::sync::Mutex;

use crate::sockets::lock;

/// A [portN] of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) number: u16,
    pub(crate) address: IpAddr,
}

static PORTS: Mutex<Vec<Port>> = Mutex::new(Vec::new());

/// Sections of F-Stack's; a name ends where digits begin.
const SECTIONS: [&str; 10] = ["dpdk", "pcap", "port", "vdev", "bond", "kni", "log", "freebsd.boot", "freebsd.sysctl", "stack"];

/// Takes the options out of the arguments and reads the file that they name. Returns what has no effect.
///
/// # Errors
/// What is wrong, for the user.
pub(crate) fn load(arguments: &[String]) -> Result<Vec<String>, String> {
    let mut ignored = Vec::new();
    let (mut file, mut rest) = (None, arguments.iter().skip(1));
    while let Some(argument) = rest.next() {
        let (name, value) = argument.split_once('=').map_or((argument.as_str(), None), |(name, value)| (name, Some(value)));
        let mut value = || value.or_else(|| rest.next().map(String::as_str)).ok_or(format!("`{name}` lacks its value"));
        match name {
            "-c" | "--conf" => file = Some(value()?.to_owned()),
            "-p" | "--proc-id" | "-t" | "--proc-type" => {
                value()?;
                ignored.push(format!("{name} (processes share the service)"));
            }
            // The rest is the program's.
            _ => {}
        }
    }
    let Some(file) = file else { return Ok(ignored) };
    let text = fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
    let (ports, sections) = read(&text).map_err(|text| format!("{file}: {text}"))?;
    *lock(&PORTS) = ports;
    ignored.extend(sections.iter().map(|name| format!("[{name}]")));
    Ok(ignored)
}

/// The address of a port.
pub(crate) fn address_of(port: u16) -> Option<IpAddr> {
    lock(&PORTS).iter().find(|known| known.number == port).map(|known| known.address)
}

/// The ports of a file, and its sections that have no effect.
fn read(text: &str) -> Result<(Vec<Port>, Vec<String>), String> {
    let (mut ports, mut ignored, mut section) = (Vec::new(), Vec::new(), None);
    for (number, line) in text.lines().enumerate() {
        let line = line.split(['#', ';']).next().unwrap_or("").trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
            if !SECTIONS.contains(&kind) {
                return Err(format!("line {}: [{name}] is no section of F-Stack's", number + 1));
            }
            if kind != "port" {
                ignored.push(name.to_owned());
            }
            section = Some(name.to_owned());
        } else if let Some((key, value)) = line.split_once('=') {
            let port = section.as_deref().and_then(|name| name.strip_prefix("port")).filter(|_| key.trim() == "addr");
            if let Some(port) = port {
                let wrong = |what: &str| format!("line {}: `{what}` is not right", number + 1);
                let (number, address) = (port.parse().map_err(|_| wrong(port))?, value.trim());
                ports.push(Port { number, address: address.parse().map_err(|_| wrong(address))? });
            }
        } else if !line.is_empty() {
            return Err(format!("line {}: `{line}` is neither a section nor a value", number + 1));
        }
    }
    Ok((ports, ignored))
}

#[cfg(test)]
mod tests;
