//! Explicit congestion notification: routers mark instead of dropping, and the sender slows down.
//!
//! Read RFC 3168 §6.1 first. This file has the classic feedback, one bit that is echoed until the sender has confirmed it,
//! and what all kinds of feedback share: the negotiation and the reaction. `accurate` has the feedback of RFC 9768,
//! `congestion` the size of the reduction.
//!
//! Packets with new data are marked ECT(0); SYNs, pure ACKs, probes and retransmissions are not
//! (RFC 3168 §6.1.1, §6.1.4-6.1.6). A reset that answers a SYN with ECN refuses the connection, as in Linux.

use crate::config::{CongestionControl, Ecn, TcpConfig};
use crate::wire::tcp::{ACK, CWR, ECE, Header};

use super::accurate;
use super::cold;
use super::connection::Connection;
use super::output::Plan;
use super::prr::Prr;
use super::segment::Segment;
use super::tcb::{Recovery, Tcb, flag};
use crate::wire::sequence::SeqNum;

/// ECN-capable, in the IP header's field.
pub(crate) const ECT_0: u8 = 2;
/// Congestion experienced; also the mask of the field.
pub(crate) const CE: u8 = 3;
/// Both bits.
const ECHO_AND_REDUCED: u8 = ECE | CWR;

/// Result of the negotiation in the SYNs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EcnMode {
    /// No ECN.
    #[default]
    Off,
    /// RFC 3168
    Classic,
    /// RFC 9768
    Accurate,
    /// RFC 9768, but the path to the peer garbles marks: we give feedback and send no ECN-capable packets.
    AccurateUnmarked,
}

/// ECN state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EcnState {
    /// A mark has arrived: ECE is sent until the peer answers CWR.
    pub(crate) echo: bool,
    /// The window was reduced: CWR is sent with the next new data.
    pub(crate) tell: bool,
    /// The window was reduced for a mark; marks count as the same window until more than this is acknowledged.
    pub(crate) reduction: Option<SeqNum>,
    /// Number of segments that arrived at the peer with a mark, from its reports.
    pub(crate) delivered_ce: u32,
}

impl EcnState {
    /// Returns true when segments may take the fast path.
    pub(crate) fn is_undisturbed(&self) -> bool {
        !self.echo && self.reduction.is_none()
    }
}

impl Ecn {
    /// The mode that our SYNs ask for.
    fn request(self) -> EcnMode {
        match self {
            Ecn::Off | Ecn::Passive | Ecn::AccuratePassive => EcnMode::Off,
            Ecn::Request | Ecn::AccuratePassiveRequest => EcnMode::Classic,
            Ecn::AccurateRequest => EcnMode::Accurate,
        }
    }

    fn answers_accurately(self) -> bool {
        matches!(self, Ecn::AccurateRequest | Ecn::AccuratePassiveRequest | Ecn::AccuratePassive)
    }
}

/// RFC 3168 §6.1.1: the answer to a SYN. A SYN that is itself marked does not ask, as in Linux, except with DCTCP.
pub(crate) fn answer(config: &TcpConfig, algorithm: CongestionControl, syn: &Segment) -> EcnMode {
    // RFC 9768 §3.1.3: any value other than nothing and classic asks for accurate feedback.
    if config.ecn.answers_accurately() && !matches!(accurate::ace(&syn.header), 0b000 | 0b011) {
        return EcnMode::Accurate;
    }
    let asks = syn.header.flags & ECHO_AND_REDUCED == ECHO_AND_REDUCED;
    let willing = (config.ecn != Ecn::Off && syn.ecn == 0) || algorithm == CongestionControl::Dctcp;
    if asks && willing { EcnMode::Classic } else { EcnMode::Off }
}

/// Asks for ECN in a SYN.
pub(crate) fn mark_syn(mode: EcnMode, header: &mut Header) {
    if mode != EcnMode::Off {
        header.flags |= ECHO_AND_REDUCED;
        header.ae = mode == EcnMode::Accurate;
    }
}

/// The ECN field of a SYN-ACK: RFC 8257 §3.5 wants all packets marked.
pub(crate) fn ect_of_syn_ack(mode: EcnMode, algorithm: CongestionControl) -> u8 {
    if mode == EcnMode::Classic && algorithm == CongestionControl::Dctcp { ECT_0 } else { 0 }
}

/// Writes the agreed mode into a SYN-ACK, when the SYN had `field`. A lost SYN-ACK may have been lost for that (RFC
/// 9768 §3.1.4.2): the first retransmission goes without the option, later ones without ECN.
pub(crate) fn mark_syn_ack(agreed: (EcnMode, u8), config: &TcpConfig, retries: u8, header: &mut Header) {
    match agreed.0 {
        EcnMode::Classic => header.flags |= ECE,
        EcnMode::Accurate | EcnMode::AccurateUnmarked if !has_given_up(config, retries) => {
            accurate::set_ace(header, accurate::ace_of_field(agreed.1));
            if retries == 0 && config.accurate_option {
                header.options.add_counters(accurate::initial_option(), usize::MAX);
            }
        }
        EcnMode::Off | EcnMode::Accurate | EcnMode::AccurateUnmarked => {}
    }
}

/// Returns true when a SYN-ACK that was retransmitted `retries` times no longer mentions ECN.
fn has_given_up(config: &TcpConfig, retries: u8) -> bool {
    retries > 1 && config.ecn_fallback
}

/// The mode of a server once its SYN-ACK, retransmitted `retries` times, is acknowledged. RFC 9768 §3.1.5: when a SYN-ACK
/// did not mention ECN, the client may use none, and nothing is marked.
pub(crate) fn settled(mode: EcnMode, config: &TcpConfig, retries: u8) -> EcnMode {
    if mode == EcnMode::Accurate && has_given_up(config, retries) { EcnMode::AccurateUnmarked } else { mode }
}

/// The mode after a repeated SYN; its first copy led to `mode`. RFC 9768 §3.1.5: the mode stays, but when the client asks
/// for nothing now, no marked packet goes to it.
pub(crate) fn asked_again(mode: EcnMode, syn: &Segment) -> EcnMode {
    if mode == EcnMode::Accurate && accurate::ace(&syn.header) == 0 { EcnMode::AccurateUnmarked } else { mode }
}

impl Tcb {
    /// The ECN field of packets that may be marked.
    pub(crate) fn ect(&self) -> u8 {
        // Rate-based controls do not react to marks, so they do not ask for them.
        let heeds = !self.congestion().is_rate_based();
        let marks = heeds && matches!(self.ecn_mode(), EcnMode::Classic | EcnMode::Accurate);
        let may = self.state().is_synchronized() || self.congestion() == CongestionControl::Dctcp;
        if marks && may { ECT_0 } else { 0 }
    }
}

impl Connection<'_, '_> {
    /// Chooses the mode of our SYN; a lost SYN may have been lost for that (RFC 3168 §6.1.1.1; RFC 9768 §3.1.4.1 has a
    /// second try).
    pub(crate) fn choose_ecn(&mut self) {
        let config = &self.shared.config;
        let request = config.ecn.request();
        let tries = if request == EcnMode::Accurate { 2 } else { 1 };
        let gives_up = config.ecn_fallback && self.tcb.backoff() >= tries;
        let mode = match request {
            _ if gives_up => EcnMode::Off,
            EcnMode::Off if self.tcb.congestion() == CongestionControl::Dctcp => EcnMode::Classic,
            mode => mode,
        };
        self.tcb.set_ecn_mode(mode);
    }

    /// The mode that follows from our request and the peer's SYN or SYN-ACK.
    pub(crate) fn agree_on_ecn(&self, segment: &Segment) -> EcnMode {
        let asked = match self.tcb.ecn_mode() {
            // RFC 9768 §3.1.4.1: the SYN that arrived may be the one that asked.
            EcnMode::Off if self.shared.config.ecn.request() == EcnMode::Accurate => EcnMode::Accurate,
            asked => asked,
        };
        if !segment.has(ACK) {
            // Both ends open: the mode that both ask for.
            return match (asked, answer(&self.shared.config, self.tcb.congestion(), segment)) {
                (EcnMode::Off, _) => EcnMode::Off,
                (EcnMode::Classic, EcnMode::Accurate) => EcnMode::Classic,
                (_, answer) => answer,
            };
        }
        let ace = accurate::ace(&segment.header);
        match asked {
            EcnMode::Off => EcnMode::Off,
            EcnMode::Classic if ace & 0b011 == 0b001 => EcnMode::Classic,
            EcnMode::Classic => EcnMode::Off,
            EcnMode::Accurate | EcnMode::AccurateUnmarked => self.agree_on_accurate(ace),
        }
    }

    /// RFC 9768 §3.1.1, table 2. A peer that has seen our SYN with another mark than it had reports a path that garbles
    /// marks (§3.2.2.3), unless the mark says congestion.
    fn agree_on_accurate(&self, ace: u32) -> EcnMode {
        let sent = self.tcb.ect();
        // §3.1.3: this value is reserved, and counts as a report that the SYN arrived unchanged.
        let ace = if ace == 0b101 { accurate::ace_of_field(sent) } else { ace };
        let is_possible = |field| field == sent || (sent != 0 && field == CE);
        match (ace, accurate::field_of_ace(ace)) {
            (0b001, _) => EcnMode::Classic,
            (_, Some(field)) if is_possible(field) => EcnMode::Accurate,
            (_, Some(_)) if self.shared.config.ecn_fallback => EcnMode::AccurateUnmarked,
            (_, Some(_)) => EcnMode::Accurate,
            (_, None) => EcnMode::Off,
        }
    }

    /// Returns true when a packet may be marked.
    #[inline]
    pub(crate) fn is_markable(&self, plan: Option<&Plan>) -> bool {
        plan.is_some_and(|plan| plan.len > 0 && !plan.again)
            || self.tcb.congestion() == CongestionControl::Dctcp
            || self.tcb.ecn_mode() == EcnMode::Accurate
    }

    /// The type of service of an ACK that another part of the stack writes.
    pub(crate) fn acknowledgment_tos(&self) -> u8 {
        let tos = self.tcb.flow().tos;
        if self.is_markable(None) { tos } else { tos & !CE }
    }

    /// The ECN state.
    pub(crate) fn ecn(&self) -> EcnState {
        self.shared.cold.get(self.tcb.cold()).map_or(EcnState::default(), |cold| cold.ecn)
    }

    /// Handles the mark of data that has arrived in the window: the receiver's part (RFC 3168 §6.1.3).
    pub(crate) fn on_ce(&mut self, segment: &Segment) {
        if self.tcb.ecn_mode() != EcnMode::Classic {
            return;
        }
        if self.tcb.congestion() == CongestionControl::Dctcp {
            return self.on_ce_accurate(segment.ecn == CE);
        }
        if segment.has(CWR)
            && let Some(cold) = self.cold()
        {
            cold.ecn.echo = false;
            // The sender's window may be down to what it has just sent.
            self.ack_now();
        }
        if segment.ecn == CE && !self.ecn().echo {
            self.demand_cold().ecn.echo = true;
            self.ack_now();
        }
        self.predict();
    }

    /// RFC 8257 §3.2, figure 1: ACKs report for exactly which segments there was a mark, so data received before a change is
    /// acknowledged before it.
    fn on_ce_accurate(&mut self, marked: bool) {
        if self.ecn().echo == marked {
            return;
        }
        if self.tcb.has(flag::ACK_PENDING) {
            let header = self.header(self.tcb.snd_nxt());
            let tos = self.tcb.flow().tos;
            self.shared.replies.push(self.tcb.key(), tos, header);
            self.ack_sent();
        }
        self.demand_cold().ecn.echo = marked;
        self.ack_now();
        self.predict();
    }

    /// Sets ECE in everything that is sent while a mark is to be echoed, or writes ACE for accurate feedback.
    #[inline]
    pub(crate) fn mark_header(&mut self, header: &mut Header) {
        if self.tcb.ecn_mode() != EcnMode::Off {
            self.mark_header_of_flow(header);
        }
    }

    #[inline(never)]
    fn mark_header_of_flow(&mut self, header: &mut Header) {
        if self.ecn().echo {
            header.flags |= ECE;
        }
        self.tell_ace(header);
    }

    /// Returns true when the next new data must carry CWR.
    #[inline]
    pub(crate) fn has_to_tell_reduction(&self) -> bool {
        self.tcb.cold() != cold::NONE && self.ecn().tell
    }

    /// Returns true when new data goes in packets of one segment: a link that splits larger ones would repeat CWR, or clear
    /// it in all but the first piece.
    #[inline]
    pub(crate) fn has_cwr_to_send(&self) -> bool {
        self.tcb.cold() != cold::NONE && (self.ecn().tell || self.is_ace_fragile())
    }

    /// Notes that new data goes out with CWR.
    pub(crate) fn reduction_told(&mut self) {
        if let Some(cold) = self.cold() {
            cold.ecn.tell = false;
        }
    }

    /// Returns true while cwnd is on its way to ssthresh because of a mark.
    #[inline]
    pub(crate) fn is_reducing(&self) -> bool {
        self.tcb.cold() != cold::NONE && self.ecn().reduction.is_some() && !self.is_rate_based()
    }

    /// RFC 8257 §3.3: counts what each ACK acknowledges, for DCTCP.
    #[inline]
    pub(crate) fn count_marked(&mut self, segment: &Segment) {
        let ack = segment.acknowledgment();
        if self.tcb.congestion() != CongestionControl::Dctcp
            || self.tcb.ecn_mode() == EcnMode::Off
            || !ack.after(self.tcb.snd_una())
        {
            return;
        }
        let (acked, nxt) = (ack - self.tcb.snd_una(), self.tcb.snd_nxt());
        let marked = if segment.has(ECE) && self.tcb.ecn_mode() == EcnMode::Classic { acked } else { 0 };
        self.demand_cold().dctcp.on_ack(ack, nxt, acked, marked);
    }

    /// Handles ECE in an acceptable ACK: the sender's part (RFC 3168 §6.1.2).
    pub(crate) fn on_ece(&mut self, segment: &Segment) {
        let ack = segment.acknowledgment();
        if self.tcb.ecn_mode() != EcnMode::Classic
            || !segment.has(ECE)
            || ack.before(self.tcb.snd_una())
            || self.tcb.flight() == 0
        {
            return;
        }
        let delivered = (ack - self.tcb.snd_una()).div_ceil(self.tcb.mss() as u32);
        self.count_delivered_ce(delivered);
        self.react_to_mark(0);
    }

    /// Counts `segments` more that have arrived with a mark, from the peer's report.
    pub(crate) fn count_delivered_ce(&mut self, segments: u32) {
        self.env.counters.add(crate::stats::Counter::TcpDeliveredCe, segments as u64);
        let cold = self.demand_cold();
        cold.ecn.delivered_ce = cold.ecn.delivered_ce.wrapping_add(segments);
    }

    /// Returns true when a mark reported now would reduce the window.
    pub(crate) fn may_react_to_mark(&self) -> bool {
        self.tcb.recovery() == Recovery::Open && self.ecn().reduction.is_none()
    }

    /// Reduces the window once per window of data, and not in a recovery, which has reduced it already. `delivered` bytes
    /// have left the flight with the ACK that reports the mark.
    pub(crate) fn react_to_mark(&mut self, delivered: u32) {
        if !self.may_react_to_mark() {
            return;
        }
        if self.is_rate_based() {
            // Linux: CWR goes to the peer, and the rate model decides about its pace.
            self.begin_reduction();
        } else {
            self.reduce_window_for_mark(delivered);
        }
        let nxt = self.tcb.snd_nxt();
        let cold = self.demand_cold();
        cold.undo = None;
        cold.prr = Prr::default();
        cold.ecn.reduction = Some(nxt);
        self.predict();
    }

    /// Starts a reduction of the window, for any reason. Returns false when a mark has reduced it within this window.
    pub(crate) fn begin_reduction(&mut self) -> bool {
        let classic = self.tcb.ecn_mode() == EcnMode::Classic;
        let cold = self.demand_cold();
        cold.ecn.tell = classic;
        cold.ecn.reduction.take().is_none()
    }

    /// Takes the ACK of `ack`: a reduction ends when data beyond its end is acknowledged, as in Linux.
    pub(crate) fn end_reduction(&mut self, ack: SeqNum) {
        let Some(cold) = self.cold() else { return };
        let ends = cold.ecn.reduction.take_if(|end| ack.after(*end)).is_some();
        if ends && !self.is_rate_based() {
            self.tcb.deflate_window();
        }
    }
}

super::handover::part::parts!(EcnState { echo, tell, reduction, delivered_ce });
super::handover::part::choices!(EcnMode { Off, Classic, Accurate, AccurateUnmarked });
