//! The measurements of `ringway bench all` and their lengths.
//!
//! Each scenario gets the same time, from which the length of its rounds follows, given its points and targets.

use std::time::Duration;

use crate::options::Options;
use crate::scenario::{self, Kind, Scenario};

/// Length of the measurements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Time for each scenario, seconds.
    budget_s: f64,
    rounds: u32,
    patience: u32,
    /// Round length of programs that take whole seconds.
    whole_seconds: u32,
    /// Connections of the scenarios without traffic.
    still: &'static str,
}

impl Form {
    /// Everything in less than half an hour.
    pub(super) const SHORT: Form = Form { budget_s: 40.0, rounds: 3, patience: 1, whole_seconds: 2, still: "1000,10000" };
    /// Everything in less than five minutes.
    pub(super) const QUICK: Form = Form { budget_s: 3.0, rounds: 1, patience: 0, whole_seconds: 1, still: "1000" };

    fn rounds_at_most(&self) -> f64 {
        f64::from(self.rounds + self.patience)
    }
}

/// One call of `ringway bench`.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The subcommand and its arguments.
    pub(super) words: Vec<String>,
    /// Approximate running time.
    pub(super) expected: Duration,
}

/// Time to start a target, seconds.
const START_S: f64 = 0.7;
/// Overhead of a round: seconds for calibration, and a factor for the warm-up of 15 %.
const ROUND_S: f64 = 0.06;
const WARMUP: f64 = 1.15;
/// Bounds of a round, seconds.
const SHORTEST_S: f64 = 0.05;
const LONGEST_S: f64 = 1.0;
/// Programs of `apps`; TLS takes longer than there is time for.
const APPS: &str = "nginx,lighttpd,haproxy,redis,memcached";
/// Number of their loads with both targets, and of runs of `cycles`.
const APPS_ROUNDS: f64 = 24.0;
const CYCLES_RUNS: f64 = 6.0;
/// Time in which perf writes and reads a recording, seconds.
const PERF_S: f64 = 6.0;

/// Additional arguments of a scenario.
fn words(scenario: &Scenario) -> &'static [&'static str] {
    match scenario.name {
        "conns" => &["--target", "linux,linux-uring,preload,service,embedded"],
        "bulk" => &["--target", "linux,preload,preload-bulk,service,embedded"],
        "cores" => &["--target", "linux,embedded"],
        // `host loss` has the short paths; on this one a round must last many round trips.
        "loss" => &["--rtt", "20ms", "--loss", "1%"],
        _ => &[],
    }
}

/// All parts.
pub(super) fn all(form: Form) -> Vec<Part> {
    let mut parts: Vec<Part> = scenario::ALL.iter().map(|scenario| part(scenario, words(scenario), &form)).collect();
    for name in ["conns", "crr", "bulk"] {
        let scenario = scenario::find(name).expect("it is in the list");
        parts.push(part(scenario, &["--wire", "memory"], &form));
    }
    let whole = form.whole_seconds.to_string();
    let (rounds, patience) = (form.rounds.to_string(), form.patience.to_string());
    let apps_s = APPS_ROUNDS * (form.rounds_at_most() * (f64::from(form.whole_seconds) + 0.3) + 0.5);
    let apps = ["apps", "--program", APPS, "--seconds", &whole, "--rounds", &rounds, "--patience", &patience];
    parts.push(made(&apps, apps_s));
    let cycles_s = CYCLES_RUNS * (f64::from(form.whole_seconds) + PERF_S);
    parts.push(made(&["cycles", "--target", "linux,preload,embedded", "--seconds", &whole], cycles_s));
    parts
}

/// The parts with these names; all parts when there are no names.
///
/// # Errors
/// Text for the user: a name is unknown.
pub(super) fn only(parts: Vec<Part>, names: &[String]) -> Result<Vec<Part>, String> {
    if let Some(name) = names.iter().find(|name| parts.iter().all(|part| part.words[0] != **name)) {
        return Err(format!("there is no scenario {name}; `ringway bench list` lists them"));
    }
    Ok(parts.into_iter().filter(|part| names.is_empty() || names.contains(&part.words[0])).collect())
}

fn made(words: &[&str], seconds: f64) -> Part {
    Part { words: words.iter().map(|word| word.to_string()).collect(), expected: Duration::from_secs_f64(seconds) }
}

fn part(scenario: &Scenario, extra: &[&str], form: &Form) -> Part {
    let options = Options::parse(extra);
    let targets = options.targets_of(scenario).map_or(1, |targets| targets.len()) as f64;
    // Points that need another wire or other socket options restart the targets.
    let starts_s = START_S * targets * (scenario.points)(&options).chunk_by(|one, next| one.setup == next.setup).count() as f64;
    let name: Vec<&str> = scenario.name.split(' ').collect();
    let points = match scenario.kind {
        Kind::SharesOfPeak => scenario::cpuload::peaks(&options).len() * 3,
        Kind::Cores => scenario::cores::runs(&options).len(),
        _ => (scenario.points)(&options).len(),
    } as f64;
    let (rounds, patience) = (form.rounds.to_string(), form.patience.to_string());
    let whole = form.whole_seconds.to_string();
    let (more, seconds): (Vec<&str>, f64) = match scenario.kind {
        Kind::Still(question) => {
            let points = form.still.split(',').count() as f64;
            let each = question.settles().as_secs_f64() + START_S + f64::from(form.whole_seconds) + 1.0;
            (vec!["--connections", form.still, "--seconds", &whole], points * targets * each)
        }
        Kind::AgainstWrk => {
            let each = START_S + f64::from(form.rounds) * (2.0 * f64::from(form.whole_seconds) + 0.2);
            (vec!["--target", "linux,embedded", "--seconds", &whole, "--rounds", &rounds], points * 2.0 * each)
        }
        Kind::Traffic | Kind::SharesOfPeak | Kind::Cores => {
            let each = round_s(form, points * targets, starts_s);
            let seconds = format!("{each:.2}");
            let whole = starts_s + points * targets * form.rounds_at_most() * (each * WARMUP + ROUND_S);
            let words = ["--seconds", &seconds, "--rounds", &rounds, "--patience", &patience];
            return made(&[&name, extra, &words[..]].concat(), whole);
        }
    };
    made(&[&name, extra, &more[..]].concat(), seconds)
}

/// Seconds per round, so that `turns` of them fit into the time.
fn round_s(form: &Form, turns: f64, starts_s: f64) -> f64 {
    let each = (form.budget_s - starts_s) / (turns * form.rounds_at_most());
    ((each - ROUND_S) / WARMUP).clamp(SHORTEST_S, LONGEST_S)
}

/// Expected time of the parts left, scaled by the time that the done ones took.
pub(super) fn remaining(done: &[Part], left: &[Part], elapsed: Duration) -> Duration {
    let expected = |parts: &[Part]| parts.iter().map(|part| part.expected.as_secs_f64()).sum::<f64>();
    let pace = if done.is_empty() { 1.0 } else { elapsed.as_secs_f64() / expected(done) };
    Duration::from_secs_f64(expected(left) * pace)
}

#[cfg(test)]
mod tests;
