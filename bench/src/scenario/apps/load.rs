//! The loads: wrk, redis-benchmark, and `ringway bench ask` for memcached.

use std::io;
use std::process::{Output, Stdio};

use crate::wire::veth::Side;
use crate::wrk::{self, Report, SocketErrors};

use super::ask::Told;
use super::program::{FILE, LARGE_FILE, PORT, Program, Server, TLS_PORT};

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// wrk; short connections by `Connection: close`.
    Http { is_short: bool },
    /// The same over TLS.
    Tls { is_short: bool },
    /// wrk with a file of 1 MiB, always on 16 connections.
    Files,
    /// redis-benchmark without pipelining.
    Redis { test: &'static str, is_short: bool },
    /// `ringway bench ask`.
    Memcached { is_short: bool },
}

/// A load's result for one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) requests: f64,
    pub(super) requests_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// The core of the loads.
pub(super) const CORE: usize = 0;
/// Connections that fetch large files.
const FILES_CONNECTIONS: u32 = 16;
/// Requests of redis-benchmark's first, short run, which estimates the number for a round.
const FIRST: u64 = 2000;

impl Load {
    /// The point's name in rows.
    pub(super) fn label(&self, program: Program) -> String {
        let (verb, is_short) = match self {
            Load::Files => return format!("{} files of 1 MiB", program.name()),
            Load::Http { is_short } | Load::Tls { is_short } => (String::new(), is_short),
            Load::Redis { test, is_short } => (format!(" {}", test.to_uppercase()), is_short),
            Load::Memcached { is_short } => (" get".to_string(), is_short),
        };
        format!("{}{verb} {}", program.name(), if *is_short { "short" } else { "keep-alive" })
    }

    /// Number of connections when the user asks for `asked`.
    pub(super) fn connections(&self, asked: u32) -> u32 {
        if *self == Load::Files { FILES_CONNECTIONS } else { asked }
    }

    /// The load's program; `sh`, which is always installed, stands for `ringway bench ask`.
    pub(super) fn command(&self) -> &'static str {
        match self {
            Load::Http { .. } | Load::Tls { .. } | Load::Files => "wrk",
            Load::Redis { .. } => "redis-benchmark",
            Load::Memcached { .. } => "sh",
        }
    }

    /// Loads the server for `seconds` seconds.
    ///
    /// # Errors
    /// The load failed, reported an error, or its output cannot be parsed.
    pub(super) fn run(&self, server: &Server, connections: u32, seconds: u32) -> io::Result<Figures> {
        let host = server.wire.address(Side::Server);
        match self {
            Load::Http { is_short } => http(server, &format!("http://{host}:{PORT}/{FILE}"), *is_short, connections, seconds),
            Load::Tls { is_short } => http(server, &format!("https://{host}:{TLS_PORT}/{FILE}"), *is_short, connections, seconds),
            Load::Files => {
                let is_short = false;
                http(server, &format!("http://{host}:{PORT}/{LARGE_FILE}"), is_short, connections, seconds)
            }
            Load::Redis { test, is_short } => {
                let first = redis(server, test, *is_short, connections, FIRST)?;
                let wanted = (first.requests_per_s * f64::from(seconds)) as u64;
                redis(server, test, *is_short, connections, wanted.max(FIRST))
            }
            Load::Memcached { is_short } => {
                let mut words =
                    vec!["--connections".to_string(), connections.to_string(), "--seconds".into(), seconds.to_string()];
                words.extend(is_short.then(|| "--short".to_string()));
                let told = ask(server, "memcached", &words)?;
                Ok(Figures {
                    requests: told.replies as f64,
                    requests_per_s: told.replies as f64 / told.seconds,
                    p50_us: told.p50_us,
                    p99_us: told.p99_us,
                })
            }
        }
    }
}

/// Sends one request and checks the reply.
///
/// # Errors
/// The server does not answer, or the reply is wrong.
pub(super) fn probe(server: &Server) -> io::Result<()> {
    let language = match server.program {
        Program::Nginx | Program::NginxTls | Program::Lighttpd | Program::Haproxy => "http",
        Program::Redis => "redis",
        Program::Memcached => "memcached",
    };
    ask(server, language, &["--once".to_string()]).map(drop)
}

fn ask(server: &Server, language: &str, words: &[String]) -> io::Result<Told> {
    let program = std::env::current_exe()?.to_string_lossy().into_owned();
    let to = format!("{}:{PORT}", server.wire.address(Side::Server));
    let fixed = [program, "bench".into(), "ask".into(), language.into(), to].into_iter().chain(words.iter().cloned());
    let output = client(server, &fixed.collect::<Vec<_>>())?;
    serde_json::from_slice(&output.stdout).map_err(|error| io::Error::other(format!("ask: {error}")))
}

fn http(server: &Server, url: &str, is_short: bool, connections: u32, seconds: u32) -> io::Result<Figures> {
    let mut words: Vec<String> = ["wrk", "-t1", "--latency"].map(str::to_string).to_vec();
    words.extend([format!("-c{connections}"), format!("-d{seconds}s")]);
    if is_short {
        words.extend(["-H".to_string(), "Connection: close".to_string()]);
    }
    words.push(url.to_string());
    let output = client(server, &words)?;
    let socket_errors = if is_short { SocketErrors::Expected } else { SocketErrors::Fail };
    let Report { requests, requests_per_s, p50_us, p99_us } = wrk::read(&output, socket_errors)?;
    Ok(Figures { requests, requests_per_s, p50_us, p99_us })
}

fn redis(server: &Server, test: &str, is_short: bool, connections: u32, requests: u64) -> io::Result<Figures> {
    let keep = if is_short { "0" } else { "1" };
    let (host, port) = (server.wire.address(Side::Server), PORT.to_string());
    let (connections, count) = (connections.to_string(), requests.to_string());
    let words = [
        "redis-benchmark",
        "--csv",
        "-h",
        &host,
        "-p",
        &port,
        "-t",
        test,
        "-d",
        "64",
        "-k",
        keep,
        "-c",
        &connections,
        "-n",
        &count,
    ];
    let output = client(server, &words.map(str::to_string))?;
    let text = String::from_utf8_lossy(&output.stdout);
    redis_figures(&text, requests).ok_or_else(|| io::Error::other(format!("redis-benchmark printed: {text}")))
}

/// Parses the last line of redis-benchmark's CSV: test, rps, mean, min, p50, p95, p99, max in milliseconds.
fn redis_figures(text: &str, requests: u64) -> Option<Figures> {
    let line = text.lines().rev().find(|line| line.starts_with('"') && !line.starts_with("\"test\""))?;
    let fields: Vec<&str> = line.split(',').map(|field| field.trim_matches('"')).collect();
    let field = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    let (rate, p50_ms, p99_ms) = (field(1)?, field(4)?, field(6)?);
    Some(Figures { requests: requests as f64, requests_per_s: rate, p50_us: p50_ms * 1e3, p99_us: p99_ms * 1e3 })
}

/// Runs a program at the client's side, on the loads' core.
fn client(server: &Server, words: &[String]) -> io::Result<Output> {
    let mut command = server.wire.command(Side::Client, "taskset");
    command.args(["-c", &CORE.to_string()]).args(words).stdin(Stdio::null());
    let output = command.output()?;
    if output.status.success() {
        return Ok(output);
    }
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(io::Error::other(format!("{} ({}): {}", words[0], output.status, said.trim())))
}

#[cfg(test)]
mod tests;
