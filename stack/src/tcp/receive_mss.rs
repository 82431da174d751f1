//! Segment size of the peer (tcpi_rcv_mss): estimated from arriving segments, as in Linux.
//!
//! A segment larger than all before gives the new size. A smaller one may be the end of an application's write, so it counts
//! only when two in a row are alike and it looks full: it is not small, or the peer has not pushed it. Promises: the
//! reported size is never more than our SYN has offered. That value is not stored: it is what a SYN would offer now, and
//! differs when the route or the MTU of our link has changed since (tcpi_advmss, which Linux stores). The size is only
//! reported: ACKs follow the reader (`receive_queue`).

use super::conn_stats::ConnStats;
use super::connection::Connection;
use super::tcb::{Tcb, flag};
use crate::wire::tcp::{FIN, Header, PSH, SYN, URG};

/// Value before anything has arrived (RFC 9293 §3.7.1); also the bound for segments that may be the end of a write.
pub(crate) const SIZE_DEFAULT: u16 = 536;
/// Linux: TCP_MIN_MSS. Smaller segments do not count as full.
const SIZE_MIN: u32 = 88;
/// Size in bytes of a TCP header without options, and of the timestamps option with its padding.
const HEADER: u32 = 20;
const TIMESTAMPS: u32 = 12;

impl ConnStats {
    /// Takes a segment with `len` bytes of payload and `options` bytes of options, or several of this size in one; `fixed`
    /// of those bytes are in every segment. `ends`: it may be the end of a write.
    #[inline(always)]
    pub(crate) fn measure_segment(&mut self, len: u32, options: u32, fixed: u32, ends: bool) {
        let known = u32::from(self.receive_mss);
        let is_message = ends && len <= known && len + options < u32::from(SIZE_DEFAULT);
        if is_message || len == known {
            self.smaller = 0;
            return;
        }
        self.measure_other(len, options, fixed, ends);
    }

    /// net/ipv4/tcp_input.c, tcp_measure_rcv_mss.
    #[inline(never)]
    fn measure_other(&mut self, len: u32, options: u32, fixed: u32, ends: bool) {
        let size = len.min(u32::from(u16::MAX)) as u16;
        let before = core::mem::take(&mut self.smaller);
        if size > self.receive_mss {
            self.receive_mss = size;
            return;
        }
        // SACK blocks take their space from the payload of full segments.
        let whole = u32::from(size) + options;
        if whole >= u32::from(SIZE_DEFAULT) || (whole >= SIZE_MIN && !ends) {
            self.smaller = whole.saturating_sub(fixed) as u16;
            if self.smaller == before {
                self.receive_mss = before;
            }
        }
    }
}

impl Connection<'_, '_> {
    /// Stores TCP_MAXSEG when our SYN is sent, 0: not set.
    pub(crate) fn remember_offer_limit(&mut self, limit: u16) {
        if limit != 0 {
            self.rare().offer_limit = limit;
        }
    }

    /// Takes a segment of packets with up to `len` bytes each.
    pub(crate) fn measure_receive_mss(&mut self, header: &Header, len: u32) {
        let fixed = fixed_options(self.tcb);
        let options = (header.len() as u32).saturating_sub(HEADER);
        self.stats().measure_segment(len, options, fixed, header.flags & (FIN | URG | SYN | PSH) != 0);
    }
}

/// The largest segment that the peer may send, from our SYN's offer `offered`, and the size that it does send, as far as
/// known.
pub(crate) fn figures(offered: u16, stats: &ConnStats, tcb: &Tcb) -> (u32, u32) {
    let advertised = u32::from(offered).saturating_sub(fixed_options(tcb));
    let first = if stats.data_segments_in == 0 { u32::from(tcb.mss()) } else { u32::MAX };
    (advertised, u32::from(stats.receive_mss).min(advertised).min(first).max(SIZE_MIN))
}

fn fixed_options(tcb: &Tcb) -> u32 {
    if tcb.has(flag::TIMESTAMPS) { TIMESTAMPS } else { 0 }
}

#[cfg(test)]
mod tests;
