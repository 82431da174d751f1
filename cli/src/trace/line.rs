//! The form of a trace: a line of text for each segment and one for what it changed, or one JSON object.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use ringway_shm::capture::Direction;
use ringway_trace::segment::{ACK, AE, CWR, ECE, FIN, PSH, RST, SYN, Segment, URG};
use serde_json::{Map, Value, json};

use super::follow::{Captured, Seen};
use super::state;

/// Width of the column of segments: a longer one moves what follows.
const SEGMENT_WIDTH: usize = 60;
const NANOS_PER_MICROSECOND: u64 = 1_000;
const MICROSECONDS: u64 = 1_000_000;

/// See the module's text.
pub(super) struct Lines {
    json: bool,
    /// Time of the first segment.
    start: Option<u64>,
    /// A segment of another connection than the first has come.
    several: bool,
}

impl Lines {
    pub(super) fn new(json: bool) -> Lines {
        Lines { json, start: None, several: false }
    }

    /// Appends the lines of a segment.
    pub(super) fn add(&mut self, captured: &Captured<'_>, seen: &Seen, to: &mut String) {
        if self.json {
            to.push_str(&object(captured, seen).to_string());
            return to.push('\n');
        }
        let start = *self.start.get_or_insert(captured.nanos);
        self.several |= seen.connection > 1;
        let flow = &captured.flow;
        if seen.is_first {
            let number = seen.connection;
            put(to, format_args!("connection {number}: {} <> {}\n", end(flow.local), end(flow.remote)));
        }
        let micros = captured.nanos.saturating_sub(start) / NANOS_PER_MICROSECOND;
        let number = if self.several { format!(" #{}", seen.connection) } else { String::new() };
        let way = match captured.direction {
            Some(Direction::Received) => "<".to_owned(),
            Some(Direction::Sent) => ">".to_owned(),
            None => format!("{} >", flow.local.1),
        };
        let segment = segment_text(&captured.segment, seen);
        let (seconds, micros) = (micros / MICROSECONDS, micros % MICROSECONDS);
        put(to, format_args!("{seconds:>5}.{micros:06}{number} {way} {segment:SEGMENT_WIDTH$} {}\n", seen.why));
        if let Some(changes) = &seen.changes {
            put(to, format_args!("{:>15}{changes}\n", ""));
        }
    }
}

fn put(to: &mut String, text: std::fmt::Arguments<'_>) {
    to.write_fmt(text).expect("a string takes all");
}

fn end((ip, port): (IpAddr, u16)) -> SocketAddr {
    SocketAddr::new(ip, port)
}

/// tcpdump's letters.
fn flags(segment: &Segment<'_>) -> String {
    let letters = [(FIN, 'F'), (SYN, 'S'), (RST, 'R'), (PSH, 'P'), (ACK, '.'), (URG, 'U'), (ECE, 'E'), (CWR, 'W'), (AE, 'e')];
    let set: String = letters.iter().filter(|(flag, _)| segment.has(*flag)).map(|(_, letter)| letter).collect();
    if set.is_empty() { "none".to_owned() } else { set }
}

fn segment_text(segment: &Segment<'_>, seen: &Seen) -> String {
    let mut text = format!("[{}]", flags(segment));
    match segment.payload_len {
        0 if segment.len() > 0 => put(&mut text, format_args!(" seq {}", seen.sequence)),
        0 => {}
        len => put(&mut text, format_args!(" seq {}:{} ({len})", seen.sequence, seen.sequence.wrapping_add(len))),
    }
    if segment.has(ACK) {
        put(&mut text, format_args!(" ack {}", seen.acknowledgment));
    }
    put(&mut text, format_args!(" win {}", segment.window));
    for (from, to) in gaps(segment, seen) {
        put(&mut text, format_args!(" sack {from}:{to}"));
    }
    if segment.has(SYN) {
        let options = &segment.options;
        let values = [
            options.mss.map(|mss| format!("mss:{mss}")),
            options.window_scale.map(|shift| format!("wscale:{shift}")),
            options.sack_permitted.then(|| "sack".to_owned()),
            options.timestamps.map(|_| "ts".to_owned()),
        ];
        let values: Vec<String> = values.into_iter().flatten().collect();
        if !values.is_empty() {
            put(&mut text, format_args!(" <{}>", values.join(",")));
        }
    }
    text
}

/// The SACK blocks, counted as acknowledgments.
fn gaps<'a>(segment: &'a Segment<'_>, seen: &Seen) -> impl Iterator<Item = (u32, u32)> + 'a {
    let from = seen.acknowledged_from;
    segment.options.sack.iter().map(move |(left, right)| (left.wrapping_sub(from), right.wrapping_sub(from)))
}

fn object(captured: &Captured<'_>, seen: &Seen) -> Value {
    let segment = &captured.segment;
    let direction = captured.direction.map(|direction| if direction == Direction::Sent { "sent" } else { "received" });
    let number = |value: &str| value.parse::<u64>().map_or_else(|_| Value::from(value), Value::from);
    let state = captured
        .state
        .map(|text| state::words(text).map(|(name, value)| (name.to_owned(), number(value))).collect::<Map<_, _>>());
    json!({
        "time_ns": captured.nanos,
        "connection": seen.connection,
        "local": end(captured.flow.local).to_string(),
        "remote": end(captured.flow.remote).to_string(),
        "direction": direction,
        "flags": flags(segment),
        "seq": seen.sequence,
        "len": segment.payload_len,
        "ack": segment.has(ACK).then_some(seen.acknowledgment),
        "win": segment.window,
        "sack": gaps(segment, seen).map(|(from, to)| json!([from, to])).collect::<Vec<_>>(),
        "dropped": captured.dropped,
        "why": seen.why,
        "state": state,
    })
}
