//! Reads a configuration file and the environment against the table of keys.

use std::ffi::OsString;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::KEYS;
use super::rules::{self, Rules};
use super::value::{Value, Values};
use super::{ConfigError, Problem, profiles};

/// Read when no file is named and it exists.
pub const DEFAULT_PATH: &str = "/etc/ringway/ringway.toml";

/// Environment variables, as `std::env::vars_os` gives them.
pub type Environment = Vec<(OsString, OsString)>;

/// Where a value comes from that was set in the running service.
pub const SET: &str = "ringway config set";

/// A name that is further than this from every known one gets no suggestion.
const SUGGESTION_DISTANCE: f64 = 0.72;

/// Reads a configuration file, the environment, and what an operator has set in the running service, which goes before both.
pub(super) fn load(path: Option<&Path>, environment: Environment, set: Option<&str>) -> Result<Values, ConfigError> {
    let chosen = path.unwrap_or(Path::new(DEFAULT_PATH));
    let name = chosen.display().to_string();
    match std::fs::read_to_string(chosen) {
        Ok(text) => parse(&name, &text, environment, set),
        Err(error) if path.is_none() && error.kind() == std::io::ErrorKind::NotFound => parse(&name, "", environment, set),
        Err(error) => Err(ConfigError(vec![Problem { origin: name, text: format!("cannot be read: {error}") }])),
    }
}

pub(super) fn parse(name: &str, text: &str, environment: Environment, set: Option<&str>) -> Result<Values, ConfigError> {
    let mut reader = Reader { name, text, values: Values::defaults(), problems: Vec::new() };
    reader.text();
    reader.environment(environment);
    if let Some(text) = set {
        (reader.name, reader.text) = (SET, text);
        reader.text();
    }
    profiles::apply(&mut reader.values);
    if reader.problems.is_empty() { Ok(reader.values) } else { Err(ConfigError(reader.problems)) }
}

struct Reader<'a> {
    name: &'a str,
    text: &'a str,
    values: Values,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn text(&mut self) {
        match DeTable::parse(self.text) {
            Ok(document) => self.document(document.get_ref()),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                self.complain(at, error.message().to_owned());
            }
        }
    }

    fn document(&mut self, document: &DeTable<'_>) {
        for (section, content) in document {
            let name: &str = section.get_ref();
            let at = section.span().start;
            if name == rules::SECTION {
                self.rules(at, content.get_ref());
                continue;
            }
            if !sections().any(|known| known == name) {
                self.complain(at, unknown("section", &format!("[{name}]"), suggestion(name, sections())));
                continue;
            }
            match content.get_ref() {
                DeValue::Table(table) => self.section(name, table),
                _ => self.complain(at, format!("{name:?} is a section; write [{name}] and its keys below")),
            }
        }
    }

    /// Rules of a later text take the place of those of an earlier one.
    fn rules(&mut self, at: usize, content: &DeValue<'_>) {
        let DeValue::Array(tables) = content else {
            return self.complain(at, "rules are a list; write [[rule]] before each".to_owned());
        };
        let mut read = Rules::default();
        for table in tables {
            let at = table.span().start;
            let rule = table.get_ref().as_table().ok_or_else(|| "a rule is a table".to_owned());
            match rule.and_then(|rule| rules::read(rule, self.origin(at))) {
                Ok(rule) => read.push(rule),
                Err(text) => self.complain(at, text),
            }
        }
        self.values.rules = read;
    }

    fn section(&mut self, section: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let name: &str = key.get_ref();
            let path = format!("{section}.{name}");
            let at = key.span().start;
            match KEYS.iter().position(|known| known.path == path) {
                Some(index) => self.set(index, at, value),
                None => {
                    let suggested = suggest_key(section, name);
                    self.complain(at, unknown("key", &path, suggested));
                }
            }
        }
    }

    fn set(&mut self, index: usize, at: usize, value: &Spanned<DeValue<'_>>) {
        let key = &KEYS[index];
        match plain(value.get_ref()).and_then(|value| key.check(value)) {
            Ok(value) => {
                let origin = self.origin(at);
                self.values.set(index, value, origin);
            }
            Err(text) => self.complain(at, format!("{}: {text}", key.path)),
        }
    }

    /// `RINGWAY_SECTION_KEY=value`; other `RINGWAY_` names are not configuration.
    fn environment(&mut self, environment: Environment) {
        for (variable, text) in environment {
            let Some(name) = variable.to_str().and_then(|variable| variable.strip_prefix("RINGWAY_")) else { continue };
            let name = name.to_ascii_lowercase();
            let Some((section, rest)) = sections().find_map(|section| {
                let rest = name.strip_prefix(section)?.strip_prefix('_')?;
                Some((section, rest))
            }) else {
                continue;
            };
            let origin = format!("RINGWAY_{}", name.to_ascii_uppercase());
            let Some(index) = KEYS.iter().position(|key| key.section() == section && key.name() == rest) else {
                let text = unknown("key", &format!("{section}.{rest}"), suggest_key(section, rest));
                self.problems.push(Problem { origin, text });
                continue;
            };
            match text.to_str().ok_or_else(|| "is not UTF-8".to_owned()).and_then(|text| KEYS[index].read(text)) {
                Ok(value) => self.values.set(index, value, origin),
                Err(text) => self.problems.push(Problem { origin, text: format!("{}: {text}", KEYS[index].path) }),
            }
        }
    }

    fn complain(&mut self, at: usize, text: String) {
        let origin = self.origin(at);
        self.problems.push(Problem { origin, text });
    }

    fn origin(&self, at: usize) -> String {
        if self.name == SET {
            return SET.to_owned();
        }
        let line = 1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        format!("{}:{line}", self.name)
    }
}

/// A value without its place.
fn plain(value: &DeValue<'_>) -> Result<Value, String> {
    match value {
        DeValue::Boolean(flag) => Ok(Value::Flag(*flag)),
        DeValue::String(text) => Ok(Value::Text(text.to_string())),
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix())
            .map(Value::Number)
            .map_err(|_| format!("{} is not a whole number from 0 to 2^64 - 1", number.as_str())),
        DeValue::Array(items) => {
            let texts: Option<Vec<String>> = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect();
            texts.map(Value::Texts).ok_or_else(|| "is a list of something else than texts".to_owned())
        }
        other => Err(format!("a {} cannot stand here", other.type_str())),
    }
}

pub(super) fn unknown(what: &str, name: &str, suggestion: Option<String>) -> String {
    match suggestion {
        Some(suggestion) => format!("unknown {what} {name}; did you mean {suggestion}?"),
        None => format!("unknown {what} {name}; \"ringway config show\" prints all"),
    }
}

/// The closest key of the same section, else the same or a close name in another.
fn suggest_key(section: &str, name: &str) -> Option<String> {
    let here = suggestion(name, KEYS.iter().filter(|key| key.section() == section).map(|key| key.name()));
    if let Some(here) = here {
        return Some(format!("{section}.{here}"));
    }
    let elsewhere = suggestion(name, KEYS.iter().map(|key| key.name()))?;
    KEYS.iter().find(|key| key.name() == elsewhere).map(|key| key.path.to_owned())
}

pub(super) fn suggestion<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let scored = known.map(|candidate| (strsim::jaro_winkler(name, candidate), candidate));
    let (score, best) = scored.max_by(|left, right| left.0.total_cmp(&right.0))?;
    (score >= SUGGESTION_DISTANCE).then(|| best.to_owned())
}

/// Section names in the table's order.
fn sections() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    KEYS.iter().map(|key| key.section()).filter(move |section| std::mem::replace(&mut last, section) != *section)
}
