//! From text to events.

use super::packet::{self, Line};

/// When something is to happen, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// From the start of the script.
    At(u64),
    /// After the event before.
    After(u64),
    /// Somewhere between; whether both count from the event before.
    Between(u64, u64, bool),
    Any,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Inbound(Line),
    Outbound(Line),
    /// A call; how long it may block, from its start or from the script's start as `When` is.
    Call(String, Option<u64>),
    Assert(String),
    Command(String),
}

#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) line: usize,
    pub(super) when: When,
    pub(super) action: Action,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    pub(super) events: Vec<Event>,
    /// How far from its time a thing may happen, microseconds.
    pub(super) tolerance_us: u64,
    pub(super) mtu: u16,
}

pub(super) fn parse(text: &str) -> Result<Script, String> {
    let mut script = Script { tolerance_us: 4_000, mtu: 1_500, events: Vec::new() };
    let text = without_comments(text);
    let mut lines = text.lines().enumerate();
    while let Some((number, first)) = lines.next() {
        let mut whole = first.trim().to_string();
        if whole.is_empty() {
            continue;
        }
        while !is_whole(&whole) {
            let (_, next) = lines.next().ok_or_else(|| format!("{}: it does not end: {whole}", number + 1))?;
            whole = whole + "\n" + next.trim();
        }
        let error = |what: String| format!("{}: {what}: {whole}", number + 1);
        if let Some(option) = whole.strip_prefix("--") {
            read_option(&mut script, option);
        } else {
            script.events.push(read_event(number + 1, &whole).map_err(error)?);
        }
    }
    Ok(script)
}

/// Comments become spaces; what stands in quotes and in backticks stays.
fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    let mut quoted = false;
    while let Some(first) = rest.chars().next() {
        if matches!(first, '"' | '`') {
            quoted = !quoted;
        }
        let end = match rest {
            _ if quoted => None,
            _ if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
            _ if rest.starts_with("/*") => Some(rest.find("*/").map_or(rest.len(), |at| at + 2)),
            _ => None,
        };
        match end {
            Some(end) => {
                out.extend(rest[..end].chars().filter(|c| *c == '\n'));
                rest = &rest[end..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

fn is_whole(text: &str) -> bool {
    if text.matches('`').count() % 2 == 1 {
        return false;
    }
    if text.contains("%{") {
        return text.contains("}%");
    }
    let is_packet = text.split_whitespace().nth(1).is_some_and(|word| matches!(word, "<" | ">"));
    is_packet || text.contains('`') || text.matches('(').count() <= text.matches(')').count()
}

fn read_option(script: &mut Script, option: &str) {
    let Some((name, value)) = option.split_once('=') else { return };
    match name.trim() {
        "tolerance_usecs" => script.tolerance_us = value.trim().parse().unwrap_or(script.tolerance_us),
        "mtu" => script.mtu = value.trim().parse().unwrap_or(script.mtu),
        _ => {}
    }
}

fn read_event(line: usize, text: &str) -> Result<Event, String> {
    if let Some(command) = text.strip_prefix('`') {
        let command = command.trim_end_matches('`').to_string();
        return Ok(Event { line, when: When::After(0), action: Action::Command(command) });
    }
    let (time, rest) = text.split_once(char::is_whitespace).ok_or("nothing after the time")?;
    let (when, until) = read_time(time).ok_or("not a time")?;
    let rest = rest.trim();
    let action = match rest.chars().next() {
        Some('<') => Action::Inbound(packet::read(&rest[1..])?),
        Some('>') => Action::Outbound(packet::read(&rest[1..])?),
        Some('%') => Action::Assert(rest.trim_start_matches("%{").trim_end_matches("}%").to_string()),
        Some('`') => Action::Command(rest.trim_matches('`').to_string()),
        _ => Action::Call(rest.to_string(), until),
    };
    Ok(Event { line, when, action })
}

fn read_time(text: &str) -> Option<(When, Option<u64>)> {
    if text == "*" {
        return Some((When::Any, None));
    }
    let relative = text.starts_with('+');
    let point = |text: &str| seconds(text.trim_start_matches('+'));
    if let Some((from, to)) = text.split_once("...") {
        let at = point(from)?;
        return Some((if relative { When::After(at) } else { When::At(at) }, Some(point(to)?)));
    }
    if let Some((from, to)) = text.split_once('~') {
        return Some((When::Between(point(from)?, point(to)?, relative), None));
    }
    let at = point(text)?;
    Some((if relative { When::After(at) } else { When::At(at) }, None))
}

/// Decimal seconds as microseconds.
fn seconds(text: &str) -> Option<u64> {
    let value: f64 = text.parse().ok()?;
    (0.0..=1e9).contains(&value).then(|| (value * 1e6).round() as u64)
}
