//! The results of the checks, as lines of text or one JSON object.

use serde_json::{Value, json};

/// Severity of a check's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Status {
    /// Information only: not tried here.
    Note,
    /// No problem.
    #[default]
    Ok,
    /// Ringway works, but something is missing or could be better.
    Warn,
    /// Must be fixed before Ringway works.
    Fail,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Status::Note => "NOTE",
            Status::Ok => "OK",
            Status::Warn => "WARN",
            Status::Fail => "FAIL",
        }
    }
}

/// What `--fix` can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair {
    /// Load the module of `/dev/net/tun`.
    LoadTun,
    /// Remove what dead services left.
    RemoveLeftovers,
}

struct Check {
    status: Status,
    name: String,
    text: String,
    /// The command or setting that fixes it; empty: none.
    fix: String,
    repair: Option<Repair>,
}

/// All results.
#[derive(Default)]
pub(super) struct Report {
    checks: Vec<Check>,
    /// Further lists of the JSON report.
    details: Vec<(&'static str, Vec<Value>)>,
}

impl Report {
    pub(super) fn note(&mut self, name: &str, text: String) {
        self.add(Status::Note, name, text, "");
    }

    pub(super) fn ok(&mut self, name: &str, text: String) {
        self.add(Status::Ok, name, text, "");
    }

    pub(super) fn warn(&mut self, name: &str, text: String, fix: &str) {
        self.add(Status::Warn, name, text, fix);
    }

    pub(super) fn fail(&mut self, name: &str, text: String, fix: &str) {
        self.add(Status::Fail, name, text, fix);
    }

    pub(super) fn add(&mut self, status: Status, name: &str, text: String, fix: &str) {
        self.checks.push(Check { status, name: name.to_owned(), text, fix: fix.to_owned(), repair: None });
    }

    /// Says that `--fix` can do something about the last result.
    pub(super) fn may_repair(&mut self, repair: Repair) {
        if let Some(check) = self.checks.last_mut() {
            check.repair = Some(repair);
        }
    }

    /// The repairs that are possible, each once.
    pub(super) fn repairs(&self) -> Vec<Repair> {
        let mut repairs: Vec<Repair> = Vec::new();
        for repair in self.checks.iter().filter_map(|check| check.repair) {
            if !repairs.contains(&repair) {
                repairs.push(repair);
            }
        }
        repairs
    }

    /// Adds an object to the list `list` of the JSON report.
    pub(super) fn detail(&mut self, list: &'static str, value: Value) {
        match self.details.iter_mut().find(|(name, _)| *name == list) {
            Some((_, values)) => values.push(value),
            None => self.details.push((list, vec![value])),
        }
    }

    pub(super) fn worst(&self) -> Status {
        self.checks.iter().map(|check| check.status).max().unwrap_or_default()
    }

    /// Formats one line per check, and one for its fix.
    pub(super) fn text(&self) -> String {
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
        let line = |check: &Check| {
            let fix = if check.fix.is_empty() { String::new() } else { format!("\n      {:width$}  fix: {}", "", check.fix) };
            format!("{:4}  {:width$}  {}{fix}\n", check.status.word(), check.name, check.text.replace('\n', "; "))
        };
        self.checks.iter().map(line).collect()
    }

    /// Formats one JSON object.
    pub(super) fn json(&self) -> String {
        let check =
            |check: &Check| json!({"status": check.status.word(), "name": check.name, "text": check.text, "fix": check.fix});
        let checks: Vec<Value> = self.checks.iter().map(check).collect();
        let mut object = json!({"status": self.worst().word(), "checks": checks});
        for (name, values) in &self.details {
            object[name] = Value::Array(values.clone());
        }
        format!("{object}\n")
    }
}

#[cfg(test)]
mod tests;
