//! Packets as a script writes them, and as bytes. Sequence numbers in a line are the script's own.

use ringway_stack::wire::checksum;
use std::net::{IpAddr, Ipv4Addr};

/// One TCP option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Mss(u16),
    SackPermitted,
    WindowScale(u8),
    Timestamp(u32, u32),
    Nop,
    End,
    Sack(Vec<(u32, u32)>),
    Other(u8, Vec<u8>),
}

/// An ICMP error: type, code, next-hop MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Icmp {
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) mtu: u16,
}

/// A packet's line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) icmp: Option<Icmp>,
    /// The two ECN bits of the IP header; `None`: not said.
    pub(super) ecn: Option<u8>,
    pub(super) flags: u8,
    pub(super) sequence: u32,
    pub(super) payload: usize,
    pub(super) acknowledgment: Option<u32>,
    pub(super) window: Option<u16>,
    pub(super) urgent: u16,
    /// `None`: `<...>`, whatever it may be.
    pub(super) options: Option<Vec<Choice>>,
}

pub(super) const FIN: u8 = 1;
pub(super) const PSH: u8 = 8;
pub(super) const SYN: u8 = 2;
pub(super) const ACK: u8 = 16;
const FLAGS: [(char, u8); 8] = [('F', 1), ('S', 2), ('R', 4), ('P', 8), ('.', 16), ('U', 32), ('E', 64), ('W', 128)];

/// Reads what follows the direction.
pub(super) fn read(text: &str) -> Result<Line, String> {
    let mut line = Line { options: Some(Vec::new()), ..Line::default() };
    let mut text = text.trim();
    if let Some((choices, before)) = text.find('<').map(|at| (text[at + 1..].trim_end_matches('>'), &text[..at])) {
        line.options = if choices.trim() == "..." { None } else { Some(read_options(choices)?) };
        text = before.trim();
    }
    if let Some((mark, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        line.ecn = match mark.trim() {
            "noecn" => Some(0),
            "ect1" => Some(1),
            "ect0" => Some(2),
            "ce" => Some(3),
            _ => None,
        };
        text = rest.trim();
    }
    let mut words = text.split_whitespace().peekable();
    if words.peek() == Some(&"icmp") {
        return read_icmp(line, words);
    }
    for letter in words.next().ok_or("no flags")?.chars().filter(|c| *c != '-') {
        line.flags |= FLAGS.iter().find(|(c, _)| *c == letter).ok_or_else(|| format!("no flag {letter}"))?.1;
    }
    (line.sequence, line.payload) = read_range(words.next().ok_or("no sequence numbers")?)?;
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("nothing after {word}"))?;
        let number: u64 = value.parse().map_err(|_| format!("{value} is not a number"))?;
        match word {
            "ack" => line.acknowledgment = Some(number as u32),
            "win" => line.window = Some(number as u16),
            "urg" => line.urgent = number as u16,
            _ => return Err(format!("what is {word}?")),
        }
    }
    Ok(line)
}

/// `first:last(length)`
fn read_range(text: &str) -> Result<(u32, usize), String> {
    let bad = || format!("{text} is not first:last(length)");
    let (first, rest) = text.split_once(':').ok_or_else(bad)?;
    let length = rest.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).ok_or_else(bad)?;
    Ok((first.parse::<u64>().map_err(|_| bad())? as u32, length.parse().map_err(|_| bad())?))
}

fn read_icmp<'a>(mut line: Line, words: impl Iterator<Item = &'a str>) -> Result<Line, String> {
    let mut icmp = Icmp { kind: 3, code: 0, mtu: 0 };
    let words: Vec<&str> = words.collect();
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).copied().unwrap_or("");
        match *word {
            "icmp" | "unreachable" => {}
            "source_quench" => icmp.kind = 4,
            "time_exceeded" => icmp.kind = 11,
            "net_unreachable" => icmp.code = 0,
            "host_unreachable" => icmp.code = 1,
            "protocol_unreachable" => icmp.code = 2,
            "port_unreachable" => icmp.code = 3,
            "frag_needed" => icmp.code = 4,
            "source_route_failed" => icmp.code = 5,
            "net_prohibited" => icmp.code = 9,
            "host_prohibited" => icmp.code = 10,
            "packet_filtered" => icmp.code = 13,
            "mtu" => icmp.mtu = next.parse().map_err(|_| format!("{next} is not an MTU"))?,
            other if other.starts_with('[') => {
                (line.sequence, line.payload) = read_range(other.trim_matches(['[', ']']))?;
            }
            other if other.parse::<u16>().is_ok() => {}
            other => return Err(format!("ICMP what? {other}")),
        }
    }
    line.icmp = Some(icmp);
    Ok(line)
}

fn read_options(text: &str) -> Result<Vec<Choice>, String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(read_option).collect()
}

fn read_option(text: &str) -> Result<Choice, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |index: usize| words.get(index).and_then(|word| word.parse::<u32>().ok()).ok_or(format!("{text}: no number"));
    Ok(match words[0] {
        "mss" => Choice::Mss(number(1)? as u16),
        "sackOK" => Choice::SackPermitted,
        "wscale" => Choice::WindowScale(number(1)? as u8),
        "TS" => Choice::Timestamp(number(2)?, number(4)?),
        "nop" => Choice::Nop,
        "eol" => Choice::End,
        "sack" => {
            let block = |word: &&str| {
                let (left, right) = word.split_once(':')?;
                Some((left.parse().ok()?, right.parse().ok()?))
            };
            Choice::Sack(words[1..].iter().map(block).collect::<Option<_>>().ok_or(format!("{text}: not blocks"))?)
        }
        _ => return Err(format!("what option is {text}?")),
    })
}

/// Both ends of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) from: (Ipv4Addr, u16),
    pub(super) to: (Ipv4Addr, u16),
}

fn option_bytes(options: &[Choice]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for option in options {
        match option {
            Choice::Mss(size) => bytes.extend([2, 4].into_iter().chain(size.to_be_bytes())),
            Choice::SackPermitted => bytes.extend([4, 2]),
            Choice::WindowScale(shift) => bytes.extend([3, 3, *shift]),
            Choice::Timestamp(value, echo) => {
                bytes.extend([8, 10].into_iter().chain(value.to_be_bytes()).chain(echo.to_be_bytes()));
            }
            Choice::Nop => bytes.push(1),
            Choice::End => bytes.push(0),
            Choice::Sack(blocks) => {
                bytes.extend([5, 2 + 8 * blocks.len() as u8]);
                bytes.extend(blocks.iter().flat_map(|(left, right)| left.to_be_bytes().into_iter().chain(right.to_be_bytes())));
            }
            Choice::Other(kind, data) => bytes.extend([*kind, 2 + data.len() as u8].iter().chain(data)),
        }
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The bytes of a TCP segment whose numbers are live ones.
pub(super) fn build(ends: Ends, line: &Line) -> Vec<u8> {
    let options = option_bytes(line.options.as_deref().unwrap_or(&[]));
    let mut segment = Vec::new();
    segment.extend(ends.from.1.to_be_bytes());
    segment.extend(ends.to.1.to_be_bytes());
    segment.extend(line.sequence.to_be_bytes());
    segment.extend(line.acknowledgment.unwrap_or(0).to_be_bytes());
    segment.push((5 + options.len() as u8 / 4) << 4);
    segment.push(line.flags);
    segment.extend(line.window.unwrap_or(0).to_be_bytes());
    segment.extend([0, 0]);
    segment.extend(line.urgent.to_be_bytes());
    segment.extend(&options);
    segment.resize(segment.len() + line.payload, 0);
    let (from, to) = (IpAddr::V4(ends.from.0), IpAddr::V4(ends.to.0));
    let pseudo = checksum::pseudo_header(from, to, 6, segment.len() as u32);
    let sum = !checksum::add(pseudo, checksum::sum(&segment));
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    with_header(ends, 6, line.ecn.unwrap_or(0), &segment)
}

fn with_header(ends: Ends, protocol: u8, ecn: u8, body: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 20];
    header[0] = 0x45;
    header[1] = ecn;
    header[2..4].copy_from_slice(&((20 + body.len()) as u16).to_be_bytes());
    (header[8], header[9]) = (255, protocol);
    header[12..16].copy_from_slice(&ends.from.0.octets());
    header[16..20].copy_from_slice(&ends.to.0.octets());
    let sum = !checksum::sum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&header[..], body].concat()
}

/// An ICMP error about a segment that was sent from `ends.to` (live numbers).
pub(super) fn build_icmp(ends: Ends, line: &Line, icmp: Icmp) -> Vec<u8> {
    let about = Ends { from: ends.to, to: ends.from };
    let original = build(about, &Line { options: Some(Vec::new()), icmp: None, flags: ACK, ..line.clone() });
    let mut body = vec![icmp.kind, icmp.code, 0, 0, 0, 0];
    body.extend(icmp.mtu.to_be_bytes());
    body.extend(&original[..28]);
    let sum = !checksum::sum(&body);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    with_header(ends, 1, 0, &body)
}

/// A packet that was sent, with live numbers. `None`: not TCP over IPv4.
pub(super) fn parse(packet: &[u8]) -> Option<(Ends, Line)> {
    let (header, segment) = packet.split_at_checked(20)?;
    if header[0] != 0x45 || header[9] != 6 || segment.len() < 20 {
        return None;
    }
    let ip = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let word = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
    let data = usize::from(segment[12] >> 4) * 4;
    let line = Line {
        icmp: None,
        ecn: Some(header[1] & 3),
        flags: segment[13],
        sequence: long(4),
        payload: segment.len().checked_sub(data)?,
        acknowledgment: (segment[13] & ACK != 0).then(|| long(8)),
        window: Some(word(14)),
        urgent: word(18),
        options: Some(parse_options(segment.get(20..data)?)?),
    };
    Some((Ends { from: (ip(12), word(0)), to: (ip(16), word(2)) }, line))
}

fn parse_options(mut bytes: &[u8]) -> Option<Vec<Choice>> {
    let mut options = Vec::new();
    while let [kind, rest @ ..] = bytes {
        if *kind <= 1 {
            options.push(if *kind == 1 { Choice::Nop } else { Choice::End });
            bytes = rest;
            continue;
        }
        let len = usize::from(*rest.first()?);
        let data = bytes.get(2..len)?;
        let long = |at: usize| data.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
        options.push(match (*kind, data) {
            (2, [high, low]) => Choice::Mss(u16::from_be_bytes([*high, *low])),
            (3, [shift]) => Choice::WindowScale(*shift),
            (4, []) => Choice::SackPermitted,
            (5, _) => Choice::Sack((0..data.len() / 8).map(|i| Some((long(i * 8)?, long(i * 8 + 4)?))).collect::<Option<_>>()?),
            (8, _) => Choice::Timestamp(long(0)?, long(4)?),
            _ => Choice::Other(*kind, data.to_vec()),
        });
        bytes = &bytes[len..];
    }
    Some(options)
}

/// A packet as a script would write it.
pub(super) fn describe(line: &Line) -> String {
    let flags: String = FLAGS.iter().filter(|(_, bit)| line.flags & bit != 0).map(|(letter, _)| letter).collect();
    let last = line.sequence.wrapping_add(line.payload as u32);
    let ack = line.acknowledgment.map(|ack| format!(" ack {ack}")).unwrap_or_default();
    let window = line.window.map(|window| format!(" win {window}")).unwrap_or_default();
    format!("{flags} {}:{last}({}){ack}{window} {:?}", line.sequence, line.payload, line.options.as_deref().unwrap_or(&[]))
}
