//! `ringway handover`: connections of a running service go home to the kernel, or come back from there.
//!
//! Promises: says how many connections were asked for and how many the kernel has now; exit status 1 if some stay. Of those that come back it says how
//! many; exit status 1 if none does. Does not do: forcing a program that makes no call and waits for nothing of Ringway's; its connections stay until it
//! does.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use ringway_channel::attach::want_sockets;

use crate::services::{Choice, Service};

/// Looks at the counters so often while programs hand over.
const LOOK: Duration = Duration::from_millis(10);
/// No connection comes back any more when none has for so long; a program looks once a second.
const LULL: Duration = Duration::from_millis(1_500);

/// Arguments of `ringway handover`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// `all`, a process id, `:PORT` (of either end), or one connection: ADDRESS:PORT ADDRESS:PORT
    #[arg(value_name = "WHAT", required = true, num_args = 1..=2)]
    what: Vec<String>,
    /// Where they go on
    #[arg(long, value_enum, default_value = "kernel")]
    to: Goal,
    /// The service of this name; else all of this network namespace
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Seconds to wait for the programs, which hand over at their next call or wake-up
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    wait: u64,
}

/// Where connections go.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Goal {
    /// The kernel's TCP
    Kernel,
    /// Ringway's, for connections that the service has handed over before: once nothing of them is under way, where the process that accepted them
    /// has no other thread and shares them with no other
    Stack,
}

/// Asks, waits and reports.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let words = match words(&arguments.what) {
        Ok(words) => words,
        Err(text) => {
            eprintln!("ringway handover: {text}");
            return ExitCode::from(2);
        }
    };
    let moved = match arguments.to {
        Goal::Kernel => hand_over(arguments, &words),
        Goal::Stack => take_back(arguments, &words),
    };
    match moved {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ringway handover: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The words of the service for what the command line names.
fn words(what: &[String]) -> Result<String, String> {
    let address = |text: &str| text.parse::<SocketAddr>().map_err(|_| format!("{text} is no ADDRESS:PORT"));
    match what {
        [one] if one == "all" => Ok("all".to_owned()),
        [one] if one.starts_with(':') => match one[1..].parse::<u16>() {
            Ok(port) if port > 0 => Ok(format!("port {port}")),
            _ => Err(format!("{one} is no port")),
        },
        [one] => match one.parse::<u32>() {
            Ok(pid) if pid > 0 => Ok(format!("pid {pid}")),
            _ => Err(format!("{one} is not: all, a process id, :PORT, or two times ADDRESS:PORT")),
        },
        [one, other] => Ok(format!("flow {} {}", address(one)?, address(other)?)),
        _ => Err("one connection has two ends".to_owned()),
    }
}

/// Returns true if no connection stays that was asked for.
fn hand_over(arguments: &Arguments, words: &str) -> io::Result<bool> {
    let services = services(arguments)?;
    let before = moved(&services);
    let asked = ask(&services, words)?;
    let limit = Instant::now() + Duration::from_secs(arguments.wait);
    let mut gone = moved(&services) - before;
    while gone < asked && Instant::now() < limit {
        std::thread::sleep(LOOK);
        gone = moved(&services) - before;
    }
    let (went, stay) = (gone.min(asked), asked.saturating_sub(gone));
    crate::output::write(&format!("{asked} connections, {went} at the kernel, {stay} stay\n"))?;
    Ok(gone >= asked)
}

/// Returns true if a connection has come back. Ends when none has for a while.
fn take_back(arguments: &Arguments, words: &str) -> io::Result<bool> {
    let services = services(arguments)?;
    let before = returned(&services);
    ask(&services, &format!("back {words}"))?;
    let limit = Instant::now() + Duration::from_secs(arguments.wait);
    let (mut count, mut last) = (0, Instant::now());
    while Instant::now() < limit && (count == 0 || last.elapsed() < LULL) {
        std::thread::sleep(LOOK);
        let now = returned(&services) - before;
        if now > count {
            (count, last) = (now, Instant::now());
        }
    }
    crate::output::write(&format!("{count} connections are the stack's again\n"))?;
    Ok(count > 0)
}

fn services(arguments: &Arguments) -> io::Result<Vec<Service>> {
    let services = Choice::here(arguments.name.as_deref()).find()?;
    if services.is_empty() {
        return Err(io::Error::other("no service runs in this network namespace"));
    }
    Ok(services)
}

/// Tells each service; returns how many connections they have asked for.
fn ask(services: &[Service], words: &str) -> io::Result<u64> {
    let mut asked = 0;
    for service in services {
        let count = want_sockets(&service.file("sock"), words);
        asked += u64::from(count.map_err(|error| io::Error::other(format!("service {}: {error}", service.name)))?);
    }
    Ok(asked)
}

/// Sockets that these services have handed over so far.
fn moved(services: &[Service]) -> u64 {
    count(services, "RingwaySocketsHandedOver")
}

/// Connections that they have taken back.
fn returned(services: &[Service]) -> u64 {
    count(services, "RingwaySocketsAdopted")
}

fn count(services: &[Service], name: &str) -> u64 {
    let counters = services.iter().flat_map(|service| service.stats.counters());
    counters.filter(|(counted, _)| *counted == name).map(|(_, value)| value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(what: &[&str]) -> Result<String, String> {
        words(&what.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn sockets_are_named_in_the_words_of_the_service() {
        assert_eq!(said(&["all"]), Ok("all".to_owned()));
        assert_eq!(said(&["4711"]), Ok("pid 4711".to_owned()));
        assert_eq!(said(&[":80"]), Ok("port 80".to_owned()));
        assert_eq!(said(&["10.0.0.1:80", "[fd00::2]:9"]), Ok("flow 10.0.0.1:80 [fd00::2]:9".to_owned()));
        for wrong in [&["every"][..], &["0"], &[":0"], &[":70000"], &["10.0.0.1:80", "10.0.0.2"]] {
            assert!(said(wrong).is_err(), "{wrong:?}");
        }
    }
}
