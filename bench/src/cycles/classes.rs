//! The eight classes of CPU time, and the class of a call chain.
//!
//! Promises: the table is data (`symbols.toml`) and the first matching rule decides. A function that no
//! rule names takes the class of its nearest named caller. When that caller's class is "other", such as the
//! entry of a system call or interrupt at the end of every chain, the sample is unmapped, never guessed.
//! Does not do: separate inlined functions.

use serde::Deserialize;

use super::script::Frame;

/// Class of CPU time.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(super) enum Class {
    #[serde(rename = "data copy")]
    DataCopy,
    #[serde(rename = "TCP/IP")]
    TcpIp,
    #[serde(rename = "device")]
    Device,
    #[serde(rename = "buffer management")]
    BufferManagement,
    #[serde(rename = "memory")]
    Memory,
    #[serde(rename = "lock")]
    Lock,
    #[serde(rename = "scheduling")]
    Scheduling,
    /// System call entry, files, and the application itself.
    #[serde(rename = "other")]
    Other,
    /// No work: not part of any share.
    #[serde(rename = "idle")]
    Idle,
}

/// The eight classes, in the paper's order.
pub(super) const CLASSES: [Class; 8] = [
    Class::DataCopy,
    Class::TcpIp,
    Class::Device,
    Class::BufferManagement,
    Class::Memory,
    Class::Lock,
    Class::Scheduling,
    Class::Other,
];

impl Class {
    /// The name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Class::DataCopy => "data copy",
            Class::TcpIp => "TCP/IP",
            Class::Device => "device",
            Class::BufferManagement => "buffer management",
            Class::Memory => "memory",
            Class::Lock => "lock",
            Class::Scheduling => "scheduling",
            Class::Other => "other",
            Class::Idle => "idle",
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    class: Class,
    #[serde(rename = "in")]
    place: Place,
    symbols: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Place {
    Kernel,
    User,
    /// Patterns of files instead of functions.
    Program,
}

/// The rules of `symbols.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    rule: Vec<Rule>,
}

const TEXT: &str = include_str!("symbols.toml");

impl Table {
    /// Loads the compiled-in table.
    pub(super) fn load() -> Table {
        toml::from_str(TEXT).expect("a test reads the same text")
    }

    /// The class of a call chain, innermost function first; `None` when no rule decides.
    pub(super) fn class_of(&self, chain: &[Frame]) -> Option<Class> {
        let (leaf, callers) = chain.split_first()?;
        self.class_of_frame(leaf).or_else(|| {
            let nearest = callers.iter().find_map(|frame| self.class_of_frame(frame));
            nearest.filter(|class| *class != Class::Other)
        })
    }

    fn class_of_frame(&self, frame: &Frame) -> Option<Class> {
        let decides = |rule: &&Rule| match rule.place {
            Place::Kernel => frame.is_kernel() && rule.names(&frame.symbol),
            Place::User => !frame.is_kernel() && rule.names(&frame.symbol),
            Place::Program => !frame.is_kernel() && rule.names(&frame.file),
        };
        self.rule.iter().find(decides).map(|rule| rule.class)
    }
}

impl Rule {
    fn names(&self, text: &str) -> bool {
        self.symbols.iter().any(|pattern| matches(pattern, text))
    }
}

/// Returns true when a text matches a pattern in which `*` matches any text, also none.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().expect("split yields one part at least");
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
