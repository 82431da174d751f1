//! A connection as one value: plain data in the terms of RFC 9293 and of the mechanisms that go on with it.
//!
//! Times are relative to the instant of the export, so that the value can go to a stack with another clock: deadlines are
//! what is left of them, times in the past are negative modulo 2^32. Sequence numbers are those of the wire. What only the
//! stack's own mechanisms understand (loss detection, congestion control) is not public: a reader outside the stack needs
//! the rest.

use alloc::vec::Vec;

use super::part::{choices, parts};
use crate::address::SocketAddress;
use crate::config::CongestionControl;
use crate::tcp::accurate::Accurate;
use crate::tcp::cold::Timeouts;
use crate::tcp::congestion::bbr::Measured;
use crate::tcp::congestion::cubic::Cubic;
use crate::tcp::congestion::dctcp::Dctcp;
use crate::tcp::conn_stats::Counts;
use crate::tcp::ecn::{EcnMode, EcnState};
use crate::tcp::frto::Frto;
use crate::tcp::interactive::Interactive;
use crate::tcp::mtu_probe::MtuProbe;
use crate::tcp::prr::Prr;
use crate::tcp::rack::Rack;
use crate::tcp::receive_tuning::ReceiveTuning;
use crate::tcp::sack::Scoreboard;
use crate::tcp::state::State;
use crate::tcp::tcb::Recovery;
use crate::tcp::tlp::Probe;
use crate::tcp::undo::Undo;
use crate::tcp::urgent::Marks;
use crate::wire::sequence::SeqNum;
use crate::wire::tcp::SackBlock;

/// See the module's text. [`Stack::export`](crate::Stack::export) makes it and [`Stack::import`](crate::Stack::import)
/// takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionImage {
    /// Our end.
    pub local: SocketAddress,
    /// The peer's end.
    pub remote: SocketAddress,
    /// A synchronized state other than TIME-WAIT.
    pub state: State,
    /// The application has closed: nothing reads, and nothing names the connection.
    pub is_orphan: bool,
    /// What the SYNs have agreed on.
    pub terms: Terms,
    /// What the application has set.
    pub settings: Settings,
    /// The receive sequence space and its data.
    pub receiving: Receiving,
    /// The send sequence space and its data.
    pub sending: Sending,
    /// Congestion control and loss recovery.
    pub recovering: Recovering,
    /// Round trips, deadlines and what is owed.
    pub deadlines: Deadlines,
    pub(crate) counts: Counts,
}

/// What the SYNs have agreed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Payload bytes of a full segment.
    pub mss: u16,
    /// Snd.Wind.Shift
    pub send_scale: u8,
    /// Rcv.Wind.Shift
    pub receive_scale: u8,
    /// RFC 2018 is on.
    pub sack: bool,
    /// RFC 7323 timestamps; `None`: they are off.
    pub timestamps: Option<TimestampClock>,
    pub(crate) ecn: EcnMode,
    pub(crate) ecn_state: EcnState,
    pub(crate) accurate: Option<Accurate>,
}

/// Both ends' timestamp clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampClock {
    /// The TSval of a segment sent at the export; one more each millisecond.
    pub now: u32,
    /// TS.Recent; `None`: it is not known, and the peer's next segment tells it.
    pub recent: Option<u32>,
}

/// What the application has set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// TCP_NODELAY
    pub no_delay: bool,
    /// TCP_CORK, or MSG_MORE's.
    pub cork: bool,
    /// TCP_QUICKACK
    pub quick_ack: bool,
    /// TCP_QUICKACK was set to 0.
    pub delays_acks: bool,
    /// IP_TOS, IPV6_TCLASS
    pub type_of_service: u8,
    /// IP_TTL; 0: the default.
    pub time_to_live: u8,
    /// Limit of the send queue, bytes.
    pub send_buffer: u32,
    /// SO_SNDBUF was set.
    pub is_send_buffer_locked: bool,
    /// Limit of data received in order, bytes.
    pub receive_buffer: u32,
    /// SO_MAX_PACING_RATE, bytes per second; 0: none.
    pub pacing_rate_max: u64,
    /// TCP_MAXSEG when our SYN was sent; 0: not set.
    pub maximum_segment_size: u16,
    /// The application has ended reading.
    pub is_read_shut: bool,
    /// Segments that have arrived since MSG_MORE was given; `None`: it is not.
    pub(crate) more_for: Option<u32>,
    pub(crate) timeouts: Timeouts,
}

/// The receive sequence space and its data.
#[derive(Clone, Debug, PartialEq)]
pub struct Receiving {
    /// RCV.NXT
    pub nxt: u32,
    /// Right edge of the advertised window.
    pub edge: u32,
    /// RFC 7323: Last.ACK.sent
    pub last_ack_sent: u32,
    /// Bytes in order before RCV.NXT (and before the peer's FIN) that the owner has not taken.
    pub unread: Vec<u8>,
    /// Those, and bytes that the owner has taken and not reported as consumed.
    pub unconsumed: u32,
    /// In-order bytes since the handshake.
    pub bytes: u64,
    /// Data out of order, sorted.
    pub gaps: Vec<Gap>,
    /// Sequence number of the peer's FIN, when it has arrived before the data in front of it.
    pub fin: Option<u32>,
    /// A range that has arrived twice and is to be reported.
    pub(crate) duplicate: Option<SackBlock>,
    /// Insertions out of order since the last report of intervals, and since the one before.
    pub(crate) told: (u32, u32),
    pub(crate) tuning: ReceiveTuning,
    pub(crate) interactive: Interactive,
}

/// Data behind a gap.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    /// Sequence number of its first byte.
    pub start: u32,
    /// The bytes.
    pub data: Vec<u8>,
    /// Insertions since it grew, and RCV.NXT then.
    pub(crate) age: u32,
    pub(crate) rcv_nxt: u32,
}

/// The send sequence space and its data.
#[derive(Clone, Debug, PartialEq)]
pub struct Sending {
    /// SND.UNA
    pub una: u32,
    /// SND.NXT
    pub nxt: u32,
    /// SND.WND, bytes.
    pub wnd: u32,
    /// SND.WL1
    pub wl1: u32,
    /// Max(SND.WND)
    pub max_window: u32,
    /// One past the last segment that was sent smaller than the MSS.
    pub sml: u32,
    /// Payload bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Data from SND.UNA on, sent or not.
    pub extents: Vec<Extent>,
    /// Urgent data of both directions.
    pub(crate) urgent: Marks,
}

/// A piece of the send queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Extent {
    /// The bytes.
    pub data: Vec<u8>,
    /// Number of times that bytes of it were sent again.
    pub retransmits: u8,
    /// Time at which it was last sent for the first time, microseconds.
    pub(crate) sent_at: u32,
    /// The sender's data ended with it when it was first sent.
    pub(crate) is_pushed: bool,
}

/// Congestion control and loss recovery.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovering {
    /// Congestion window, bytes.
    pub cwnd: u32,
    /// Slow start threshold, bytes.
    pub ssthresh: u32,
    pub(crate) model: Model,
    pub(crate) recovery: Recovery,
    pub(crate) recover: u32,
    pub(crate) dup_acks: u8,
    pub(crate) is_cwnd_limited: bool,
    pub(crate) notes_most: bool,
    /// The first unacknowledged segment must be retransmitted.
    pub(crate) retransmits: bool,
    pub(crate) scoreboard: Scoreboard,
    pub(crate) rack: Rack,
    pub(crate) probe: Probe,
    pub(crate) prr: Prr,
    pub(crate) undo: Option<Undo>,
    pub(crate) frto: Frto,
    pub(crate) mtu_probe: MtuProbe,
}

/// The congestion control, with its own state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Model {
    NewReno,
    Cubic(Cubic),
    Dctcp(Dctcp),
    /// The model begins anew with what it had measured; `None`: nothing yet.
    Bbr(Option<Measured>),
}

/// Round trips, deadlines and what is owed.
#[derive(Clone, Debug, PartialEq)]
pub struct Deadlines {
    /// SRTT, microseconds; 0: no sample yet.
    pub srtt_us: u32,
    /// RTTVAR, microseconds.
    pub rttvar_us: u32,
    /// Smallest round trip of the last minutes, microseconds.
    pub min_rtt_us: Option<u32>,
    /// Rest of the retransmission or persist timer, milliseconds; `None`: not armed.
    pub retransmission_ms: Option<u32>,
    /// What that timer is for.
    pub purpose: Purpose,
    /// Timeouts without progress.
    pub backoff: u8,
    /// Probes, of keepalive or of a zero window, without an answer.
    pub probes: u8,
    /// Rest of the delay of an ACK, milliseconds; `None`: none is delayed.
    pub delayed_ack_ms: Option<u32>,
    /// Rest of keepalive's timer, or of an orphan's FIN-WAIT-2, milliseconds; `None`: not armed.
    pub idle_ms: Option<u32>,
    /// Milliseconds since the last segment arrived.
    pub silent_ms: Option<u32>,
    /// An ACK must go out now.
    pub owes_ack: bool,
    /// Received data has not been acknowledged yet.
    pub is_ack_pending: bool,
    /// A probe must go out now.
    pub owes_probe: bool,
    /// Milliseconds since the last answer to an invalid segment.
    pub(crate) answered_ms: Option<u32>,
}

/// Purpose of the timer that the kinds of retransmission share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// RFC 6298
    Retransmission,
    /// RFC 8985 §7
    Probe,
    /// RFC 8985 §6.2, step 5
    Reordering,
    /// RFC 9293 §3.8.6.1
    Persist,
}

parts!(ConnectionImage { local, remote, state, is_orphan, terms, settings, receiving, sending, recovering, deadlines, counts });
parts!(Terms { mss, send_scale, receive_scale, sack, timestamps, ecn, ecn_state, accurate });
parts!(TimestampClock { now, recent });
parts!(Settings {
    no_delay,
    cork,
    quick_ack,
    delays_acks,
    type_of_service,
    time_to_live,
    send_buffer,
    is_send_buffer_locked,
    receive_buffer,
    pacing_rate_max,
    maximum_segment_size,
    is_read_shut,
    more_for,
    timeouts
});
parts!(Receiving { nxt, edge, last_ack_sent, unread, unconsumed, bytes, gaps, fin, duplicate, told, tuning, interactive });
parts!(Gap { start, data, age, rcv_nxt });
parts!(Sending { una, nxt, wnd, wl1, max_window, sml, bytes_acked, extents, urgent });
parts!(Extent { data, retransmits, sent_at, is_pushed });
parts!(Recovering {
    cwnd,
    ssthresh,
    model,
    recovery,
    recover,
    dup_acks,
    is_cwnd_limited,
    notes_most,
    retransmits,
    scoreboard,
    rack,
    probe,
    prr,
    undo,
    frto,
    mtu_probe
});
parts!(Deadlines {
    srtt_us,
    rttvar_us,
    min_rtt_us,
    retransmission_ms,
    purpose,
    backoff,
    probes,
    delayed_ack_ms,
    idle_ms,
    silent_ms,
    owes_ack,
    is_ack_pending,
    owes_probe,
    answered_ms
});
choices!(Purpose { Retransmission, Probe, Reordering, Persist });
choices!(Recovery { Open, Fast, Loss });
choices!(State { Closed, Listen, SynSent, SynReceived, Established, FinWait1, FinWait2, CloseWait, Closing, LastAck, TimeWait });

/// Names a [`Model`] in an image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ModelKind {
    Cubic,
    NewReno,
    Bbr,
    Dctcp,
}

choices!(ModelKind { Cubic, NewReno, Bbr, Dctcp });

impl super::part::Part for Model {
    fn put(&self, out: &mut Vec<u8>) {
        self.kind().put(out);
        match self {
            Model::NewReno => {}
            Model::Cubic(cubic) => cubic.put(out),
            Model::Dctcp(dctcp) => dctcp.put(out),
            Model::Bbr(measured) => measured.put(out),
        }
    }

    fn take(input: &mut &[u8]) -> Result<Model, super::DecodeError> {
        use super::part::Part;
        Ok(match ModelKind::take(input)? {
            ModelKind::NewReno => Model::NewReno,
            ModelKind::Cubic => Model::Cubic(Part::take(input)?),
            ModelKind::Dctcp => Model::Dctcp(Part::take(input)?),
            ModelKind::Bbr => Model::Bbr(Part::take(input)?),
        })
    }
}

impl Model {
    fn kind(&self) -> ModelKind {
        match self {
            Model::NewReno => ModelKind::NewReno,
            Model::Cubic(_) => ModelKind::Cubic,
            Model::Dctcp(_) => ModelKind::Dctcp,
            Model::Bbr(_) => ModelKind::Bbr,
        }
    }

    /// The algorithm.
    pub(crate) fn control(&self) -> CongestionControl {
        match self {
            Model::NewReno => CongestionControl::NewReno,
            Model::Cubic(_) => CongestionControl::Cubic,
            Model::Dctcp(_) => CongestionControl::Dctcp,
            Model::Bbr(_) => CongestionControl::Bbr,
        }
    }
}

impl ConnectionImage {
    /// Returns the congestion control.
    pub fn congestion_control(&self) -> CongestionControl {
        self.recovering.model.control()
    }

    /// Returns true when urgent data of either direction is unread or unacknowledged, which only a stack can go on with.
    pub fn has_urgent_data(&self) -> bool {
        let receiving = &self.receiving;
        let fin = u32::from(matches!(self.state, State::CloseWait | State::Closing | State::LastAck));
        let read = SeqNum(receiving.nxt) - fin - receiving.unconsumed;
        self.sending.urgent.are_pending(read, SeqNum(self.sending.una))
    }
}
