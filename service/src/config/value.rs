//! Values of configuration keys, and where each came from.

use std::fmt;

use ringway_shm::Duration;

use super::keys::{KEYS, Key, Kind};
use super::rules::{Rules, SECTION};

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`.
    Flag(bool),
    /// A count, a size, a time; the key's name ends in the unit.
    Number(u64),
    /// `"auto"` where a number could stand.
    Auto,
    /// A text.
    Text(String),
    /// One text or a list of them.
    Texts(Vec<String>),
}

/// Written as TOML.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Auto => f.write_str("\"auto\""),
            Value::Text(text) => f.write_str(&quote(text)),
            Value::Texts(texts) => {
                let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
                write!(f, "[{}]", quoted.join(", "))
            }
        }
    }
}

/// A TOML basic string (escapes as TOML 1.0 wants them).
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// The values of all keys, in the order of [`KEYS`].
#[derive(Clone, Debug)]
pub(super) struct Values {
    entries: Vec<Entry>,
    pub(super) rules: Rules,
}

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    /// `None`: the default.
    origin: Option<String>,
}

impl Values {
    /// Every key at its default.
    pub(super) fn defaults() -> Values {
        let entries = KEYS.iter().map(|key| Entry { value: key.default_value(), origin: None }).collect();
        Values { entries, rules: Rules::default() }
    }

    pub(super) fn set(&mut self, index: usize, value: Value, origin: String) {
        self.entries[index] = Entry { value, origin: Some(origin) };
    }

    /// Sets what nothing has set yet.
    pub(super) fn set_default(&mut self, index: usize, value: Value, origin: String) {
        if self.entries[index].origin.is_none() {
            self.set(index, value, origin);
        }
    }

    /// These values, with those of `keys` from another set.
    pub(super) fn with(&self, other: &Values, keys: &[&str]) -> Values {
        let pick = |(key, (own, theirs)): (&Key, (&Entry, &Entry))| if keys.contains(&key.path) { theirs } else { own }.clone();
        let rules = if keys.contains(&SECTION) { &other.rules } else { &self.rules }.clone();
        Values { entries: KEYS.iter().zip(self.entries.iter().zip(&other.entries)).map(pick).collect(), rules }
    }

    /// All keys with value and origin.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static Key, &Value, Option<&str>)> {
        KEYS.iter().zip(&self.entries).map(|(key, entry)| (key, &entry.value, entry.origin.as_deref()))
    }

    pub(super) fn changed(&self) -> Vec<(&'static str, &Value)> {
        self.iter().filter(|(key, value, _)| **value != key.default_value()).map(|(key, value, _)| (key.path, value)).collect()
    }

    pub(super) fn origin(&self, path: &str) -> &str {
        self.entry(path).origin.as_deref().unwrap_or("default")
    }

    pub(super) fn flag(&self, path: &str) -> bool {
        match self.entry(path).value {
            Value::Flag(flag) => flag,
            ref other => unreachable!("{path} is a flag in the table, not {other:?}"),
        }
    }

    pub(super) fn number(&self, path: &str) -> u64 {
        match self.entry(path).value {
            Value::Number(number) => number,
            ref other => unreachable!("{path} is a number in the table, not {other:?}"),
        }
    }

    pub(super) fn auto_number(&self, path: &str) -> Option<u64> {
        match self.entry(path).value {
            Value::Auto => None,
            _ => Some(self.number(path)),
        }
    }

    pub(super) fn u32(&self, path: &str) -> u32 {
        u32::try_from(self.number(path)).expect("the table's range fits")
    }

    pub(super) fn u16(&self, path: &str) -> u16 {
        u16::try_from(self.number(path)).expect("the table's range fits")
    }

    pub(super) fn u8(&self, path: &str) -> u8 {
        u8::try_from(self.number(path)).expect("the table's range fits")
    }

    pub(super) fn millis(&self, path: &str) -> Duration {
        Duration::from_millis(self.number(path))
    }

    pub(super) fn text(&self, path: &str) -> &str {
        match &self.entry(path).value {
            Value::Text(text) => text,
            other => unreachable!("{path} is a text in the table, not {other:?}"),
        }
    }

    pub(super) fn texts(&self, path: &str) -> &[String] {
        match &self.entry(path).value {
            Value::Texts(texts) => texts,
            other => unreachable!("{path} is a list in the table, not {other:?}"),
        }
    }

    fn entry(&self, path: &str) -> &Entry {
        let index = KEYS.iter().position(|key| key.path == path).expect("only keys of the table are asked for");
        &self.entries[index]
    }
}

impl Key {
    /// The default.
    pub fn default_value(&self) -> Value {
        match self.kind {
            Kind::Flag { default } => Value::Flag(default),
            Kind::Number { default, .. } => Value::Number(default),
            Kind::AutoNumber { .. } => Value::Auto,
            Kind::Choice { default, .. } | Kind::Text { default } => Value::Text(default.to_owned()),
            Kind::Address { .. } => Value::Text(String::new()),
            Kind::Texts { default } => Value::Texts(default.iter().map(|text| (*text).to_owned()).collect()),
        }
    }

    /// Checks that `value` may stand here.
    ///
    /// # Errors
    /// The text of the right values.
    pub fn check(&self, value: Value) -> Result<Value, String> {
        match (self.kind, value) {
            (Kind::Flag { .. }, Value::Flag(flag)) => Ok(Value::Flag(flag)),
            (Kind::Number { min, max, .. } | Kind::AutoNumber { min, max }, Value::Number(number)) => {
                if (min..=max).contains(&number) {
                    Ok(Value::Number(number))
                } else {
                    Err(format!("{number} is out of range, {}", self.expected()))
                }
            }
            (Kind::AutoNumber { .. }, Value::Text(text)) if text == "auto" => Ok(Value::Auto),
            (Kind::Choice { choices, .. }, Value::Text(text)) if choices.contains(&text.as_str()) => Ok(Value::Text(text)),
            (Kind::Text { .. }, Value::Text(text)) => Ok(Value::Text(text)),
            (Kind::Address { prefix }, Value::Text(text)) if is_address(&text, prefix) => Ok(Value::Text(text)),
            (Kind::Texts { .. }, Value::Text(text)) if !text.is_empty() => Ok(Value::Texts(vec![text])),
            (Kind::Texts { .. }, Value::Texts(texts)) if !texts.is_empty() => Ok(Value::Texts(texts)),
            (_, value) => Err(format!("{value} cannot stand here, {}", self.expected())),
        }
    }

    /// Reads the text of an environment variable; a list is separated by commas.
    ///
    /// # Errors
    /// The text of the right values.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let value = match self.kind {
            Kind::Flag { .. } => match text {
                "true" | "1" | "yes" | "on" => Value::Flag(true),
                "false" | "0" | "no" | "off" => Value::Flag(false),
                _ => return Err(format!("{text:?} cannot stand here, {}", self.expected())),
            },
            Kind::Number { .. } | Kind::AutoNumber { .. } => match text.parse() {
                Ok(number) => Value::Number(number),
                Err(_) => Value::Text(text.to_owned()),
            },
            Kind::Choice { .. } | Kind::Text { .. } | Kind::Address { .. } => Value::Text(text.to_owned()),
            Kind::Texts { .. } => Value::Texts(text.split(',').map(|part| part.trim().to_owned()).collect()),
        };
        self.check(value)
    }

    /// Returns the values that may stand here, in words.
    pub fn expected(&self) -> String {
        match self.kind {
            Kind::Flag { .. } => "true or false".to_owned(),
            Kind::Number { min, max, .. } => format!("{min} to {max}"),
            Kind::AutoNumber { min, max } => format!("\"auto\" or {min} to {max}"),
            Kind::Choice { choices, .. } => {
                let quoted: Vec<String> = choices.iter().map(|choice| format!("\"{choice}\"")).collect();
                quoted.join(" or ")
            }
            Kind::Text { .. } => "a text".to_owned(),
            Kind::Address { prefix: true } => "an address with prefix length as \"10.0.0.2/24\", or \"\"".to_owned(),
            Kind::Address { prefix: false } => "an address as \"10.0.0.1\", or \"\"".to_owned(),
            Kind::Texts { .. } => "a text or a list of texts".to_owned(),
        }
    }
}

fn is_address(text: &str, prefix: bool) -> bool {
    match (text, prefix) {
        ("", _) => true,
        (text, true) => super::parse_cidr(text).is_some(),
        (text, false) => text.parse::<std::net::IpAddr>().is_ok(),
    }
}
