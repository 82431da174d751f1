//! A connection that another TCP has had, when nothing of it is under way: what any TCP can tell.
//!
//! Everything else begins as after a handshake: congestion control, what is known of losses, counts. ECN is off. Does not do: data in queues, and
//! the ends of connections.

use alloc::vec::Vec;

use super::image::{Model, Purpose};
use super::{ConnectionImage, Deadlines, Receiving, Recovering, Sending, Settings, Terms, TimestampClock};
use crate::address::SocketAddress;
use crate::config::{CongestionControl, TcpConfig};
use crate::tcp::congestion::CWND_MAX;
use crate::tcp::state::State;
use crate::tcp::tcb::Recovery;

/// RFC 6928: segments of the first congestion window.
const FIRST_WINDOW: u32 = 10;

/// An established connection whose queues are empty and whose data the peer has acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// Our end.
    pub local: SocketAddress,
    /// The peer's end.
    pub remote: SocketAddress,
    /// Payload bytes of a full segment.
    pub mss: u16,
    /// Snd.Wind.Shift
    pub send_scale: u8,
    /// Rcv.Wind.Shift
    pub receive_scale: u8,
    /// RFC 2018 is on.
    pub sack: bool,
    /// RFC 7323: the TSval of a segment sent now; `None`: timestamps are off.
    pub timestamp: Option<u32>,
    /// RCV.NXT
    pub rcv_nxt: u32,
    /// Right edge of the advertised window.
    pub edge: u32,
    /// SND.UNA and SND.NXT
    pub snd_nxt: u32,
    /// SND.WND, bytes.
    pub wnd: u32,
    /// SND.WL1
    pub wl1: u32,
    /// Max(SND.WND)
    pub max_window: u32,
    /// SRTT, microseconds; 0: no sample yet.
    pub srtt_us: u32,
    /// RTTVAR, microseconds.
    pub rttvar_us: u32,
}

impl ConnectionImage {
    /// The connection as it begins in a stack with these settings, as if its program had set nothing.
    pub fn of_quiet(quiet: &Quiet, config: &TcpConfig) -> ConnectionImage {
        ConnectionImage {
            local: quiet.local,
            remote: quiet.remote,
            state: State::Established,
            is_orphan: false,
            terms: quiet.terms(),
            settings: quiet.settings(config),
            receiving: quiet.receiving(),
            sending: quiet.sending(),
            recovering: quiet.recovering(config),
            deadlines: quiet.deadlines(),
            counts: Default::default(),
        }
    }
}

impl Quiet {
    fn terms(&self) -> Terms {
        Terms {
            mss: self.mss,
            send_scale: self.send_scale,
            receive_scale: self.receive_scale,
            sack: self.sack,
            timestamps: self.timestamp.map(|now| TimestampClock { now, recent: None }),
            ecn: Default::default(),
            ecn_state: Default::default(),
            accurate: None,
        }
    }

    fn settings(&self, config: &TcpConfig) -> Settings {
        Settings {
            no_delay: false,
            cork: false,
            quick_ack: false,
            delays_acks: false,
            type_of_service: 0,
            time_to_live: 0,
            send_buffer: config.send_buffer_initial_bytes,
            is_send_buffer_locked: false,
            receive_buffer: config.receive_buffer_bytes,
            pacing_rate_max: 0,
            maximum_segment_size: 0,
            is_read_shut: false,
            more_for: None,
            timeouts: Default::default(),
        }
    }

    fn receiving(&self) -> Receiving {
        Receiving {
            nxt: self.rcv_nxt,
            edge: self.edge,
            last_ack_sent: self.rcv_nxt,
            unread: Vec::new(),
            unconsumed: 0,
            bytes: 0,
            gaps: Vec::new(),
            fin: None,
            duplicate: None,
            told: Default::default(),
            tuning: Default::default(),
            interactive: Default::default(),
        }
    }

    fn sending(&self) -> Sending {
        Sending {
            una: self.snd_nxt,
            nxt: self.snd_nxt,
            wnd: self.wnd,
            wl1: self.wl1,
            max_window: self.max_window,
            sml: self.snd_nxt,
            bytes_acked: 0,
            extents: Vec::new(),
            urgent: Default::default(),
        }
    }

    fn recovering(&self, config: &TcpConfig) -> Recovering {
        let model = match config.congestion_control {
            CongestionControl::NewReno | CongestionControl::Own(_) => Model::NewReno,
            CongestionControl::Cubic => Model::Cubic(Default::default()),
            CongestionControl::Dctcp => Model::Dctcp(Default::default()),
            CongestionControl::Bbr => Model::Bbr(None),
        };
        Recovering {
            cwnd: FIRST_WINDOW * u32::from(self.mss),
            ssthresh: CWND_MAX,
            model,
            recovery: Recovery::Open,
            recover: self.snd_nxt,
            dup_acks: 0,
            is_cwnd_limited: false,
            notes_most: false,
            retransmits: false,
            scoreboard: Default::default(),
            rack: Default::default(),
            probe: Default::default(),
            prr: Default::default(),
            undo: None,
            frto: Default::default(),
            mtu_probe: Default::default(),
        }
    }

    /// The peer may have sent while nothing listened: an acknowledgment tells it how far everything has come.
    fn deadlines(&self) -> Deadlines {
        Deadlines {
            srtt_us: self.srtt_us,
            rttvar_us: self.rttvar_us,
            min_rtt_us: None,
            retransmission_ms: None,
            purpose: Purpose::Retransmission,
            backoff: 0,
            probes: 0,
            delayed_ack_ms: None,
            idle_ms: None,
            silent_ms: Some(0),
            owes_ack: true,
            is_ack_pending: false,
            owes_probe: false,
            answered_ms: None,
        }
    }
}
