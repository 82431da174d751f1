//! `ringway bench agent`: starts the servers of measurements whose client is on another machine, and clients of servers elsewhere.
//!
//! ```text
//!   bench SCENARIO --peer ---calls---> agent         ssh's standard input and output, or TCP and a token
//!       | client role                    | server role, under `ringway run` where the target has a service
//!       '============ load ============='
//! ```
//! Promises: a caller without the token starts nothing; a caller can start the servers and clients of `ringway bench` and no other program; one
//! measurement runs at a time; when its connection ends, so does its server. Does not do: encrypt.

pub(crate) mod call;
mod session;

use std::io::{self, BufReader, IsTerminal, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::{Builder, sleep};
use std::time::Duration;

use clap::Args;
use rustix::rand::{GetRandomFlags, getrandom};
use socket2::{SockRef, TcpKeepalive};

use crate::measure::machine;
use crate::wire::veth::remove_on_signal;
use call::{Call, PROTOCOL, Reply, put, take};
use session::Session;

/// Arguments of `ringway bench agent`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Listen here for `--peer ADDRESS:PORT`; default: one caller on standard input and output, as `--peer ssh:HOST` makes it
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

/// The variable that has the token at both ends.
pub(crate) const TOKEN: &str = "RINGWAY_BENCH_TOKEN";
/// Shortest token that is taken from the environment.
const TOKEN_MIN: usize = 16;
/// Bytes of a token that is made here.
const TOKEN_BYTES: usize = 16;
/// Connections that are heard at a time: the one that measures, and those that are told so.
const CALLERS_MAX: usize = 8;
/// A caller says its token within this time.
const HELLO: Duration = Duration::from_secs(10);
/// No connection is accepted for so long when that has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A wrong token is answered after this time.
const WRONG_TOKEN: Duration = Duration::from_secs(1);
/// A caller whose machine is gone is noticed after about half a minute.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(5)).with_retries(4);

/// Serves callers; from standard input until it ends, from a port until a signal.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let served = match arguments.listen {
        None if io::stdin().is_terminal() => {
            eprintln!(
                "ringway bench agent: --peer ssh:HOST starts it by itself; for --peer ADDRESS:PORT say --listen ADDRESS:PORT"
            );
            return ExitCode::from(2);
        }
        None => hear(&mut io::stdin().lock(), &mut io::stdout().lock(), None),
        Some(address) => remove_on_signal().and_then(|()| listen(address)),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringway bench agent: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the callers of a port share.
struct Port {
    token: String,
    /// Held by the caller that measures.
    measures: Mutex<()>,
    callers: AtomicUsize,
}

fn listen(address: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(address).map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
    let (token, origin) = token()?;
    let shown = match origin {
        Origin::Made => format!("{TOKEN}={token}"),
        Origin::Environment => format!("the token is that of {TOKEN} here"),
    };
    writeln!(io::stdout(), "listening on {}; {shown}", listener.local_addr()?)?;
    let port = Arc::new(Port { token, measures: Mutex::new(()), callers: AtomicUsize::new(0) });
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // The caller is gone again, or descriptors are scarce for a while.
            Err(_) => {
                sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        if port.callers.fetch_add(1, Ordering::Relaxed) >= CALLERS_MAX {
            port.callers.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let port = Arc::clone(&port);
        let caller = move || {
            if let Err(error) = serve(&stream, &port) {
                eprintln!("ringway bench agent: {error}");
            }
            port.callers.fetch_sub(1, Ordering::Relaxed);
        };
        Builder::new().name("caller".into()).spawn(caller)?;
    }
}

/// Where a token comes from.
enum Origin {
    Environment,
    Made,
}

/// The token of the environment, else a new one.
fn token() -> io::Result<(String, Origin)> {
    match std::env::var(TOKEN) {
        Ok(token) if token.len() < TOKEN_MIN => {
            Err(io::Error::other(format!("{TOKEN} has fewer than {TOKEN_MIN} characters: unset it, and a token is made")))
        }
        Ok(token) => Ok((token, Origin::Environment)),
        Err(_) => {
            let mut bytes = [0; TOKEN_BYTES];
            getrandom(&mut bytes, GetRandomFlags::empty())?;
            Ok((bytes.iter().map(|byte| format!("{byte:02x}")).collect(), Origin::Made))
        }
    }
}

/// Serves the caller at the other end of a connection.
fn serve(stream: &TcpStream, port: &Port) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HELLO))?;
    SockRef::from(stream).set_tcp_keepalive(&KEEPALIVE)?;
    hear(&mut BufReader::new(stream), &mut &*stream, Some((port, stream)))
}

/// Hears a caller until it is gone. `port`: it must show the token, and wait for its turn.
fn hear(from: &mut dyn io::BufRead, out: &mut dyn Write, port: Option<(&Port, &TcpStream)>) -> io::Result<()> {
    let Some(call) = take(from)? else { return Ok(()) };
    let Call::Hello { protocol, token } = call else {
        return put(out, &Reply::Failed("the first call is Hello".into()));
    };
    if port.is_some_and(|(port, _)| !is_same(token.as_bytes(), port.token.as_bytes())) {
        sleep(WRONG_TOKEN);
        return put(out, &Reply::Failed(format!("this is not the agent's token ({TOKEN})")));
    }
    if protocol != PROTOCOL {
        let text = format!("the agent speaks form {PROTOCOL} and not {protocol}: use the same ringway on both machines");
        return put(out, &Reply::Failed(text));
    }
    let _turn = match port.map(|(port, _)| port.measures.try_lock()) {
        Some(Err(TryLockError::WouldBlock)) => return put(out, &Reply::Failed("another measurement runs here".into())),
        Some(Ok(turn)) => Some(turn),
        Some(Err(TryLockError::Poisoned(turn))) => Some(turn.into_inner()),
        None => None,
    };
    if let Some((_, stream)) = port {
        stream.set_read_timeout(None)?;
    }
    put(out, &Reply::Welcome { commit: machine::commit().to_string(), cores: machine::cores() })?;
    let mut session = Session::default();
    while let Some(call) = take(from)? {
        put(out, &session.answer(call))?;
    }
    Ok(())
}

/// Compares without telling by its time where two texts differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

#[cfg(test)]
mod tests;
