//! Selects the sockets to show: by flags, and by the most used part of ss's filter language.

use std::net::IpAddr;

use ringway_shm::stats::{Endpoint, SocketRecord};

use super::{Arguments, LISTEN, STATES};

/// Conditions that must all hold.
#[derive(Debug, Default)]
pub(super) struct Filter {
    states: Vec<u8>,
    /// `Some(true)`: only UDP; `Some(false)`: only TCP.
    datagrams: Option<bool>,
    family: Option<bool>,
    conditions: Vec<Condition>,
}

#[derive(Debug, PartialEq, Eq)]
enum Condition {
    LocalPort(u16),
    PeerPort(u16),
    Local(IpAddr, Option<u16>),
    Peer(IpAddr, Option<u16>),
}

impl Filter {
    /// Reads the flags and the words.
    ///
    /// # Errors
    /// A word is unknown or lacks its value.
    pub(super) fn new(arguments: &Arguments) -> Result<Filter, String> {
        let datagrams = (arguments.udp != arguments.tcp).then_some(arguments.udp);
        let mut filter = Filter { states: states_of(arguments), datagrams, family: None, conditions: Vec::new() };
        if arguments.ipv4 != arguments.ipv6 {
            filter.family = Some(arguments.ipv6);
        }
        filter.read(&arguments.filter)?;
        Ok(filter)
    }

    /// Reads filter words such as `state established sport = :80`.
    pub(super) fn read(&mut self, words: &[String]) -> Result<(), String> {
        let mut words = words.iter().map(String::as_str).filter(|word| !matches!(*word, "and" | "(" | ")"));
        let mut chosen = false;
        while let Some(word) = words.next() {
            let mut value = || {
                let value = words.next().filter(|value| !matches!(*value, "=" | "==" | "eq"));
                value.or_else(|| words.next()).ok_or_else(|| format!("`{word}` needs a value"))
            };
            match word {
                "state" => {
                    let states = states_named(value()?)?;
                    if !chosen {
                        self.states.clear();
                    }
                    chosen = true;
                    self.states.extend(states);
                }
                "sport" => self.conditions.push(Condition::LocalPort(port(value()?)?)),
                "dport" => self.conditions.push(Condition::PeerPort(port(value()?)?)),
                "src" => self.conditions.push(endpoint(value()?).map(|(ip, port)| Condition::Local(ip, port))?),
                "dst" => self.conditions.push(endpoint(value()?).map(|(ip, port)| Condition::Peer(ip, port))?),
                other => return Err(format!("unknown filter word `{other}`; see ringway ss --help")),
            }
        }
        Ok(())
    }

    /// Returns true when the socket is to be shown.
    pub(super) fn wants(&self, socket: &SocketRecord) -> bool {
        let holds = |condition: &Condition| match condition {
            Condition::LocalPort(port) => socket.local.port == *port,
            Condition::PeerPort(port) => socket.remote.port == *port,
            Condition::Local(ip, port) => is(&socket.local, *ip, *port),
            Condition::Peer(ip, port) => is(&socket.remote, *ip, *port),
        };
        self.states.contains(&socket.state)
            && self.datagrams.is_none_or(|datagrams| socket.datagrams == datagrams)
            && self.family.is_none_or(|six| socket.local.ip.is_ipv6() == six)
            && self.conditions.iter().all(holds)
    }
}

/// Linux's number of the state of an unconnected socket.
const UNCONNECTED: u8 = 7;

fn is(endpoint: &Endpoint, ip: IpAddr, port: Option<u16>) -> bool {
    endpoint.ip == ip && port.is_none_or(|port| endpoint.port == port)
}

/// States that the flags select, as in ss: without `-a` and `-l`, the connected ones.
fn states_of(arguments: &Arguments) -> Vec<u8> {
    let all = STATES.iter().map(|(number, _, _)| *number);
    match (arguments.all, arguments.listening) {
        (true, _) => all.collect(),
        // An unconnected UDP socket counts as listening.
        (false, true) => vec![LISTEN, UNCONNECTED],
        (false, false) => states_named("connected")
            .expect("a name of the list below")
            .into_iter()
            .filter(|state| *state != 6 && *state != 3)
            .collect(),
    }
}

fn states_named(name: &str) -> Result<Vec<u8>, String> {
    let all = || STATES.iter().map(|(number, _, _)| *number);
    match name {
        "all" => Ok(all().collect()),
        "connected" => Ok(all().filter(|state| !matches!(state, 7 | 10)).collect()),
        "synchronized" => Ok(all().filter(|state| !matches!(state, 2 | 7 | 10)).collect()),
        "listen" => Ok(vec![LISTEN]),
        name => {
            let found = STATES.iter().find(|(_, _, known)| *known == name);
            found.map(|(number, _, _)| vec![*number]).ok_or_else(|| format!("unknown state `{name}`"))
        }
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.trim_start_matches(':').parse().map_err(|_| format!("expected a port number, got `{text}`"))
}

fn endpoint(text: &str) -> Result<(IpAddr, Option<u16>), String> {
    if let Ok(ip) = text.parse() {
        return Ok((ip, None));
    }
    let (ip, number) = text.rsplit_once(':').ok_or_else(|| format!("`{text}` is not an address"))?;
    let ip = ip.trim_matches(['[', ']']).parse().map_err(|_| format!("`{text}` is not an address"))?;
    Ok((ip, Some(port(number)?)))
}
