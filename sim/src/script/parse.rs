//! Converts a script's text to events.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::packet::{self, Line};

/// Time of an event, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// From the start of the script.
    At(u64),
    /// After the event before.
    After(u64),
    Between {
        from: u64,
        to: u64,
        /// Both count from the event before.
        relative: bool,
    },
    Any,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Inbound(Line),
    Outbound(Line),
    /// A call, and the time at which it may block no longer, counted from its start or from the script's start as in `When`.
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

/// Value of the stock tool's `--ip_version`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// AF_INET
    #[default]
    Ipv4,
    /// Sockets of AF_INET6 with addresses of IPv4.
    Mapped,
    /// AF_INET6. The link takes 20 bytes more, so that segments are as large as with IPv4.
    Ipv6,
}

impl Family {
    /// Returns the address to which a script's sockets are bound.
    pub(super) fn local(self) -> SocketAddr {
        let ip = match self {
            Family::Ipv6 => IpAddr::V6(Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1)),
            _ => IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)),
        };
        SocketAddr::new(ip, 8_080)
    }

    /// Returns the address to which they connect.
    pub(super) fn remote(self) -> SocketAddr {
        let ip = match self {
            Family::Ipv6 => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
            _ => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        };
        SocketAddr::new(ip, 8_080)
    }

    /// Returns the domain for socket(2).
    pub(super) fn domain(self) -> i32 {
        if self == Family::Ipv4 { libc::AF_INET } else { libc::AF_INET6 }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    pub(super) family: Family,
    pub(super) events: Vec<Event>,
    /// Allowed deviation from an event's time, microseconds.
    pub(super) tolerance_us: u64,
    pub(super) mtu: u16,
}

/// Parses a script; `family` applies unless the script names another.
pub(super) fn parse(text: &str, family: Family) -> Result<Script, String> {
    let mut script = Script { family, tolerance_us: 4_000, mtu: 0, events: Vec::new() };
    let text = without_comments(text);
    let mut lines = text.lines().enumerate();
    while let Some((number, first)) = lines.next() {
        let mut whole = first.trim().to_string();
        if whole.is_empty() {
            continue;
        }
        while !is_whole(&whole) {
            let (_, next) = lines.next().ok_or_else(|| format!("{}: unterminated: {whole}", number + 1))?;
            whole = whole + "\n" + next.trim();
        }
        let error = |what: String| format!("{}: {what}: {whole}", number + 1);
        if let Some(option) = whole.strip_prefix("--") {
            read_option(&mut script, option);
        } else {
            script.events.push(read_event(number + 1, &whole).map_err(error)?);
        }
    }
    if script.mtu == 0 {
        script.mtu = if script.family == Family::Ipv6 { 1_520 } else { 1_500 };
    }
    Ok(script)
}

/// Replaces comments by spaces, except in quotes and backticks.
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
    let is_packet = text.split_whitespace().take(4).any(|word| matches!(word, "<" | ">"));
    is_packet || text.contains('`') || text.matches('(').count() <= text.matches(')').count()
}

fn read_option(script: &mut Script, option: &str) {
    let Some((name, value)) = option.split_whitespace().next().unwrap_or("").split_once('=') else { return };
    match name.trim() {
        "tolerance_usecs" => script.tolerance_us = value.trim().parse().unwrap_or(script.tolerance_us),
        "ip_version" => {
            script.family = match value.trim() {
                "ipv6" => Family::Ipv6,
                "ipv4-mapped-ipv6" => Family::Mapped,
                _ => Family::Ipv4,
            }
        }
        "mtu" => script.mtu = value.trim().parse().unwrap_or(script.mtu),
        _ => {}
    }
}

fn read_event(line: usize, text: &str) -> Result<Event, String> {
    if let Some(command) = text.strip_prefix('`') {
        let command = command.trim_end_matches('`').to_string();
        return Ok(Event { line, when: When::After(0), action: Action::Command(command) });
    }
    let text = &joined(text);
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

/// Removes the spaces from a range of times.
fn joined(text: &str) -> String {
    let words: Vec<&str> = text.splitn(4, char::is_whitespace).collect();
    match words[..] {
        [from, sign @ ("..." | "~"), to, rest] => format!("{from}{sign}{to} {rest}"),
        [from, to, rest, more] if to.starts_with("...") || to.starts_with('~') => format!("{from}{to} {rest} {more}"),
        _ => text.to_string(),
    }
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
        return Some((When::Between { from: point(from)?, to: point(to)?, relative }, None));
    }
    let at = point(text)?;
    Some((if relative { When::After(at) } else { When::At(at) }, None))
}

/// Reads decimal seconds as microseconds.
fn seconds(text: &str) -> Option<u64> {
    let value: f64 = text.parse().ok()?;
    (0.0..=1e9).contains(&value).then(|| (value * 1e6).round() as u64)
}
