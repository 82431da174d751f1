//! `ringway bench compare BEFORE AFTER`: the points that two runs have in common, with confidence intervals.
//!
//! A point's quotient is the median of its rounds after over that before. The interval comes from the rounds by resampling (bootstrap,
//! 95 %), from a fixed seed: the same rows give the same interval. Promises: machines, kernels and commits that differ are named; points
//! of one run alone are counted. Does not do: measuring; without three rounds on both sides there is no interval.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::measure::statistics::median;
use crate::pack;
use crate::random::Random;
use crate::report::reading::{Rows, identity};
use crate::row::{Row, less_is_better};

/// Arguments of `ringway bench compare`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Rows of the run before, or its bundle
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// Rows of the run after
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// Fail if a point is surely worse by more than so many percent
    #[arg(long, value_name = "PERCENT")]
    worse_than: Option<f64>,
    /// One JSON object per point
    #[arg(long)]
    json: bool,
}

/// What became of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Better,
    Worse,
    /// The interval has 1 in it.
    Same,
    /// There is no interval.
    Unknown,
}

/// A point of both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Pair {
    scenario: String,
    point: String,
    target: String,
    wire: String,
    unit: String,
    before: f64,
    after: f64,
    quotient: f64,
    /// Bounds of the quotient.
    interval: Option<(f64, f64)>,
    verdict: Verdict,
}

/// Compares; status 1: a point is worse than is allowed, or a file cannot be read.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match compare(arguments) {
        Ok((text, is_good)) => {
            print(&text);
            if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("ringway bench compare: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A closed standard output is no error.
fn print(text: &str) {
    use std::io::Write as _;
    std::io::stdout().write_all(text.as_bytes()).unwrap_or_default();
}

fn compare(arguments: &Arguments) -> Result<(String, bool), String> {
    let [before, after] = [read(&arguments.before)?, read(&arguments.after)?];
    let (pairs, alone) = pairs(&before, &after);
    if pairs.is_empty() {
        return Err("the runs have no point in common".to_string());
    }
    let limit = arguments.worse_than.map(|percent| percent / 100.0);
    let bad: Vec<&Pair> = pairs.iter().filter(|pair| limit.is_some_and(|limit| pair.is_worse_by(limit))).collect();
    let text = match arguments.json {
        true => pairs.iter().map(|pair| serde_json::to_string(pair).expect("plain values") + "\n").collect(),
        false => table(&pairs, alone, &differences(&before, &after)),
    };
    for pair in &bad {
        eprintln!("ringway bench compare: worse: {}, {} on {} over {}", pair.scenario, pair.point, pair.target, pair.wire);
    }
    Ok((text, bad.is_empty()))
}

fn read(path: &Path) -> Result<Vec<Row>, String> {
    let mut rows = Rows::default();
    match pack::is_bundle(path) {
        true => rows.read_lines(path, &mut pack::rows_of(path)?.as_slice()),
        false => rows.read(path),
    }
    .map_err(|error| error.to_string())?;
    Ok(rows.rows)
}

/// The points of both, and the number of those that only one has, or that are zero before.
fn pairs(before: &[Row], after: &[Row]) -> (Vec<Pair>, usize) {
    let measured = |rows: &&Row| rows.is_measured();
    let earlier: BTreeMap<String, &Row> = before.iter().filter(measured).map(|row| (identity(row), row)).collect();
    let later = after.iter().filter(measured);
    let pairs: Vec<Pair> = later.clone().filter_map(|row| Pair::of(earlier.get(&identity(row))?, row)).collect();
    let alone = earlier.len() + later.count() - 2 * pairs.len();
    (pairs, alone)
}

impl Pair {
    /// `None`: the units differ, or the value before is zero.
    fn of(before: &Row, after: &Row) -> Option<Pair> {
        if before.unit != after.unit || before.value <= 0.0 {
            return None;
        }
        let quotient = after.value / before.value;
        let interval = interval(&before.values, &after.values);
        let verdict = match interval {
            None => Verdict::Unknown,
            Some((least, most)) if least <= 1.0 && most >= 1.0 => Verdict::Same,
            Some((least, _)) if (least > 1.0) != less_is_better(&after.unit) => Verdict::Better,
            Some(_) => Verdict::Worse,
        };
        Some(Pair {
            scenario: after.scenario.clone(),
            point: after.point.clone(),
            target: after.target.clone(),
            wire: after.wire.clone(),
            unit: after.unit.clone(),
            before: before.value,
            after: after.value,
            quotient,
            interval,
            verdict,
        })
    }

    /// Returns true if the whole interval is worse by more than `limit`.
    fn is_worse_by(&self, limit: f64) -> bool {
        let Some((least, most)) = self.interval else { return false };
        self.verdict == Verdict::Worse && if less_is_better(&self.unit) { least > 1.0 + limit } else { most < 1.0 - limit }
    }
}

/// Resamplings.
const SAMPLES: usize = 4_000;
const ROUNDS_MIN: usize = 3;

/// The 95 % interval of the quotient of the medians.
fn interval(before: &[f64], after: &[f64]) -> Option<(f64, f64)> {
    if before.len() < ROUNDS_MIN || after.len() < ROUNDS_MIN {
        return None;
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut quotients: Vec<f64> = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let [before, after] = [before, after]
            .map(|values| median((0..values.len()).map(|_| values[random.below(values.len())])).expect("there are rounds"));
        if before > 0.0 {
            quotients.push(after / before);
        }
    }
    quotients.sort_by(f64::total_cmp);
    let at = |part: f64| quotients.get(((quotients.len() as f64 - 1.0) * part).round() as usize).copied();
    at(0.025).zip(at(0.975))
}

/// What differs between the runs beside what they measured.
fn differences(before: &[Row], after: &[Row]) -> Vec<String> {
    type Field = fn(&Row) -> &String;
    let fields: [(&str, Field); 3] =
        [("machine", |row| &row.machine), ("kernel", |row| &row.kernel), ("commit", |row| &row.commit)];
    let of = |rows: &[Row], field: Field| rows.first().map(|row| field(row).clone()).unwrap_or_default();
    let lines = fields.into_iter().map(|(name, field)| (name, of(before, field), of(after, field)));
    lines
        .filter(|(_, before, after)| before != after)
        .map(|(name, before, after)| format!("{name}: {before} before, {after} after"))
        .collect()
}

fn table(pairs: &[Pair], alone: usize, differences: &[String]) -> String {
    let mut text = String::new();
    let mut line = |words: std::fmt::Arguments<'_>| writeln!(text, "{words}").expect("a String takes everything");
    for difference in differences {
        line(format_args!("{difference}"));
    }
    line(format_args!(
        "{:<12} {:<34} {:<12} {:<7} {:>12} {:>12} {:>7}  {:<14} {:<8} unit",
        "scenario", "point", "target", "wire", "before", "after", "ratio", "95 %", ""
    ));
    for pair in pairs {
        let interval = pair.interval.map_or("-".to_string(), |(least, most)| format!("{least:.3} {most:.3}"));
        let verdict = match pair.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::Same | Verdict::Unknown => "",
        };
        line(format_args!(
            "{:<12} {:<34} {:<12} {:<7} {:>12.3} {:>12.3} {:>7.3}  {:<14} {:<8} {}",
            pair.scenario,
            pair.point,
            pair.target,
            pair.wire,
            pair.before,
            pair.after,
            pair.quotient,
            interval,
            verdict,
            pair.unit
        ));
    }
    let count = |verdict: Verdict| pairs.iter().filter(|pair| pair.verdict == verdict).count();
    line(format_args!(
        "{} points: {} better, {} worse, {} without a difference, {} without an interval; {alone} not in both, or zero",
        pairs.len(),
        count(Verdict::Better),
        count(Verdict::Worse),
        count(Verdict::Same),
        count(Verdict::Unknown)
    ));
    text
}

#[cfg(test)]
mod tests;
