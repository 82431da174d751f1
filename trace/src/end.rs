//! What is known of one end of a connection.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::segment::{AE, CWR, ECE, Segment};
use crate::stream::{Positions, Sent};

/// What an end's SYN said, over all its copies.
#[derive(Clone, Debug)]
pub(crate) struct Syn {
    pub(crate) sequence: u32,
    pub(crate) has_ack: bool,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    pub(crate) timestamps: bool,
    /// ECE, CWR and AE of the first copy.
    pub(crate) ecn: u16,
    /// When it was last sent, nanoseconds.
    pub(crate) last_sent: u64,
    /// SYNs of the other end that it has not answered yet.
    pub(crate) asked: u32,
    /// It may have waited for a neighbor's address.
    pub(crate) held: bool,
}

impl Syn {
    pub(crate) fn new(segment: &Segment<'_>, nanos: u64) -> Syn {
        Syn {
            sequence: segment.sequence,
            has_ack: segment.has(crate::segment::ACK),
            mss: segment.options.mss,
            window_scale: segment.options.window_scale,
            sack_permitted: segment.options.sack_permitted,
            timestamps: segment.options.timestamps.is_some(),
            ecn: segment.flags & (ECE | CWR | AE),
            last_sent: nanos,
            asked: 0,
            held: false,
        }
    }

    /// A repeated SYN may have dropped options that it had before, or carry them again.
    pub(crate) fn merge(&mut self, later: &Syn) {
        self.mss = self.mss.or(later.mss);
        self.window_scale = self.window_scale.or(later.window_scale);
        self.sack_permitted |= later.sack_permitted;
        self.timestamps |= later.timestamps;
        self.has_ack |= later.has_ack;
        self.last_sent = later.last_sent;
        self.asked = self.asked.saturating_sub(1);
        self.held = later.held;
    }
}

/// Timestamps that an end has sent: the latest of them, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    values: VecDeque<u32>,
    forgotten: bool,
}

/// Timestamps that are remembered.
const VALUES_MAX: usize = 32_768;

impl Clock {
    /// The latest.
    pub(crate) fn latest(&self) -> Option<u32> {
        self.values.back().copied()
    }

    pub(crate) fn sent(&mut self, value: u32) {
        match self.find(value) {
            Ok(_) => {}
            Err(at) => self.values.insert(at, value),
        }
        if self.values.len() > VALUES_MAX {
            self.values.pop_front();
            self.forgotten = true;
        }
    }

    /// Whether this value was sent, as far as is remembered.
    pub(crate) fn knows(&self, value: u32) -> bool {
        match self.find(value) {
            Ok(_) => true,
            Err(at) => at == 0 && self.forgotten,
        }
    }

    fn find(&self, value: u32) -> Result<usize, usize> {
        let first = self.values.front().copied().unwrap_or(value);
        let distance = |value: u32| value.wrapping_sub(first) as i32;
        self.values.binary_search_by_key(&distance(value), |other| distance(*other))
    }
}

/// An acknowledgment of what was not seen: a later segment tells whose mistake it is.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    pub(crate) packet: u64,
    pub(crate) nanos: u64,
    pub(crate) acknowledged: i64,
    /// Everything that the sender was seen to send by then.
    pub(crate) highest: i64,
}

/// One end.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) address: SocketAddr,
    /// Its packets were captured in the order in which it sent them.
    pub(crate) local: bool,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) positions: Positions,
    pub(crate) syn: Option<Syn>,
    /// The end of the highest segment that it sent: SND.NXT.
    pub(crate) highest: i64,
    /// What the other end has acknowledged of it: SND.UNA.
    pub(crate) acked: Option<i64>,
    /// The rightmost edge of a window that the other end has offered it.
    pub(crate) edge: Option<i64>,
    /// The other end's last window was closed since then, nanoseconds.
    pub(crate) closed_since: Option<u64>,
    /// The window field that the other end sent last, unscaled.
    pub(crate) last_window: u16,
    pub(crate) fin: Option<i64>,
    pub(crate) reset: bool,
    pub(crate) sent: Sent,
    pub(crate) clock: Clock,
    /// Retransmissions are explained while less than this is acknowledged.
    pub(crate) recover: i64,
    /// A sign of loss that was captured far from the sender reaches it until then, nanoseconds.
    pub(crate) signs_until: u64,
    pub(crate) doubt: Option<Doubt>,
    pub(crate) urgent: Option<i64>,
    /// As a receiver: in-order data waits for an acknowledgment since then, nanoseconds.
    pub(crate) owes_ack_since: Option<u64>,
    pub(crate) full_segments: u32,
    /// As a receiver: CE arrived on data that ends here and is to be echoed.
    pub(crate) owes_echo: Option<i64>,
    pub(crate) retransmissions: u64,
    pub(crate) super_segments: u64,
    pub(crate) partial_checksums: u64,
}

impl End {
    pub(crate) fn new(address: SocketAddr, local: bool) -> End {
        End {
            address,
            local,
            packets: 0,
            bytes: 0,
            positions: Positions::default(),
            syn: None,
            highest: 0,
            acked: None,
            edge: None,
            closed_since: None,
            last_window: 0,
            fin: None,
            reset: false,
            sent: Sent::default(),
            clock: Clock::default(),
            recover: i64::MIN,
            signs_until: 0,
            doubt: None,
            urgent: None,
            owes_ack_since: None,
            full_segments: 0,
            owes_echo: None,
            retransmissions: 0,
            super_segments: 0,
            partial_checksums: 0,
        }
    }

    /// Whether any segment of it was seen, but for RST.
    pub(crate) fn seen(&self) -> bool {
        self.packets > 0
    }
}

#[cfg(test)]
mod tests;
