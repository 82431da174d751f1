//! Selects the sockets to show: by flags, by states, and by an expression.

use ringway_shm::stats::SocketRecord;

use super::expression::{self, Expression};
use super::{Arguments, LISTEN, STATES};

/// Conditions that must all hold.
#[derive(Debug)]
pub(crate) struct Filter {
    states: Vec<u8>,
    /// `Some(true)`: only UDP; `Some(false)`: only TCP.
    datagrams: Option<bool>,
    family: Option<bool>,
    expression: Expression,
}

impl Filter {
    /// Reads the flags and the words.
    ///
    /// # Errors
    /// A word is unknown or lacks its value.
    pub(super) fn new(arguments: &Arguments) -> Result<Filter, String> {
        let datagrams = (arguments.udp != arguments.tcp).then_some(arguments.udp);
        let mut filter =
            Filter { states: states_of(arguments), datagrams, family: None, expression: Expression::All(Vec::new()) };
        if arguments.ipv4 != arguments.ipv6 {
            filter.family = Some(arguments.ipv6);
        }
        filter.read(&arguments.filter)?;
        Ok(filter)
    }

    /// Sockets in all states that these words describe.
    ///
    /// # Errors
    /// A word is unknown or lacks its value.
    pub(crate) fn of_words(words: &[String]) -> Result<Filter, String> {
        let states = STATES.iter().map(|(number, _, _)| *number).collect();
        let mut filter = Filter { states, datagrams: None, family: None, expression: Expression::All(Vec::new()) };
        filter.read(words)?;
        Ok(filter)
    }

    /// Reads filter words such as `state established ( sport = :80 or sport = :443 )`.
    pub(super) fn read(&mut self, words: &[String]) -> Result<(), String> {
        let mut tokens = expression::tokens(words).into_iter();
        let (mut rest, mut chosen) = (Vec::new(), false);
        while let Some(token) = tokens.next() {
            let excludes = token == "exclude";
            if token != "state" && !excludes {
                rest.push(token);
                continue;
            }
            let named = states_named(&tokens.next().ok_or_else(|| format!("`{token}` needs a state"))?)?;
            let all = || STATES.iter().map(|(number, _, _)| *number);
            if !std::mem::replace(&mut chosen, true) {
                self.states = if excludes { all().collect() } else { Vec::new() };
            }
            if excludes { self.states.retain(|state| !named.contains(state)) } else { self.states.extend(named) }
        }
        self.expression = Expression::read(&rest)?;
        Ok(())
    }

    /// Returns true when the socket is to be shown.
    pub(crate) fn wants(&self, socket: &SocketRecord) -> bool {
        self.states.contains(&socket.state)
            && self.datagrams.is_none_or(|datagrams| socket.datagrams == datagrams)
            && self.family.is_none_or(|six| socket.local.ip.is_ipv6() == six)
            && self.expression.holds(socket)
    }
}

/// Linux's number of the state of an unconnected socket.
const UNCONNECTED: u8 = 7;

/// States that the flags select, as in ss: without `-a` and `-l`, the connected ones; of those that end, all.
fn states_of(arguments: &Arguments) -> Vec<u8> {
    let all = STATES.iter().map(|(number, _, _)| *number);
    match (arguments.all || arguments.events, arguments.listening) {
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
        // Those that the kernel keeps in small records.
        "bucket" => Ok(vec![3, 6]),
        "big" => Ok(all().filter(|state| !matches!(state, 3 | 6)).collect()),
        name => {
            let found = STATES.iter().find(|(_, _, known)| *known == name);
            found.map(|(number, _, _)| vec![*number]).ok_or_else(|| format!("unknown state `{name}`"))
        }
    }
}
