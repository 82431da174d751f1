//! The eleven states of RFC 9293 §3.3.2.

/// The state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No connection.
    #[default]
    Closed,
    /// Waiting for any peer.
    Listen,
    /// SYN sent, waiting for SYN.
    SynSent,
    /// SYN received and sent, waiting for its ACK.
    SynReceived,
    /// Open.
    Established,
    /// FIN sent.
    FinWait1,
    /// FIN sent and acknowledged.
    FinWait2,
    /// FIN received, not sent.
    CloseWait,
    /// FIN sent and received, ours not acknowledged.
    Closing,
    /// FIN received, then sent.
    LastAck,
    /// Both closed; waiting for old segments to die.
    TimeWait,
}

impl State {
    /// The name that `ss` prints.
    pub const fn name(self) -> &'static str {
        match self {
            State::Closed => "UNCONN",
            State::Listen => "LISTEN",
            State::SynSent => "SYN-SENT",
            State::SynReceived => "SYN-RECV",
            State::Established => "ESTAB",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::CloseWait => "CLOSE-WAIT",
            State::Closing => "CLOSING",
            State::LastAck => "LAST-ACK",
            State::TimeWait => "TIME-WAIT",
        }
    }

    /// Linux's number for the state in `tcp_info`.
    pub const fn linux(self) -> u8 {
        match self {
            State::Established => 1,
            State::SynSent => 2,
            State::SynReceived => 3,
            State::FinWait1 => 4,
            State::FinWait2 => 5,
            State::TimeWait => 6,
            State::Closed => 7,
            State::CloseWait => 8,
            State::LastAck => 9,
            State::Listen => 10,
            State::Closing => 11,
        }
    }

    /// Returns true when both ends know each other's sequence numbers (RFC 9293: a synchronized state).
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, State::Closed | State::Listen | State::SynSent | State::SynReceived)
    }

    /// Returns true when the peer may still send data.
    pub const fn receives_data(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Returns true when the application may still queue data.
    pub const fn accepts_data(self) -> bool {
        matches!(self, State::SynSent | State::SynReceived | State::Established | State::CloseWait)
    }

    /// Returns true when queued data and a FIN may be sent.
    pub const fn sends_data(self) -> bool {
        matches!(self, State::Established | State::CloseWait | State::FinWait1 | State::Closing | State::LastAck)
    }

    /// Returns true when our FIN has been queued.
    pub const fn is_write_closed(self) -> bool {
        matches!(self, State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck | State::TimeWait | State::Closed)
    }
}
