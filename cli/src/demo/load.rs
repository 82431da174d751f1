//! Load by wrk, and the CPU time of the server's side.

use std::fs;
use std::io;
use std::process::Stdio;

use super::server::Server;
use ringway_bench::wire::veth::Side;
use ringway_bench::wrk::{self, Report, SocketErrors};

/// Figures of one round, or the median of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) requests_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// CPU seconds of all processes in the server's namespace: the program and, where it serves, Ringway.
    pub(super) cpu_s_per_million: f64,
}

/// Loads the server with requests for the small file.
///
/// # Errors
/// wrk is missing, failed or reported an error.
pub(super) fn measure(server: &Server<'_>, seconds: u32, connections: u32) -> io::Result<Figures> {
    let before = cpu_seconds(server);
    let mut command = server.wire.command(Side::Client, "wrk");
    command.args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s"), "--latency", &server.small_url()]);
    let output = command.stdin(Stdio::null()).output()?;
    let used = cpu_seconds(server) - before;
    Ok(figures(wrk::read(&output, SocketErrors::Fail)?, used))
}

/// Adds the CPU time of the round to wrk's figures.
pub(super) fn figures(report: Report, cpu_s: f64) -> Figures {
    let Report { requests, requests_per_s, p50_us, p99_us } = report;
    Figures { requests_per_s, p50_us, p99_us, cpu_s_per_million: cpu_s * 1e6 / requests }
}

/// CPU seconds that the processes in the server's namespace have used so far, with their ended children.
fn cpu_seconds(server: &Server<'_>) -> f64 {
    let ticks: u64 = server.wire.processes(Side::Server).into_iter().filter_map(ticks_of).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

fn ticks_of(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain any byte; utime, stime, cutime and cstime are fields 14 to 17.
    let fields = text.rsplit_once(')')?.1.split_whitespace();
    Some(fields.skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum())
}

/// The median of each figure.
pub(super) fn median(rounds: &[Figures]) -> Figures {
    let of = |value: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
    };
    Figures {
        requests_per_s: of(|figures| figures.requests_per_s),
        p50_us: of(|figures| figures.p50_us),
        p99_us: of(|figures| figures.p99_us),
        cpu_s_per_million: of(|figures| figures.cpu_s_per_million),
    }
}
