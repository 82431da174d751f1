//! Measures whether the stack or the kernel carries bulk data of a program at the higher rate, and notes it for `policy.bulk = "auto"`.

use std::path::Path;
use std::process::Command;

use ringway_service::config::BulkChoice;
use ringway_service::measured::Measured;
use serde_json::{Value, json};

use super::report::Report;

/// 2 MiB replies and requests on one connection, each target in turn.
const BENCH: &[&str] = &[
    "bench",
    "bulk",
    "--target",
    "linux,preload,preload-bulk",
    "--size",
    "2M",
    "--connections",
    "1",
    "--rounds",
    "3",
    "--seconds",
    "0.5",
    "--patience",
    "2",
    "--json",
];
/// What the way to the kernel must gain: less is noise, and small messages of the same connection would lose.
const GAIN: f64 = 1.05;

/// The ratios to the kernel of one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Direction {
    stack: f64,
    handed_over: f64,
}

impl Direction {
    fn gains(self) -> bool {
        self.handed_over >= self.stack * GAIN
    }
}

/// Measures, reports, and writes down what is faster.
pub(super) fn measure(report: &mut Report) {
    let rows = match rows() {
        Ok(rows) => rows,
        Err(error) => return report.warn("measured bulk", error, "run as root"),
    };
    let (Some(sent), Some(received)) = (direction(&rows, "download"), direction(&rows, "upload")) else {
        return report.warn("measured bulk", "the measurement gave no ratios".to_owned(), "ringway bench bulk --size 2M");
    };
    let choice = choose(sent, received);
    let text = |name: &str, Direction { stack, handed_over }: Direction| {
        format!("{name} {stack:.2} of the kernel's rate in the stack, {handed_over:.2} when handed over to the kernel")
    };
    report.ok("measured bulk", format!("a program's 2 MiB, {}; {}", text("sent:", sent), text("received:", received)));
    let word = choice.word();
    report.detail(
        "bulk",
        json!({
            "sent": { "stack": sent.stack, "handed_over": sent.handed_over },
            "received": { "stack": received.stack, "handed_over": received.handed_over },
            "choice": word,
        }),
    );
    remember(choice, &Measured::path(), report);
}

fn remember(choice: BulkChoice, path: &Path, report: &mut Report) {
    let word = choice.word();
    match (Measured { bulk: choice }).write(path) {
        Ok(()) => {
            report.ok("policy.bulk", format!("\"auto\" is \"{word}\" for services that start from now on ({})", path.display()))
        }
        Err(error) => {
            report.warn("policy.bulk", format!("{}: {error}; \"{word}\" would be the choice", path.display()), "run as root");
        }
    }
}

fn choose(sent: Direction, received: Direction) -> BulkChoice {
    match (sent.gains(), received.gains()) {
        (true, true) => BulkChoice::Kernel,
        (true, false) => BulkChoice::Sent,
        (false, _) => BulkChoice::Stack,
    }
}

fn rows() -> Result<Vec<Value>, String> {
    let ringway = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(ringway).args(BENCH).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(words.lines().last().unwrap_or("ringway bench failed").to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The ratios of `direction` among the rows; `None`: one is not there.
fn direction(rows: &[Value], direction: &str) -> Option<Direction> {
    let ratio = |target: &str| {
        let row = rows.iter().find(|row| row["target"] == target && row["parameters"]["direction"] == direction)?;
        row["ratio"].as_f64()
    };
    Some(Direction { stack: ratio("preload")?, handed_over: ratio("preload-bulk")? })
}

#[cfg(test)]
mod tests;
