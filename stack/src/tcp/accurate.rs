//! Accurate ECN: feedback of how many packets and bytes arrived with a CE mark, instead of one bit.
//!
//! Read RFC 9768 §3.2 first. Three bits of every header (ACE) are the low bits of a count of marked packets. An option, sent
//! once the peer has shown that options pass, carries counts of bytes. `ecn` has the negotiation in the handshake and the
//! reaction to marks, which is the same for all kinds of feedback.
//!
//! Every packet of such a connection is ECN-capable, as in Linux, ACKs and retransmissions too. The option has the order of
//! kind 174. It goes on every segment that has space for it beside a full segment's payload.

use crate::wire::tcp::{ByteCounters, CWR, ECE, HEADER_BYTES_MAX, Header, Timestamps};

use super::connection::Connection;
use super::ecn::{CE, ECT_0, EcnMode};
use super::output::Plan;
use super::segment::Segment;
use super::tcb::{Tcb, flag};
use crate::wire::sequence::SeqNum;

/// §3.2.1: initial value of the packet count.
const PACKETS_INITIAL: u32 = 5;
/// §3.2.1: initial value of the byte counts of ECT(0) and ECT(1).
const BYTES_INITIAL: u32 = 1;
/// Byte counts travel modulo this.
const BYTES_MASK: u32 = 0xff_ffff;
/// §3.2.2.5.1: number of unreported marked packets that triggers an ACK, when some of them had data.
const MARKS_UNTOLD_MAX: u32 = 2;
/// §3.2.2.5.1: the same for pure ACKs.
const MARKED_ACKS_UNTOLD_MAX: u32 = 3;
/// Number of window reductions while every packet is marked: from ten segments to the smallest window, and once more. After
/// that the path sets the marks, not a queue.
const MARKED_ROUNDS_MAX: u8 = 4;
/// Largest number of packets that ACE can report.
const ACE_MAX: u32 = 7;
/// Linux: a peer that acknowledges more segments than this per ACK on average coalesces ACKs and does not lose them.
const JOINED_ACKS: u32 = 4;
/// Fraction bits of that average.
const AVERAGE_SHIFT: u32 = 6;
/// No average is larger: a window has no more segments.
const AVERAGE_MAX: u32 = 1 << 30;
/// The option, padded.
const OPTION_BYTES: u32 = 12;
/// The option without its last counter, padded.
const OPTION_BYTES_WITHOUT_ECT_0: usize = 8;
/// A SACK block in its option.
const SACK_BLOCK_BYTES: usize = 8;
/// Number of timeouts in a row after which packets with the option are taken to be dropped.
const TIMEOUTS_MAX: u8 = 2;
/// ECT(1) in the IP header.
const ECT_1: u8 = 1;

/// State of accurate ECN feedback at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accurate {
    /// r.cep - 5
    pub(crate) received_ce: u32,
    /// Value of `received_ce` in the last header sent.
    told_ce: u32,
    /// r.e1b, r.ceb, r.e0b
    received: [u32; 3],
    /// The ECN field of the last payload.
    last_field: u8,
    /// The ECN field of the peer's SYN-ACK, to be reflected in the ACK of it.
    reflect: Option<u8>,
    /// The ECN field of the peer's SYN, when the SYN made a control block at once.
    syn_field: u8,
    /// The peer's segments carry the option.
    pub(crate) options_seen: bool,
    /// s.e1b, s.ceb, s.e0b; the first and the last serve statistics only.
    delivered: [u32; 3],
    /// Average number of segments that an ACK acknowledges.
    acked_average: u32,
    /// Something has arrived at the peer without a mark, or may have.
    unmarked_seen: bool,
    /// Number of window reductions before that.
    marked_rounds: u8,
    /// Start of the duplicate that our last ACK with the option reported.
    duplicate_told: Option<SeqNum>,
    /// Packets with our option appear to be dropped: it is no longer sent.
    option_blocked: bool,
    /// The first data must carry the option: the ACK of the SYN-ACK, which has it too, may be lost.
    option_due: bool,
}

impl Accurate {
    fn new() -> Accurate {
        Accurate {
            received_ce: 0,
            told_ce: 0,
            received: [BYTES_INITIAL, 0, BYTES_INITIAL],
            last_field: 0,
            reflect: None,
            syn_field: 0,
            options_seen: false,
            delivered: [BYTES_INITIAL, 0, BYTES_INITIAL],
            acked_average: 0,
            unmarked_seen: false,
            marked_rounds: 0,
            duplicate_told: None,
            option_blocked: false,
            option_due: false,
        }
    }

    /// Counts `marked` of `segments` that arrived at the peer with a mark; `reduces` says that the window shrinks for it.
    /// Returns true when everything since the start was marked, over so many round trips that it is not congestion
    /// (§3.2.2.3).
    fn is_marked_for_ever(&mut self, marked: u32, segments: u32, reduces: bool) -> bool {
        self.unmarked_seen |= marked < segments;
        self.marked_rounds = self.marked_rounds.saturating_add(reduces.into());
        !self.unmarked_seen && self.marked_rounds > MARKED_ROUNDS_MAX
    }

    /// Payload bytes that arrived here with ECT(1), CE, ECT(0).
    pub(crate) fn received_bytes(&self) -> [u32; 3] {
        from_start(self.received)
    }

    /// Payload bytes that arrived at the peer with ECT(1), CE, ECT(0), from its options.
    pub(crate) fn delivered_bytes(&self) -> [u32; 3] {
        from_start(self.delivered)
    }

    /// Takes over the counts that no decision depends on.
    fn note_others(&mut self, segment: &Segment) {
        let told = segment.header.options.counters();
        for place in [0, 2] {
            if let Some(count) = told.and_then(|told| told.count(place)) {
                self.delivered[place] = count;
            }
        }
    }

    /// The option with all counts.
    pub(crate) fn option(&self) -> ByteCounters {
        ByteCounters::all(self.received.map(|count| count & BYTES_MASK))
    }

    /// §3.2.2.5.2 and appendix A.2: returns by how many packets the peer's count has grown. `ace` is its low bits less ours;
    /// `segments` of `mss` bytes were delivered; `marked_bytes` is the option's count, when the option was present.
    fn safest(&mut self, ace: u32, segments: u32, mss: u32, marked_bytes: Option<u32>) -> u32 {
        self.acked_average = match self.acked_average {
            0 => segments << AVERAGE_SHIFT,
            average => average - (average >> AVERAGE_SHIFT) + segments,
        };
        if segments <= ACE_MAX {
            return ace;
        }
        let safe = segments - ((segments - ace) & ACE_MAX);
        match marked_bytes {
            Some(0) => ace,
            Some(bytes) if bytes > ace * mss => safe,
            Some(bytes) if bytes < safe * mss / 2 => ace,
            _ if self.acked_average > JOINED_ACKS << AVERAGE_SHIFT => ace,
            _ => safe,
        }
    }
}

impl Accurate {
    /// Returns true when no count can overflow.
    pub(crate) fn is_sound(&self) -> bool {
        self.acked_average <= AVERAGE_MAX
            && self.last_field <= CE
            && self.syn_field <= CE
            && self.reflect.is_none_or(|it| it <= CE)
    }
}

super::handover::part::parts!(Accurate {
    received_ce,
    told_ce,
    received,
    last_field,
    reflect,
    syn_field,
    options_seen,
    delivered,
    acked_average,
    unmarked_seen,
    marked_rounds,
    duplicate_told,
    option_blocked,
    option_due
});

/// Counts less their initial values.
fn from_start(counts: [u32; 3]) -> [u32; 3] {
    let initial = [BYTES_INITIAL, 0, BYTES_INITIAL];
    core::array::from_fn(|place| counts[place].wrapping_sub(initial[place]) & BYTES_MASK)
}

/// The initial counts, for a SYN-ACK.
pub(crate) fn initial_option() -> ByteCounters {
    ByteCounters::all([BYTES_INITIAL, 0, BYTES_INITIAL])
}

/// The three bits AE, CWR and ECE as a number.
pub(crate) fn ace(header: &Header) -> u32 {
    (header.ae as u32) << 2 | ((header.flags & CWR != 0) as u32) << 1 | (header.flags & ECE != 0) as u32
}

/// Writes the three bits.
pub(crate) fn set_ace(header: &mut Header, ace: u32) {
    header.ae = ace & 4 != 0;
    header.flags = header.flags & !(CWR | ECE) | if ace & 2 != 0 { CWR } else { 0 } | if ace & 1 != 0 { ECE } else { 0 };
}

/// §3.1.1, table 2; §3.2.2.1, table 3: the ACE value that reports the ECN field of a SYN or SYN-ACK.
pub(crate) fn ace_of_field(field: u8) -> u32 {
    match field {
        ECT_1 => 0b011,
        ECT_0 => 0b100,
        CE => 0b110,
        _ => 0b010,
    }
}

/// The ECN field that an ACE value reports; `None` when there is no such field.
pub(crate) fn field_of_ace(ace: u32) -> Option<u8> {
    match ace {
        0b010 => Some(0),
        0b011 => Some(ECT_1),
        0b100 => Some(ECT_0),
        0b110 => Some(CE),
        _ => None,
    }
}

impl Tcb {
    /// Returns true when accurate feedback was negotiated.
    #[inline]
    pub(crate) fn is_accurate(&self) -> bool {
        matches!(self.ecn_mode(), EcnMode::Accurate | EcnMode::AccurateUnmarked)
    }
}

impl Connection<'_, '_> {
    fn accurate(&mut self) -> Option<&mut Accurate> {
        if !self.tcb.is_accurate() {
            return None;
        }
        self.cold()?.accurate.as_mut()
    }

    /// §3.2.1: starts counting.
    pub(crate) fn begin_accurate(&mut self) {
        if self.tcb.is_accurate() {
            self.demand_cold().accurate = Some(Accurate::new());
        }
    }

    /// §3.2.2.1, table 3: takes over what the SYN-ACK that opened the connection says.
    pub(crate) fn remember_syn_ack(&mut self, segment: &Segment) {
        let Some(accurate) = self.accurate() else { return };
        accurate.reflect = Some(segment.ecn);
        accurate.received_ce = (segment.ecn == CE) as u32;
        accurate.options_seen = segment.header.options.counters().is_some();
        accurate.option_due = accurate.options_seen;
    }

    /// Takes over a repeated SYN-ACK: the ACK that answers reflects its ECN field.
    pub(crate) fn reflect_again(&mut self, segment: &Segment) {
        if let Some(accurate) = self.accurate() {
            accurate.reflect = Some(segment.ecn);
        }
    }

    /// Takes over the ECN field of a SYN that made a control block.
    pub(crate) fn remember_syn(&mut self, segment: &Segment) {
        if let Some(accurate) = self.accurate() {
            accurate.syn_field = segment.ecn;
        }
    }

    /// The ECN field of the peer's SYN, for our SYN-ACK.
    pub(crate) fn syn_field(&mut self) -> u8 {
        self.accurate().map_or(0, |accurate| accurate.syn_field)
    }

    /// §3.2.2.1, table 4; §3.2.2.4: checks the client's report on our SYN-ACK, which was not ECN-capable.
    pub(crate) fn check_reflection(&mut self, segment: &Segment) {
        let Some(accurate) = self.accurate() else { return };
        accurate.options_seen = segment.header.options.counters().is_some();
        let ace = ace(&segment.header);
        let pure = segment.len == 0 && segment.header.options.sack().is_empty();
        let field = field_of_ace(ace).filter(|_| pure);
        if ace == 0 || field.is_some_and(|field| field != 0) {
            self.stop_marking();
        }
        if field == Some(CE) {
            self.count_delivered_ce(1);
        }
    }

    /// §3.2.2.3, §3.2.2.4: the path garbles marks or their feedback. Feedback goes on; packets are no longer ECN-capable.
    pub(crate) fn stop_marking(&mut self) {
        if self.shared.config.ecn_fallback {
            self.tcb.set_ecn_mode(EcnMode::AccurateUnmarked);
            self.tcb.template.generation = self.env.ip.generation().wrapping_sub(1);
        }
    }

    /// Counts a segment in the window that has arrived with `payload` bytes (§3.2.1, §3.2.2.5.1, §3.2.3.3).
    pub(crate) fn count_arrival(&mut self, segment: &Segment, payload: u32) {
        let Some(accurate) = self.accurate() else { return };
        let marked = segment.ecn == CE;
        if marked {
            accurate.received_ce = accurate.received_ce.wrapping_add(segment.packets as u32);
        }
        if let Some(counter) = (segment.ecn as usize).checked_sub(1)
            && payload > 0
        {
            // In the order of the option: ECT(1), CE, ECT(0).
            let place = [0, 2, 1][counter];
            accurate.received[place] = accurate.received[place].wrapping_add(payload);
        }
        let untold = accurate.received_ce.wrapping_sub(accurate.told_ce);
        let changed = payload > 0 && accurate.last_field != segment.ecn;
        if payload > 0 {
            accurate.last_field = segment.ecn;
        }
        let enough = if payload > 0 { MARKS_UNTOLD_MAX } else { MARKED_ACKS_UNTOLD_MAX };
        if marked && (untold >= enough || changed) || (changed && payload > 0 && accurate.options_seen) {
            self.ack_now();
        }
    }

    /// Notes that a segment of the peer carries the option.
    pub(crate) fn note_option(&mut self, segment: &Segment) {
        if segment.header.options.counters().is_some_and(|counters| !counters.is_empty())
            && let Some(accurate) = self.accurate()
        {
            accurate.options_seen = true;
        }
    }

    /// Handles the marks in an ACK that has reported `delivered` bytes for the first time (§3.2.2.5.2).
    pub(crate) fn on_ace(&mut self, segment: &Segment, delivered: u32) {
        // Linux: an ACK without news is an old one, unless its timestamp is new.
        let is_newer = |time: Timestamps| time.value.wrapping_sub(self.tcb.ts_recent()).cast_signed() > 0;
        let is_news = self.tcb.has(flag::TIMESTAMPS) && segment.header.options.timestamps.is_some_and(is_newer);
        // The ACK of a SYN-ACK has other contents in ACE.
        let is_first = self.tcb.bytes_acked() == 0 && self.tcb.flight() == 0;
        // After the peer's connection has ended, a record without counts answers there: Linux's, like ours, sends ACE as 0.
        let is_last = self.tcb.is_fin_sent() && self.tcb.flight() == 0 && ace(&segment.header) == 0;
        if delivered == 0 && (is_first || !is_news) || is_last {
            return;
        }
        let mss = self.tcb.mss() as u32;
        // §3.2.2.4: no peer counts three packets before the first data is acknowledged.
        let is_first = self.tcb.bytes_acked() <= delivered as u64;
        let is_cleared = is_first && ace(&segment.header) == 0 && self.ecn().delivered_ce == 0;
        let known = self.ecn().delivered_ce.wrapping_add(PACKETS_INITIAL);
        let ace = ace(&segment.header).wrapping_sub(known) & ACE_MAX;
        let told = segment.header.options.counters().filter(|counters| !counters.is_cleared()).and_then(|counters| counters.ce());
        if is_cleared && told.is_none() {
            return self.stop_marking();
        }
        let Some(accurate) = self.accurate() else { return };
        let marked_bytes = told.map(|told| told.wrapping_sub(accurate.delivered[1]) & BYTES_MASK);
        // A count that goes back comes from an old ACK.
        let marked_bytes = marked_bytes.filter(|&bytes| bytes <= BYTES_MASK / 2);
        if let (Some(told), Some(_)) = (told, marked_bytes) {
            accurate.delivered[1] = told;
            accurate.note_others(segment);
        }
        let delivered_segments = delivered.div_ceil(mss);
        let segments = accurate.safest(ace, delivered_segments, mss, marked_bytes);
        let reduces = segments > 0 && delivered > 0 && self.may_react_to_mark();
        let for_ever = self.accurate().is_some_and(|it| it.is_marked_for_ever(segments, delivered_segments, reduces));
        if for_ever {
            self.stop_marking();
        }
        if segments == 0 {
            return;
        }
        self.count_delivered_ce(segments);
        self.demand_cold().dctcp.mark(segments.saturating_mul(mss));
        self.react_to_mark(delivered);
        self.predict();
    }

    /// Writes ACE, which every header has.
    pub(crate) fn tell_ace(&mut self, header: &mut Header) {
        let Some(accurate) = self.accurate() else { return };
        set_ace(header, accurate.received_ce.wrapping_add(PACKETS_INITIAL));
        accurate.told_ce = accurate.received_ce;
    }

    /// §3.2.2.1: the ACK of a SYN-ACK carries the SYN-ACK's ECN field instead, once.
    pub(crate) fn reflect_syn_ack(&mut self, header: &mut Header) {
        if let Some(field) = self.accurate().and_then(|accurate| accurate.reflect.take()) {
            set_ace(header, ace_of_field(field));
        }
    }

    /// §3.2.3.2.1: number of bytes that new data must leave to the option.
    pub(crate) fn option_due_bytes(&self) -> u32 {
        let accurate = self.shared.cold.get(self.tcb.cold()).and_then(|cold| cold.accurate);
        let is_due = accurate.is_some_and(|accurate| accurate.option_due) && self.shared.config.accurate_option;
        if is_due { OPTION_BYTES } else { 0 }
    }

    /// Writes the option beside the payload of `plan`.
    pub(crate) fn tell_counters_beside_data(&mut self, header: &mut Header, plan: &Plan) {
        let due_bytes = if plan.again || plan.probe { 0 } else { self.option_due_bytes() };
        self.tell_counters(header, plan.segment.saturating_sub(plan.len) + due_bytes);
        if due_bytes > 0
            && plan.len > 0
            && let Some(accurate) = self.accurate()
        {
            accurate.option_due = false;
        }
    }

    /// Writes the option, as far as `room` bytes allow, when the peer's have arrived (§3.2.3.2.3).
    pub(crate) fn tell_counters(&mut self, header: &mut Header, room: u32) {
        if !self.shared.config.accurate_option {
            return;
        }
        let first = header.options.sack().first().copied();
        let duplicate = self.cold().and_then(|cold| cold.duplicate).filter(|&duplicate| first == Some(duplicate));
        let Some(accurate) = self.accurate().filter(|accurate| accurate.options_seen && !accurate.option_blocked) else {
            return;
        };
        let option = accurate.option();
        // Counts that have changed must be in it.
        let needed = if accurate.received[2] == BYTES_INITIAL { OPTION_BYTES_WITHOUT_ECT_0 } else { option.len() };
        let free = HEADER_BYTES_MAX - header.len();
        if free < needed {
            // Linux: the last of several SACK blocks yields its space, when that is enough.
            if header.options.sack().len() <= 2 || free + SACK_BLOCK_BYTES < needed || (room as usize) < needed {
                return;
            }
            header.options.pop_sack();
        }
        header.options.add_counters(option, room as usize);
        if header.options.counters().is_some() {
            accurate.duplicate_told = duplicate.map(|block| block.left);
        }
    }

    /// The range that begins at `left` has come again. If the last ACK that reported it had the option, the path may have
    /// dropped that ACK for it: some paths drop what they do not know (§3.2.3.2.3; Linux, tcp_rcv_spurious_retrans).
    pub(crate) fn on_duplicate(&mut self, left: SeqNum) {
        if let Some(accurate) = self.accurate() {
            accurate.option_blocked |= accurate.duplicate_told == Some(left);
        }
    }

    /// After two timeouts in a row without an ACK, assumes the same of the segments that we send.
    pub(crate) fn on_timeouts(&mut self) {
        let (backoff, in_use) = (self.tcb.backoff(), self.shared.config.accurate_option);
        if let Some(accurate) = self.accurate().filter(|accurate| in_use && accurate.options_seen) {
            accurate.option_blocked |= backoff >= TIMEOUTS_MAX;
        }
    }

    /// Returns true when ACE has the bit that a link which splits packets clears in all but the first.
    pub(crate) fn is_ace_fragile(&self) -> bool {
        let accurate = self.shared.cold.get(self.tcb.cold()).and_then(|cold| cold.accurate);
        accurate.is_some_and(|accurate| accurate.received_ce.wrapping_add(PACKETS_INITIAL) & 2 != 0)
    }
}

#[cfg(test)]
mod tests;
