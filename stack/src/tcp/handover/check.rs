//! The check of an image, which may come from anywhere: each rule here is one that the mechanisms rely on.
//!
//! Read RFC 9293 §3.3.1, §3.4 first. Promises: a connection made of an image that passes breaks no invariant of the stack; what
//! it sends and when may still be nonsense, which harms nothing but itself. Sequence numbers are compared as distances from
//! one point, never with each other.

use core::net::IpAddr;

use super::image::Model;
use super::{ConnectionImage, ImportError, TIME_MAX_MS, moves};
use crate::tcp::congestion::CWND_MAX;
use crate::tcp::ecn::EcnMode;
use crate::tcp::reassembly::INTERVALS_MAX;
use crate::tcp::rtt::SAMPLE_MAX_US;
use crate::tcp::state::State;
use crate::tcp::tcb::Recovery;
use crate::wire::sequence::SeqNum;

/// Smallest payload of a full segment: an MSS of 48 less timestamps, halved as often as a search does that.
const MSS_MIN: u16 = 24;
/// RFC 7323 §2.3
const SCALE_MAX: u8 = 14;
/// Most bytes that a connection has carried: a count that never overflows.
const COUNT_MAX: u64 = 1 << 60;
/// Largest buffer and window, bytes; RFC 7323 §2.3.
const WINDOW_MAX: u32 = 1 << 30;

/// Returns `error` unless `holds`.
fn require(holds: bool, error: ImportError) -> Result<(), ImportError> {
    if holds { Ok(()) } else { Err(error) }
}

/// Returns true when `ip` can be an end of a connection.
fn is_host(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_unspecified() || ip.is_multicast() || is_broadcast)
}

impl ConnectionImage {
    /// Checks all that does not depend on the stack.
    pub(super) fn check(&self) -> Result<(), ImportError> {
        let (local, remote) = (self.local, self.remote);
        let is_pair = local.ip.is_ipv4() == remote.ip.is_ipv4() && is_host(local.ip) && is_host(remote.ip) && local != remote;
        require(is_pair && local.port != 0 && remote.port != 0, ImportError::Addresses)?;
        require(moves(self.state), ImportError::State(self.state))?;
        require(self.has_sound_terms(), ImportError::Terms)?;
        require(self.has_sound_receiving() && self.has_sound_gaps(), ImportError::Receiving)?;
        require(self.has_sound_sending(), ImportError::Sending)?;
        require(self.has_sound_recovering(), ImportError::Recovering)?;
        require(self.has_sound_deadlines(), ImportError::Deadlines)
    }

    fn has_sound_terms(&self) -> bool {
        let (terms, settings) = (&self.terms, &self.settings);
        let is_accurate = matches!(terms.ecn, EcnMode::Accurate | EcnMode::AccurateUnmarked);
        terms.mss >= MSS_MIN
            && terms.send_scale <= SCALE_MAX
            && terms.receive_scale <= SCALE_MAX
            && terms.accurate.is_some() == is_accurate
            && terms.accurate.is_none_or(|accurate| accurate.is_sound())
            && settings.send_buffer <= WINDOW_MAX
            && (1..=WINDOW_MAX).contains(&settings.receive_buffer)
    }

    fn has_sound_receiving(&self) -> bool {
        let receiving = &self.receiving;
        let unread = receiving.unread.len() as u64;
        // A FIN may take the number behind the window's edge.
        let window = receiving.edge.wrapping_sub(receiving.nxt).cast_signed();
        (-1..=WINDOW_MAX.cast_signed()).contains(&window)
            && receiving.nxt.wrapping_sub(receiving.last_ack_sent) <= WINDOW_MAX
            && unread <= u64::from(receiving.unconsumed)
            && receiving.unconsumed <= WINDOW_MAX
            && (u64::from(receiving.unconsumed)..=COUNT_MAX).contains(&receiving.bytes)
            && !(self.is_orphan && unread > 0)
    }

    /// Data out of order is sorted, apart, not empty and in the window; behind the peer's FIN there is none.
    fn has_sound_gaps(&self) -> bool {
        let receiving = &self.receiving;
        let window = receiving.edge.wrapping_sub(receiving.nxt).cast_signed().max(0).cast_unsigned();
        let receives = self.state.receives_data() || (receiving.gaps.is_empty() && receiving.fin.is_none());
        if !receives || receiving.gaps.len() > INTERVALS_MAX {
            return false;
        }
        let mut from = 0;
        for gap in &receiving.gaps {
            let left = gap.start.wrapping_sub(receiving.nxt);
            let is_apart = left > from && left <= window;
            if !is_apart || gap.data.is_empty() || gap.data.len() as u64 > u64::from(window - left) {
                return false;
            }
            from = left + gap.data.len() as u32;
        }
        receiving.fin.is_none_or(|fin| (1..=window).contains(&fin.wrapping_sub(receiving.nxt)))
    }

    fn has_sound_sending(&self) -> bool {
        let sending = &self.sending;
        let queued: u64 = sending.extents.iter().map(|extent| extent.data.len() as u64).sum();
        let flight = sending.nxt.wrapping_sub(sending.una);
        let fin = u64::from(matches!(self.state, State::FinWait1 | State::Closing | State::LastAck));
        let is_done = self.state != State::FinWait2 || (queued == 0 && flight == 0);
        queued <= u64::from(WINDOW_MAX)
            && sending.extents.iter().all(|extent| (1..=super::restore::EXTENT_MAX).contains(&extent.data.len()))
            && u64::from(flight) <= queued + fin
            && is_done
            && sending.wnd <= WINDOW_MAX
            && (sending.wnd..=WINDOW_MAX).contains(&sending.max_window)
            && sending.bytes_acked <= COUNT_MAX
            && sending.sml.wrapping_sub(sending.una) <= flight
    }

    fn has_sound_recovering(&self) -> bool {
        let recovering = &self.recovering;
        let (una, nxt) = (SeqNum(self.sending.una), SeqNum(self.sending.nxt));
        let flight = nxt - una;
        let until = recovering.recover.wrapping_sub(una.0);
        let is_open = recovering.recovery == Recovery::Open;
        let model = match &recovering.model {
            Model::NewReno | Model::Cubic(_) | Model::Bbr(None) => true,
            Model::Dctcp(dctcp) => dctcp.is_sound(),
            Model::Bbr(Some(measured)) => measured.is_sound(),
        };
        (1..=CWND_MAX).contains(&recovering.cwnd)
            && model
            && (is_open || (1..=flight).contains(&until))
            && (!recovering.retransmits || flight > 0)
            && recovering.scoreboard.is_sound(una, nxt)
            && recovering.rack.is_sound(una, nxt)
            && recovering.undo.is_none_or(|undo| undo.is_sound(CWND_MAX))
            && recovering.mtu_probe.is_sound()
    }

    fn has_sound_deadlines(&self) -> bool {
        let deadlines = &self.deadlines;
        let times = [
            deadlines.retransmission_ms,
            deadlines.delayed_ack_ms,
            deadlines.idle_ms,
            deadlines.silent_ms,
            deadlines.answered_ms,
        ];
        times.into_iter().flatten().all(|ms| ms <= TIME_MAX_MS)
            && deadlines.srtt_us <= SAMPLE_MAX_US
            && deadlines.rttvar_us <= SAMPLE_MAX_US
            && deadlines.min_rtt_us.is_none_or(|us| us <= SAMPLE_MAX_US)
    }
}
