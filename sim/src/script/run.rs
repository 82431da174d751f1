//! Runs a script: time advances from event to event; outgoing packets are checked in the order in which they left.

use ringway_shm::{Duration, Instant};

use super::arguments;
use super::bytes::{self, Ends};
use super::calls;
use super::evaluate;
use super::info;
use super::packet::{self, ACK, Choice, FIN, Line, PSH, SYN};
use super::parse::{Action, Event, Family, Script, When};
use crate::machine::{Answer, Machine, Progress, Sent, Sysctl, Waiting};

/// The connection of a script's packets: the one that was opened last.
#[derive(Clone, Copy)]
struct Flow {
    /// From the script's peer to the machine.
    ends: Ends,
    /// The machine's initial sequence number, from which the script counts, except for the SYN's own.
    offset: u32,
    /// Sequence number of the machine's SYN in the script.
    isn: u32,
    /// The peer's initial sequence number, from which the script counts.
    peer: u32,
    /// True once `peer` is known.
    met: bool,
    /// True once the machine's SYN has been seen and `offset` is known.
    known: bool,
    /// True once the peer has acknowledged the machine's SYN.
    open: bool,
    /// The machine's first timestamp, from which the script counts.
    clock: Option<u32>,
}

/// A blocking call.
struct Blocked<'a> {
    event: &'a Event,
    text: &'a str,
    call: Waiting,
    until: u64,
}

impl Flow {
    fn new(ends: Ends) -> Flow {
        Flow { ends, offset: 0, isn: 0, peer: 0, met: false, known: false, open: false, clock: None }
    }
}

struct Runner<'a> {
    machine: Machine,
    sysctl: Sysctl,
    mtu: u16,
    family: Family,
    start: Instant,
    tolerance_us: u64,
    flow: Option<Flow>,
    passive_ports: u16,
    /// True once listen(2) was called since the last passive connection: the next SYN then opens a new one.
    listened: bool,
    blocked: Option<Blocked<'a>>,
    /// Descriptor that assertions are about.
    subject: i32,
}

pub(super) fn run(script: &Script) -> Result<(), String> {
    let mut sysctl = Sysctl::default();
    // Defaults that public scripts assume (their common set-up), unless a script overrides them.
    for (name, value) in [("tcp_timestamps", "0"), ("tcp_rmem", "4096 540000 15728640"), ("tcp_congestion_control", "cubic")] {
        sysctl.set(name, value);
    }
    // Settings before the first other event apply from the start; later ones change a running machine.
    for event in &script.events {
        let Action::Command(command) = &event.action else { break };
        read_command(&mut sysctl, command);
    }
    let family = script.family;
    let machine = Machine::new(family.local().ip(), script.mtu, &sysctl);
    let start = machine.now();
    let mut runner = Runner {
        machine,
        sysctl,
        mtu: script.mtu,
        family,
        start,
        tolerance_us: script.tolerance_us,
        flow: None,
        passive_ports: 0,
        listened: false,
        blocked: None,
        subject: -1,
    };
    for event in &script.events {
        runner.step(event).map_err(|what| format!("{}: {what}", event.line))?;
    }
    if let Some(until) = runner.blocked.as_ref().map(|blocked| blocked.until) {
        runner.advance(until + script.tolerance_us)?;
    }
    match &runner.blocked {
        Some(blocked) => Err(format!("{}: the call never returned: {}", blocked.event.line, blocked.text)),
        None => Ok(()),
    }
}

/// Reads `sysctl` settings; ignores everything else.
fn read_command(sysctl: &mut Sysctl, command: &str) {
    if command.contains("defaults.sh") {
        // Further settings of the common set-up of public suites.
        for (name, value) in [
            ("tcp_timestamps", "1"),
            ("tcp_slow_start_after_idle", "0"),
            ("tcp_ecn", "0"),
            ("tcp_syn_linear_timeouts", "4"),
            ("tcp_syn_retries", "5"),
            ("tcp_fastopen", "3"),
            ("tcp_fastopen_key", "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4"),
        ] {
            sysctl.set(name, value);
        }
    }
    for line in command.lines() {
        let starts = line.match_indices("net").filter(|(at, _)| line[at + 3..].starts_with(['.', '/']));
        for (name, value) in starts.filter_map(|(at, _)| line[at..].split_once('=')) {
            sysctl.set(name, value);
        }
    }
}

impl<'a> Runner<'a> {
    fn now_us(&self) -> u64 {
        self.machine.now().since(self.start).as_micros()
    }

    fn at(&self, us: u64) -> Instant {
        self.start + Duration::from_micros(us)
    }

    fn step(&mut self, event: &'a Event) -> Result<(), String> {
        let base = self.now_us();
        let (from, to) = match event.when {
            When::At(us) => (us, us),
            When::After(us) => (base + us, base + us),
            When::Between { from, to, relative: true } => (base + from, base + to),
            When::Between { from, to, relative: false } => (from, to),
            When::Any => (base, u64::MAX / 4_000),
        };
        if let Action::Outbound(line) = &event.action {
            return self.expect(line, from, to);
        }
        self.advance(from)?;
        match &event.action {
            Action::Inbound(line) => self.inject(line),
            Action::Call(text, until) => self.call(event, text, *until, base),
            Action::Assert(code) => self.assert(code),
            Action::Command(command) => {
                let before = self.sysctl.clone();
                read_command(&mut self.sysctl, command);
                if self.sysctl != before {
                    self.machine.reconfigure(self.mtu, &self.sysctl);
                }
                Ok(())
            }
            Action::Outbound(_) => Ok(()),
        }
    }

    /// Advances the time and retries the blocked call at each timer.
    fn advance(&mut self, until_us: u64) -> Result<(), String> {
        let until = self.at(until_us);
        while self.machine.next_timer().is_some_and(|at| at <= until) && self.blocked.is_some() {
            self.machine.advance_to_timer(until);
            self.retry()?;
        }
        self.machine.advance(until);
        self.retry()
    }

    /// Retries the blocked call.
    fn retry(&mut self) -> Result<(), String> {
        let Some(blocked) = self.blocked.take() else { return Ok(()) };
        let mut answer = match self.machine.go_on(blocked.call) {
            Progress::Done(answer) => answer,
            Progress::Waits(call) => {
                let late = self.now_us() > blocked.until + self.tolerance_us;
                self.blocked = (!late).then_some(Blocked { call, ..blocked });
                return if late { Err("the blocking call before it should have returned".into()) } else { Ok(()) };
            }
        };
        let now = self.now_us();
        if now + self.tolerance_us < blocked.until {
            return Err(format!("{}: the call returned at {now} us: {}", blocked.event.line, blocked.text));
        }
        let parsed = arguments::read(blocked.text)?;
        self.renumber(&parsed, &mut answer);
        self.note_new(&parsed, answer.value);
        calls::compare(&parsed, &answer).map_err(|what| format!("{}: {what}", blocked.text))
    }

    fn call(&mut self, event: &'a Event, text: &'a str, until: Option<u64>, base: u64) -> Result<(), String> {
        let parsed = arguments::read(text)?;
        if self.blocked.is_some() {
            return Err("another call still blocks".into());
        }
        let until = until.map(|until| if matches!(event.when, When::After(_)) { base + until } else { until });
        match calls::begin(&mut self.machine, self.family, &parsed).map_err(|what| format!("{text}: {what}"))? {
            Progress::Done(_) if until.is_some_and(|until| self.now_us() + self.tolerance_us < until) => {
                Err(format!("{text}: it does not block"))
            }
            Progress::Done(mut answer) => {
                self.renumber(&parsed, &mut answer);
                self.note_new(&parsed, answer.value);
                calls::compare(&parsed, &answer).map_err(|what| format!("{text}: {what}"))
            }
            Progress::Waits(call) => {
                let until = until.ok_or_else(|| format!("{text}: it blocks"))?;
                self.blocked = Some(Blocked { event, text, call, until });
                Ok(())
            }
        }
    }

    /// Renumbers a new descriptor to the number that the script uses.
    fn renumber(&mut self, parsed: &arguments::Parsed<'_>, answer: &mut Answer) {
        let makes = matches!(parsed.name, "socket" | "accept" | "epoll_create" | "epoll_create1");
        if makes && answer.value >= 0 && parsed.value >= 0 && self.machine.renumber(answer.value as i32, parsed.value as i32) {
            answer.value = parsed.value;
        }
    }

    fn note_new(&mut self, parsed: &arguments::Parsed<'_>, value: i64) {
        match parsed.name {
            "accept" if value >= 0 => self.subject = value as i32,
            "socket" if value >= 0 => self.subject = value as i32,
            "listen" => self.listened = true,
            "connect" => self.subject = arguments::number(parsed.arguments[0]).unwrap_or(-1) as i32,
            _ => {}
        }
    }

    fn assert(&mut self, code: &str) -> Result<(), String> {
        let bytes = self.machine.info(self.subject);
        let find = |name: &str| info::field(&bytes, name).map(|value| value as i64);
        evaluate::check(code, &find)
    }

    /// Delivers a packet of the peer, with the script's numbers made live.
    fn inject(&mut self, line: &Line) -> Result<(), String> {
        let opens = line.flags & (SYN | ACK) == SYN && line.icmp.is_none();
        if opens && self.flow.is_none_or(|flow| flow.open && (line.sequence == 0 || self.listened)) {
            self.passive_ports += 1;
            self.listened = false;
            let (from, to) = (self.family.remote().ip(), self.family.local());
            let ends = Ends { from: (from, 50_000 + self.passive_ports), to: (to.ip(), to.port()) };
            self.flow = Some(Flow::new(ends));
        }
        let flow = self.flow.as_mut().ok_or("a packet of no connection")?;
        flow.open |= line.flags & (SYN | ACK) == ACK;
        let is_syn = line.flags & SYN != 0 && line.icmp.is_none();
        // Like the stock tool: a SYN that crosses ours is not the origin of the peer's numbers.
        let crosses = flow.known && opens;
        if is_syn && !flow.met && !crosses {
            (flow.peer, flow.met) = (line.sequence, true);
        }
        let flow = *flow;
        let live = |number: u32| number.wrapping_add(flow.offset);
        if let Some(icmp) = line.icmp {
            let about = Line { sequence: live(line.sequence), ..line.clone() };
            self.machine.deliver(&bytes::build_icmp(flow.ends, &about, icmp));
            return self.retry();
        }
        let mut sent = line.clone();
        sent.acknowledgment = line.acknowledgment.map(|ack| live(ack).wrapping_sub(if is_syn { flow.isn } else { 0 }));
        if !is_syn {
            sent.sequence = line.sequence.wrapping_add(flow.peer);
        }
        for option in sent.options.iter_mut().flatten() {
            match option {
                Choice::Sack(blocks) => {
                    for (left, right) in blocks {
                        (*left, *right) = (live(*left), live(*right));
                    }
                }
                Choice::Timestamp(_, echo) if *echo != 0 => *echo = echo.wrapping_add(flow.clock.unwrap_or(0)),
                _ => {}
            }
        }
        self.machine.deliver(&bytes::build(flow.ends, &sent));
        self.retry()
    }

    /// Checks that the next packet of the machine is this one.
    fn expect(&mut self, wanted: &Line, from_us: u64, to_us: u64) -> Result<(), String> {
        let first = self.next_packet(wanted, to_us)?;
        let (ends, live) = bytes::parse(&first.bytes).ok_or("a packet that is not TCP")?;
        self.learn(ends, &live, wanted);
        let flow = self.flow.ok_or("a packet of no connection")?;
        let mut got = in_script_numbers(&live, &flow);
        let size = got.payload;
        while got.payload < wanted.payload && size > 0 {
            let more = self.next_packet(wanted, to_us)?;
            let (again, live) = bytes::parse(&more.bytes).ok_or("a packet that is not TCP")?;
            if !join(&mut got, &in_script_numbers(&live, &flow), size) || again != ends {
                return Err(format!(
                    "expected {}\n  got {} and a segment that does not continue it",
                    packet::describe(wanted),
                    packet::describe(&got)
                ));
            }
        }
        if flow.ends.from != ends.to || flow.ends.to != ends.from || !matches(wanted, &got) {
            return Err(format!("expected {}\n  got {}", packet::describe(wanted), packet::describe(&got)));
        }
        let at = first.at.since(self.start).as_micros();
        let tolerance = self.tolerance(from_us);
        if at + tolerance < from_us || at > to_us.saturating_add(tolerance) {
            return Err(format!("it came at {at} us, expected {from_us} us: {}", packet::describe(&got)));
        }
        // The next event counts from here: from what happened, not from what was written.
        Ok(())
    }

    /// Returns the machine's next packet, at `to_us` at the latest.
    fn next_packet(&mut self, wanted: &Line, to_us: u64) -> Result<Sent, String> {
        let limit = self.at(to_us.saturating_add(self.tolerance(to_us)));
        loop {
            if let Some(sent) = self.machine.next_sent() {
                if self.is_of_interest(&sent, wanted) {
                    return Ok(sent);
                }
                continue;
            }
            if !self.machine.advance_to_timer(limit) {
                return Err(format!("no packet came; expected {}", packet::describe(wanted)));
            }
            self.retry()?;
        }
    }

    /// A script tests one connection at a time: packets of earlier ones do not matter.
    fn is_of_interest(&self, sent: &Sent, wanted: &Line) -> bool {
        let Some((ends, live)) = bytes::parse(&sent.bytes) else { return true };
        let opens = live.flags & (SYN | ACK) == SYN;
        if !opens && wanted.flags & (SYN | ACK) == SYN {
            return false;
        }
        opens || self.flow.is_none_or(|flow| flow.ends.from == ends.to && flow.ends.to == ends.from)
    }

    /// Like the stock tool, allows an eighth of the time since the event before, if that is more.
    fn tolerance(&self, at_us: u64) -> u64 {
        self.tolerance_us.max(at_us.saturating_sub(self.now_us()).min(3_600_000_000) / 8)
    }

    /// Takes the machine's SYN and first timestamp as the origin of its numbers.
    fn learn(&mut self, ends: Ends, live: &Line, wanted: &Line) {
        let back = Ends { from: ends.to, to: ends.from };
        if live.flags & (SYN | ACK) == SYN && self.flow.is_none_or(|flow| flow.ends != back) {
            self.flow = Some(Flow::new(back));
        }
        let Some(flow) = &mut self.flow else { return };
        if live.flags & SYN != 0 && !flow.known {
            flow.offset = live.sequence;
            flow.isn = wanted.sequence;
            flow.known = true;
        }
        if let (None, Some((value, _)), Some((script, _))) = (flow.clock, timestamp(live), timestamp(wanted)) {
            flow.clock = Some(value.wrapping_sub(script));
        }
    }
}

fn timestamp(line: &Line) -> Option<(u32, u32)> {
    line.options.iter().flatten().find_map(|option| match option {
        Choice::Timestamp(value, echo) => Some((*value, *echo)),
        _ => None,
    })
}

fn in_script_numbers(live: &Line, flow: &Flow) -> Line {
    let mut line = live.clone();
    // A RST to a segment without an ACK has sequence number zero or the peer's acknowledgment, live.
    line.sequence = if live.sequence == 0 && flow.offset != 0 { 0 } else { live.sequence.wrapping_sub(flow.offset) };
    let is_syn = live.flags & SYN != 0;
    if is_syn {
        line.sequence = line.sequence.wrapping_add(flow.isn);
    }
    let peer = if is_syn { 0 } else { flow.peer };
    line.acknowledgment = live.acknowledgment.map(|ack| ack.wrapping_sub(peer));
    for option in line.options.iter_mut().flatten() {
        match option {
            Choice::Timestamp(value, _) => *value = value.wrapping_sub(flow.clock.unwrap_or(0)),
            Choice::Sack(blocks) => {
                for (left, right) in blocks {
                    (*left, *right) = (left.wrapping_sub(peer), right.wrapping_sub(peer));
                }
            }
            _ => {}
        }
    }
    line
}

/// Adds a segment to those before it, like the stock tool when a script's packet is larger than the sent ones: it must
/// continue them, have the same fields, and all but the last must be of one size.
fn join(whole: &mut Line, more: &Line, size: usize) -> bool {
    let goes_on = more.sequence == whole.sequence.wrapping_add(whole.payload as u32) && whole.payload.is_multiple_of(size);
    let same = (more.acknowledgment, more.window, more.urgent, more.ecn)
        == (whole.acknowledgment, whole.window, whole.urgent, whole.ecn);
    whole.payload += more.payload;
    whole.flags = whole.flags & !(FIN | PSH) | more.flags & (FIN | PSH);
    goes_on && same && more.payload > 0
}

/// Returns true when the packet matches every field that the line gives; fields left out match anything.
fn matches(wanted: &Line, got: &Line) -> bool {
    let options = |wanted: &[Choice], got: &[Choice]| {
        wanted.len() == got.len()
            && wanted.iter().zip(got).all(|pair| match pair {
                // The timestamp may have advanced by the tolerance; the echo may not.
                (Choice::Timestamp(_, a), Choice::Timestamp(_, b)) => a == b,
                (a, b) => a == b,
            })
    };
    let same_options = match (&wanted.options, &got.options) {
        (Some(wanted), Some(got)) => options(wanted, got),
        _ => true,
    };
    wanted.flags == got.flags
        && wanted.sequence == got.sequence
        && wanted.payload == got.payload
        && (wanted.acknowledgment.is_none() || wanted.acknowledgment == got.acknowledgment)
        && (wanted.window.is_none() || wanted.window == got.window)
        && (wanted.ecn.is_none() || wanted.ecn == got.ecn)
        && (wanted.tos.is_none() || wanted.tos == got.tos)
        && (wanted.ttl.is_none() || wanted.ttl == got.ttl)
        && wanted.urgent == got.urgent
        && same_options
}
