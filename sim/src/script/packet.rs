//! Packets in a script's notation. Sequence numbers in a line are the script's own; `bytes` has the live ones.

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
    /// RFC 7413.
    FastOpen(Vec<u8>),
    /// The same in the earlier experimental option.
    FastOpenExperiment(Vec<u8>),
    /// RFC 9768: true when ECT(0) comes first; one to three counters.
    AccurateEcn(bool, Vec<u32>),
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
    /// The two ECN bits of the IP header; `None`: not given.
    pub(super) ecn: Option<u8>,
    /// The whole byte that the ECN bits are part of.
    pub(super) tos: Option<u8>,
    pub(super) ttl: Option<u8>,
    /// TCP flags; above them AE (RFC 9768).
    pub(super) flags: u16,
    pub(super) sequence: u32,
    pub(super) payload: usize,
    pub(super) acknowledgment: Option<u32>,
    pub(super) window: Option<u16>,
    pub(super) urgent: u16,
    /// `None`: `<...>`, any options.
    pub(super) options: Option<Vec<Choice>>,
}

pub(super) const FIN: u16 = 1;
pub(super) const SYN: u16 = 2;
pub(super) const PSH: u16 = 8;
pub(super) const ACK: u16 = 16;
const ECE: u16 = 64;
const CWR: u16 = 128;
const AE: u16 = 256;
const FLAGS: [(char, u16); 9] =
    [('F', FIN), ('S', SYN), ('R', 4), ('P', PSH), ('.', ACK), ('U', 32), ('E', ECE), ('W', CWR), ('A', AE)];

/// Reads the line after the direction.
pub(super) fn read(text: &str) -> Result<Line, String> {
    let mut line = Line { options: Some(Vec::new()), ..Line::default() };
    let mut text = text.trim();
    if let Some((choices, before)) = text.find('<').map(|at| (text[at + 1..].trim_end_matches('>'), &text[..at])) {
        line.options = if choices.trim() == "..." { None } else { Some(read_options(choices)?) };
        text = before.trim();
    }
    if let Some((marks, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        marks.split(',').try_for_each(|mark| read_mark(&mut line, mark.trim()))?;
        text = rest.trim();
    }
    let mut words = text.split_whitespace().peekable();
    if words.peek().is_some_and(|word| word.starts_with("icmp")) {
        return read_icmp(line, words);
    }
    for letter in words.next().ok_or("no flags")?.chars().filter(|c| *c != '-') {
        line.flags |= read_flag(letter).ok_or_else(|| format!("no flag {letter}"))?;
    }
    (line.sequence, line.payload) = read_range(words.next().ok_or("no sequence numbers")?)?;
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("nothing after {word}"))?;
        let number: u64 = value.parse().map_err(|_| format!("{value} is not a number"))?;
        match word {
            "ack" => line.acknowledgment = Some(number as u32),
            "win" => line.window = Some(number as u16),
            "urg" => line.urgent = number as u16,
            _ => return Err(format!("unexpected {word}")),
        }
    }
    Ok(line)
}

/// Reads a letter of `FLAGS`, or the count in the three bits of RFC 9768's ACE field.
fn read_flag(letter: char) -> Option<u16> {
    if let Some(count) = letter.to_digit(8) {
        return Some([ECE, CWR, AE].into_iter().enumerate().filter(|(bit, _)| count >> bit & 1 == 1).map(|(_, flag)| flag).sum());
    }
    FLAGS.iter().find(|(c, _)| *c == letter).map(|(_, flag)| *flag)
}

/// Reads a leading bracket, which describes the IP header.
fn read_mark(line: &mut Line, mark: &str) -> Result<(), String> {
    let number = |text: &str| {
        let hex = text.trim().strip_prefix("0x").map(|digits| u8::from_str_radix(digits, 16));
        hex.unwrap_or_else(|| text.trim().parse()).map_err(|_| format!("{mark} has no number"))
    };
    match mark.split_once(' ').unwrap_or((mark, "")) {
        ("noecn", _) => line.ecn = Some(0),
        ("ect1", _) => line.ecn = Some(1),
        ("ect0", _) => line.ecn = Some(2),
        ("ce", _) => line.ecn = Some(3),
        ("tos", value) => line.tos = Some(number(value)?),
        ("ttl", value) => line.ttl = Some(number(value)?),
        ("ect01" | "flowlabel", _) => {}
        _ => return Err(format!("unexpected [{mark}]")),
    }
    Ok(())
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
            "icmp" | "icmpv4" | "icmpv6" | "unreachable" => {}
            "packet_too_big" => icmp.code = 4,
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
            other => return Err(format!("unknown ICMP message {other}")),
        }
    }
    line.icmp = Some(icmp);
    Ok(line)
}

/// Reads hexadecimal digits.
fn hex(text: &str) -> Result<Vec<u8>, String> {
    let byte = |at: usize| text.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    (0..text.len()).step_by(2).map(byte).collect::<Option<_>>().ok_or_else(|| format!("{text} is not hexadecimal"))
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
        "FO" => Choice::FastOpen(hex(words.get(1).copied().unwrap_or(""))?),
        "FOEXP" => Choice::FastOpenExperiment(hex(words.get(1).copied().unwrap_or(""))?),
        "ECN" => {
            let counters = (2..words.len()).step_by(2).map(number).collect::<Result<_, _>>()?;
            Choice::AccurateEcn(words.get(1) == Some(&"e0b"), counters)
        }
        "md5" => Choice::Other(19, hex(words.get(1).copied().unwrap_or(""))?),
        _ => return Err(format!("unknown option {text}")),
    })
}

/// Formats a packet in a script's notation.
pub(super) fn describe(line: &Line) -> String {
    let flags: String = FLAGS.iter().filter(|(_, bit)| line.flags & bit != 0).map(|(letter, _)| letter).collect();
    let last = line.sequence.wrapping_add(line.payload as u32);
    let ack = line.acknowledgment.map(|ack| format!(" ack {ack}")).unwrap_or_default();
    let window = line.window.map(|window| format!(" win {window}")).unwrap_or_default();
    format!("{flags} {}:{last}({}){ack}{window} {:?}", line.sequence, line.payload, line.options.as_deref().unwrap_or(&[]))
}
