//! What `ringway bench all` measures, and for how long.
//!
//! Each scenario gets the same time: its rounds are as long as that allows for its points and targets.

use std::time::Duration;

use crate::options::Options;
use crate::scenario::{self, Kind, Scenario};

/// How short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// For each scenario, seconds.
    budget_s: f64,
    rounds: u32,
    patience: u32,
    /// Of each round of programs that want whole seconds.
    whole_seconds: u32,
    /// Connections of what stands still.
    still: &'static str,
}

impl Form {
    /// All of it in less than half an hour.
    pub(super) const SHORT: Form = Form { budget_s: 40.0, rounds: 3, patience: 1, whole_seconds: 2, still: "1000,10000" };
    /// All of it in less than five minutes.
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
    /// How long it takes, about.
    pub(super) expected: Duration,
}

/// Starting a target, seconds.
const START_S: f64 = 0.7;
/// What a round takes beyond its seconds: calibration, and 15 % to get warm.
const ROUND_S: f64 = 0.06;
const WARMUP: f64 = 1.15;
/// A round is never shorter or longer.
const SHORTEST_S: f64 = 0.05;
const LONGEST_S: f64 = 1.0;
/// Loads of `apps` with both targets, and of what `cycles` runs.
const APPS_ROUNDS: f64 = 24.0;
const CYCLES_RUNS: f64 = 6.0;
/// What perf takes to write and read a recording, seconds.
const PERF_S: f64 = 6.0;

/// What a scenario is measured with beside its own points and targets.
fn words(scenario: &Scenario) -> &'static [&'static str] {
    match scenario.name {
        "conns" => &["--target", "linux,linux-uring,preload,service,embedded"],
        "cores" => &["--target", "linux,embedded"],
        // The shorter ways are those of `host loss`; on this one a round must last many round trips.
        "loss" => &["--rtt", "20ms", "--loss", "1%"],
        _ => &[],
    }
}

/// Everything.
pub(super) fn all(form: Form) -> Vec<Part> {
    let mut parts: Vec<Part> = scenario::ALL.iter().map(|scenario| part(scenario, words(scenario), &form)).collect();
    for name in ["conns", "crr", "bulk"] {
        let scenario = scenario::find(name).expect("it is in the list");
        parts.push(part(scenario, &["--wire", "memory"], &form));
    }
    let whole = form.whole_seconds.to_string();
    let (rounds, patience) = (form.rounds.to_string(), form.patience.to_string());
    let apps_s = APPS_ROUNDS * (form.rounds_at_most() * (f64::from(form.whole_seconds) + 0.3) + 0.5);
    parts.push(made(&["apps", "--seconds", &whole, "--rounds", &rounds, "--patience", &patience], apps_s));
    let cycles_s = CYCLES_RUNS * (f64::from(form.whole_seconds) + PERF_S);
    parts.push(made(&["cycles", "--target", "linux,preload,embedded", "--seconds", &whole], cycles_s));
    parts
}

/// The parts with these names; no names: all of them.
///
/// # Errors
/// Text for the user: nothing has such a name.
pub(super) fn only(parts: Vec<Part>, names: &[String]) -> Result<Vec<Part>, String> {
    if let Some(name) = names.iter().find(|name| parts.iter().all(|part| part.words[0] != **name)) {
        return Err(format!("there is no scenario {name}; `ringway bench list` says what there is"));
    }
    Ok(parts.into_iter().filter(|part| names.is_empty() || names.contains(&part.words[0])).collect())
}

fn made(words: &[&str], seconds: f64) -> Part {
    Part { words: words.iter().map(|word| word.to_string()).collect(), expected: Duration::from_secs_f64(seconds) }
}

fn part(scenario: &Scenario, extra: &[&str], form: &Form) -> Part {
    let options = Options::parse(extra);
    let targets = options.targets_of(scenario).map_or(1, |targets| targets.len()) as f64;
    // Where points want another wire or other sockets, the targets are started anew.
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

/// The seconds of a round where so many fit into the budget.
fn round_s(form: &Form, turns: f64, starts_s: f64) -> f64 {
    let each = (form.budget_s - starts_s) / (turns * form.rounds_at_most());
    ((each - ROUND_S) / WARMUP).clamp(SHORTEST_S, LONGEST_S)
}

/// How long what is left takes, when what is done took so long.
pub(super) fn remaining(done: &[Part], left: &[Part], elapsed: Duration) -> Duration {
    let expected = |parts: &[Part]| parts.iter().map(|part| part.expected.as_secs_f64()).sum::<f64>();
    let pace = if done.is_empty() { 1.0 } else { elapsed.as_secs_f64() / expected(done) };
    Duration::from_secs_f64(expected(left) * pace)
}

#[cfg(test)]
mod tests;
