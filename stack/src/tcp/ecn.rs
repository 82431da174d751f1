//! Explicit congestion notification: routers mark instead of dropping, and the sender slows down.
//!
//! Read RFC 3168 §6.1 first. Here is the classic feedback, one bit that is echoed until it was heard,
//! and what all kinds have in common: the handshake and the reaction. `accurate` has the feedback of
//! RFC 9768, `congestion` says how much slower.
//!
//! Packets with new data are marked ECT(0); SYNs, pure ACKs, probes and retransmissions are not
//! (RFC 3168 §6.1.1, §6.1.4-6.1.6). Whether a reset answers a SYN that asks for ECN is not looked at:
//! as in Linux it refuses the connection.

use crate::config::{CongestionControl, Ecn, TcpConfig};
use crate::wire::tcp::{ACK, CWR, ECE, Header};

use super::accurate;
use super::cold;
use super::connection::Connection;
use super::output::Plan;
use super::prr::Prr;
use super::segment::Segment;
use super::sequence::SeqNum;
use super::tcb::{Recovery, Tcb, flag};

/// ECN-capable, in the IP header's field.
pub(crate) const ECT_0: u8 = 2;
/// Congestion experienced; also the mask of the field.
pub(crate) const CE: u8 = 3;
/// Both bits.
const ECHO_AND_REDUCED: u8 = ECE | CWR;

/// What the SYNs have agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EcnMode {
    /// Nothing.
    #[default]
    Off,
    /// RFC 3168
    Classic,
    /// RFC 9768
    Accurate,
    /// RFC 9768, but the way to the peer garbles marks: we give feedback and send nothing that is ECN-capable.
    AccurateUnmarked,
}

/// What a connection remembers of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EcnState {
    /// A mark has arrived: ECE is told until the peer answers CWR.
    pub(crate) echo: bool,
    /// The window was reduced: CWR is told with the next new data.
    pub(crate) tell: bool,
    /// The window was reduced because of a mark; until more than this is acknowledged, others are of the same window.
    pub(crate) reduction: Option<SeqNum>,
    /// Segments that arrived with a mark, as the peer reports.
    pub(crate) delivered_ce: u32,
}

impl EcnState {
    /// Whether segments may take the short way.
    pub(crate) fn is_undisturbed(&self) -> bool {
        !self.echo && self.reduction.is_none()
    }
}

impl Ecn {
    /// What our SYNs ask for.
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

/// RFC 3168 §6.1.1: what to answer to a SYN. One that is marked itself does not count, as in Linux, but for DCTCP.
pub(crate) fn answer(config: &TcpConfig, algorithm: CongestionControl, syn: &Segment) -> EcnMode {
    // RFC 9768 §3.1.3: what is neither nothing nor classic asks for accurate feedback.
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

/// Says in a SYN-ACK what was agreed, when the SYN had `field`. One that was lost may have been lost for that (RFC
/// 9768 §3.1.4.2): first it goes without the option, then without anything.
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

/// Whether a SYN-ACK that was sent again so often says nothing of ECN any more.
fn has_given_up(config: &TcpConfig, retries: u8) -> bool {
    retries > 1 && config.ecn_fallback
}

/// What a server has agreed on once its SYN-ACK, sent again so often, is acknowledged. RFC 9768 §3.1.5: where a SYN-ACK has said
/// nothing of ECN, the client may use none, and nothing is marked.
pub(crate) fn settled(mode: EcnMode, config: &TcpConfig, retries: u8) -> EcnMode {
    if mode == EcnMode::Accurate && has_given_up(config, retries) { EcnMode::AccurateUnmarked } else { mode }
}

/// A SYN has come again that first led to `mode`. RFC 9768 §3.1.5: the mode stays, but to a client that asks for nothing now nothing
/// goes that is marked.
pub(crate) fn asked_again(mode: EcnMode, syn: &Segment) -> EcnMode {
    if mode == EcnMode::Accurate && accurate::ace(&syn.header) == 0 { EcnMode::AccurateUnmarked } else { mode }
}

impl Tcb {
    /// The ECN field of packets that may be marked.
    pub(crate) fn ect(&self) -> u8 {
        // BBR does not heed marks, so it does not ask for them.
        let heeds = self.congestion != CongestionControl::Bbr;
        let marks = heeds && matches!(self.ecn_mode(), EcnMode::Classic | EcnMode::Accurate);
        let may = self.state.is_synchronized() || self.congestion == CongestionControl::Dctcp;
        if marks && may { ECT_0 } else { 0 }
    }
}

impl Connection<'_, '_> {
    /// What our SYN asks for; one that was lost may have been lost for that (RFC 3168 §6.1.1.1; RFC 9768 §3.1.4.1 has
    /// a second try).
    pub(crate) fn choose_ecn(&mut self) {
        let config = &self.shared.config;
        let request = config.ecn.request();
        let tries = if request == EcnMode::Accurate { 2 } else { 1 };
        let gives_up = config.ecn_fallback && self.tcb.backoff >= tries;
        let mode = match request {
            _ if gives_up => EcnMode::Off,
            EcnMode::Off if self.tcb.congestion == CongestionControl::Dctcp => EcnMode::Classic,
            mode => mode,
        };
        self.tcb.set_ecn_mode(mode);
    }

    /// What the peer's SYN or SYN-ACK says to what ours has asked for.
    pub(crate) fn agree_on_ecn(&self, segment: &Segment) -> EcnMode {
        let asked = match self.tcb.ecn_mode() {
            // RFC 9768 §3.1.4.1: the SYN that has asked may have been the one that arrived.
            EcnMode::Off if self.shared.config.ecn.request() == EcnMode::Accurate => EcnMode::Accurate,
            asked => asked,
        };
        if !segment.has(ACK) {
            // Both ends open: what both ask for, at least.
            return match (asked, answer(&self.shared.config, self.tcb.congestion, segment)) {
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

    /// RFC 9768 §3.1.1, table 2. Who has seen our SYN with another mark than it had tells of a way that garbles them
    /// (§3.2.2.3), unless congestion is what it has experienced.
    fn agree_on_accurate(&self, ace: u32) -> EcnMode {
        let sent = self.tcb.ect();
        // §3.1.3: this is reserved, and taken for news of a SYN that arrived as it was sent.
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

    /// Whether a packet may be marked.
    #[inline]
    pub(crate) fn is_markable(&self, plan: Option<&Plan>) -> bool {
        plan.is_some_and(|plan| plan.len > 0 && !plan.again)
            || self.tcb.congestion == CongestionControl::Dctcp
            || self.tcb.ecn_mode() == EcnMode::Accurate
    }

    /// The type of service of an ACK that another part of the stack writes.
    pub(crate) fn acknowledgment_tos(&self) -> u8 {
        let tos = self.tcb.flow().tos;
        if self.is_markable(None) { tos } else { tos & !CE }
    }

    /// What is known of marks.
    pub(crate) fn ecn(&self) -> EcnState {
        self.shared.cold.get(self.tcb.cold).map_or(EcnState::default(), |cold| cold.ecn)
    }

    /// Data has arrived in the window: the receiver's part (RFC 3168 §6.1.3).
    pub(crate) fn heed_mark(&mut self, segment: &Segment) {
        if self.tcb.ecn_mode() != EcnMode::Classic {
            return;
        }
        if self.tcb.congestion == CongestionControl::Dctcp {
            return self.heed_mark_exactly(segment.ecn == CE);
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

    /// RFC 8257 §3.2, figure 1: ACKs say for exactly which segments there was a mark, so that what was received
    /// before a change is acknowledged before.
    fn heed_mark_exactly(&mut self, marked: bool) {
        if self.ecn().echo == marked {
            return;
        }
        if self.tcb.has(flag::ACK_PENDING) {
            let header = self.header(self.tcb.snd_nxt);
            let tos = self.tcb.flow().tos;
            self.shared.replies.push(self.tcb.key(), tos, header);
            self.ack_sent();
        }
        self.demand_cold().ecn.echo = marked;
        self.ack_now();
        self.predict();
    }

    /// ECE in everything that is sent, while a mark has to be told; or what accurate feedback has in its place.
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

    /// Whether the next new data has to say CWR.
    #[inline]
    pub(crate) fn has_to_tell_reduction(&self) -> bool {
        self.tcb.cold != cold::NONE && self.ecn().tell
    }

    /// Whether new data goes in packets of one segment: a link that cuts others would repeat CWR, or clear it in all
    /// but the first piece.
    #[inline]
    pub(crate) fn has_cwr_to_send(&self) -> bool {
        self.tcb.cold != cold::NONE && (self.ecn().tell || self.is_ace_fragile())
    }

    /// New data goes out with CWR.
    pub(crate) fn reduction_told(&mut self) {
        if let Some(cold) = self.cold() {
            cold.ecn.tell = false;
        }
    }

    /// Whether cwnd is on its way to ssthresh because of a mark.
    #[inline]
    pub(crate) fn is_reducing(&self) -> bool {
        self.tcb.cold != cold::NONE && self.ecn().reduction.is_some() && !self.is_modelled()
    }

    /// RFC 8257 §3.3: DCTCP counts what every ACK acknowledges.
    #[inline]
    pub(crate) fn count_marked(&mut self, segment: &Segment) {
        let ack = segment.acknowledgment();
        if self.tcb.congestion != CongestionControl::Dctcp || self.tcb.ecn_mode() == EcnMode::Off || !ack.after(self.tcb.snd_una)
        {
            return;
        }
        let (acked, nxt) = (ack - self.tcb.snd_una, self.tcb.snd_nxt);
        let marked = if segment.has(ECE) && self.tcb.ecn_mode() == EcnMode::Classic { acked } else { 0 };
        self.demand_cold().dctcp.on_ack(ack, nxt, acked, marked);
    }

    /// An acceptable ACK says ECE: the sender's part (RFC 3168 §6.1.2).
    pub(crate) fn heed_echo(&mut self, segment: &Segment) {
        let ack = segment.acknowledgment();
        if self.tcb.ecn_mode() != EcnMode::Classic || !segment.has(ECE) || ack.before(self.tcb.snd_una) || self.tcb.flight() == 0
        {
            return;
        }
        let delivered = (ack - self.tcb.snd_una).div_ceil(self.tcb.mss as u32);
        self.count_delivered_ce(delivered);
        self.react_to_mark(0);
    }

    /// The peer reports that `segments` more have arrived with a mark.
    pub(crate) fn count_delivered_ce(&mut self, segments: u32) {
        self.env.counters.add(crate::stats::Counter::TcpDeliveredCe, segments as u64);
        let cold = self.demand_cold();
        cold.ecn.delivered_ce = cold.ecn.delivered_ce.wrapping_add(segments);
    }

    /// Whether a mark that is told now would reduce the window.
    pub(crate) fn may_react_to_mark(&self) -> bool {
        self.tcb.recovery == Recovery::Open && self.ecn().reduction.is_none()
    }

    /// Once per window, and not in a recovery, which has reduced the window already. `delivered` bytes are not under
    /// way any more since the ACK that tells of the mark.
    pub(crate) fn react_to_mark(&mut self, delivered: u32) {
        if !self.may_react_to_mark() {
            return;
        }
        if self.is_modelled() {
            // As Linux: the peer hears CWR, the model of the path says what it is worth.
            self.begin_reduction();
        } else {
            self.reduce_window_for_mark(delivered);
        }
        let nxt = self.tcb.snd_nxt;
        let cold = self.demand_cold();
        cold.undo = None;
        cold.prr = Prr::default();
        cold.ecn.reduction = Some(nxt);
        self.predict();
    }

    /// A reduction of the window begins, for whatever reason. `false`: a mark has reduced it within this window.
    pub(crate) fn begin_reduction(&mut self) -> bool {
        let classic = self.tcb.ecn_mode() == EcnMode::Classic;
        let cold = self.demand_cold();
        cold.ecn.tell = classic;
        cold.ecn.reduction.take().is_none()
    }

    /// `ack` is acknowledged: as in Linux a reduction ends when something from after it is.
    pub(crate) fn end_reduction(&mut self, ack: SeqNum) {
        let Some(cold) = self.cold() else { return };
        let ends = cold.ecn.reduction.take_if(|end| ack.after(*end)).is_some();
        if ends && !self.is_modelled() {
            self.tcb.cwnd = self.tcb.ssthresh;
        }
    }
}
