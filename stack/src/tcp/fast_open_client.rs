//! Fast Open, the client: learned cookies, data in the SYN, and the fallbacks to an ordinary open.
//!
//! Read RFC 7413 §4.1.3, §4.2 first. With a cookie for the peer the SYN waits for the first data and carries it; without one
//! it asks for a cookie. A SYN is retransmitted without option and data. Data that the SYN-ACK does not acknowledge is sent
//! at once as if for the first time. As in Linux, the option is tried under its experimental number when the peer ignored
//! the other one. Data in SYNs that get lost twice in a row is held back for a while; when that happens with any peer (if
//! configured), Fast Open rests for all.

use alloc::collections::{BTreeMap, VecDeque};
use core::net::IpAddr;

use ringway_shm::{Duration, Instant};

use crate::config::TcpOptions;
use crate::stats::Counter;
use crate::wire::tcp::{FastOpen, Options};

use super::connect::{FRAME_PAYLOAD_MAX, mss_to_offer};
use super::connection::Connection;
use super::fast_open::{Early, Failure};
use super::output::Plan;
use super::segment::Segment;
use super::state::State;
use crate::wire::sequence::SeqNum;

/// Number of cached peers; the one known longest is dropped.
const PEERS_MAX: usize = 1_024;
/// Maximum bytes of options in a SYN; its data leaves space for them. Linux: MAX_TCP_OPTION_SPACE.
const OPTIONS_BYTES_MAX: u16 = 40;
/// Number of lost SYNs with data in a row without consequence.
const LOSSES_FORGIVEN: u8 = 1;
/// Time for which data is then held back, doubled with each loss.
const REST: Duration = Duration::from_secs(60);
/// RFC 7413 §4.1.3: limit for a peer with an unknown MSS.
const MSS_UNKNOWN: u16 = u16::MAX;
/// Doublings of the rest after a black hole; Linux: 2^6.
const DISABLED_DOUBLINGS: u8 = 6;

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    cookie: Option<FastOpen>,
    mss: u16,
    /// Ask under the experimental number; `Some(false)`: it was tried.
    experimental: Option<bool>,
    losses: u8,
    lost_at: Instant,
}

/// RFC 7413 §4.1.3: cache of peers.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    peers: BTreeMap<IpAddr, Peer>,
    order: VecDeque<IpAddr>,
    /// Number of black holes found in a row, and the time of the last one.
    disabled: (u8, Instant),
}

impl Cache {
    fn get(&self, ip: IpAddr) -> Peer {
        self.peers.get(&ip).copied().unwrap_or_default()
    }

    fn peer(&mut self, ip: IpAddr) -> &mut Peer {
        if !self.peers.contains_key(&ip) {
            if self.order.len() >= PEERS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.peers.remove(&oldest);
            }
            self.order.push_back(ip);
        }
        self.peers.entry(ip).or_default()
    }

    fn rests(&self, now: Instant, base: Duration) -> bool {
        let (times, since) = self.disabled;
        let rest = base.as_millis() << times.saturating_sub(1).min(DISABLED_DOUBLINGS);
        times > 0 && now.as_millis() < since.as_millis() + rest
    }
}

impl Peer {
    fn rests(&self, now: Instant) -> bool {
        let rest = REST.as_millis() << self.losses.min(16);
        self.losses > LOSSES_FORGIVEN && now.as_millis() < self.lost_at.as_millis() + rest
    }
}

impl Connection<'_, '_> {
    /// Opens actively with Fast Open: the SYN waits for data if it may carry some, otherwise it asks for a cookie.
    pub(crate) fn open_fast(&mut self, iss: SeqNum, options: &TcpOptions) {
        let config = &self.shared.config.fast_open;
        let (local, remote) = self.tcb.template.addresses();
        let peer = self.shared.fast_open.cache.get(remote);
        let rests = peer.rests(self.now) || self.shared.fast_open.cache.rests(self.now, config.black_hole_rest);
        let without_cookie = config.client_without_cookie || options.fast_open_without_cookie;
        let may = config.client && !rests;
        let experimental = peer.experimental == Some(true);
        let option = if without_cookie { None } else { Some(peer.cookie.unwrap_or(FastOpen::request(experimental))) };
        let path = self.env.ip.route(remote, Some(local));
        let transport_max = path.as_ref().map_or(0, |path| path.transport_max());
        let gathers = path.is_some_and(|path| self.env.ip.link(path.interface).gathers);
        let own =
            mss_to_offer(transport_max, options.maximum_segment_size).min(if gathers { u16::MAX } else { FRAME_PAYLOAD_MAX });
        let room = own.min(if peer.mss == 0 { MSS_UNKNOWN } else { peer.mss }).saturating_sub(OPTIONS_BYTES_MAX);
        self.open(iss);
        if !may {
            return;
        }
        if without_cookie || peer.cookie.is_some() {
            self.demand_cold().fast_open = Early::Waiting { option, room };
            self.tcb.set_early(true);
            self.tcb.clear(super::tcb::flag::ACK_NOW);
            self.tcb.stop_rto();
        } else {
            self.demand_cold().fast_open = Early::Sent { option, room: 0, failure: Failure::NoCookie };
        }
    }

    /// Bytes that the SYN may carry, while it waits for them.
    pub(crate) fn fast_open_room(&self) -> Option<u16> {
        match self.shared.cold.get(self.tcb.cold()).map(|cold| cold.fast_open) {
            Some(Early::Waiting { room, .. }) => Some(room),
            _ => None,
        }
    }

    /// Sends the waiting SYN: there is data, or there never will be.
    pub(crate) fn open_waiting(&mut self) {
        let Some(cold) = self.cold() else { return };
        let Early::Waiting { option, room } = cold.fast_open else { return };
        cold.fast_open = Early::Sent { option, room, failure: Failure::None };
        self.tcb.set_early(false);
        self.ack_now();
        self.restart_rto();
    }

    /// Adds to the first SYN: the option goes to `options`, the returned plan has the data.
    pub(crate) fn fast_open_syn(&mut self, options: &mut Options) -> Option<Plan> {
        if self.tcb.state() != State::SynSent || self.tcb.backoff() > 0 {
            return None;
        }
        let Early::Sent { option, room, failure } = self.shared.cold.get(self.tcb.cold())?.fast_open else { return None };
        options.fast_open = option;
        if options.len() > OPTIONS_BYTES_MAX as usize {
            // No space beside the other options.
            options.fast_open = None;
            return None;
        }
        let len = self.tcb.unsent().min(room as u32);
        let good = failure == Failure::None && len > 0;
        // The peer's MSS is not known yet: a SYN is one packet, never several.
        good.then_some(Plan { sequence: self.tcb.snd_una() + 1, len, fin: false, again: false, probe: false, segment: len })
    }

    /// Handles a timeout of the SYN.
    pub(crate) fn fast_open_timed_out(&mut self, given_up: bool) {
        let sent_data = self.tcb.snd_nxt().after(self.tcb.snd_una() + 1);
        let Some(cold) = self.shared.cold.get_mut(self.tcb.cold()) else { return };
        let Early::Sent { failure, .. } = &mut cold.fast_open else { return };
        if sent_data {
            *failure = Failure::Retransmitted;
        }
        let base = self.shared.config.fast_open.black_hole_rest;
        // Linux: after the second timeout, or when all tries have failed.
        if sent_data && base != Duration::ZERO && (given_up || self.tcb.backoff() == 2) {
            let disabled = &mut self.shared.fast_open.cache.disabled;
            *disabled = (disabled.0.saturating_add(1), self.now);
            self.env.counters.count(Counter::TcpFastOpenBlackhole);
        }
    }

    /// Sends a SYN again that is too large for the path, at once, without data and option. That is no loss: neither backoff
    /// nor window changes, and the peer is not suspected of dropping SYNs with data.
    pub(crate) fn fast_open_too_big(&mut self) {
        let sent_data = self.tcb.snd_nxt().after(self.tcb.snd_una() + 1);
        let Some(cold) = self.shared.cold.get_mut(self.tcb.cold()).filter(|_| sent_data) else { return };
        if let Early::Sent { room: 1.., .. } = cold.fast_open {
            cold.fast_open = Early::Sent { option: None, room: 0, failure: Failure::Retransmitted };
            self.env.counters.count(Counter::TcpRetransSegs);
            self.ack_now();
            self.restart_rto();
        }
    }

    /// RFC 7413 §4.1.3, §4.2.2: takes the cookie and the acknowledgment of a SYN-ACK; the rest of the SYN's data counts as
    /// never sent.
    pub(crate) fn fast_open_answered(&mut self, segment: &Segment) {
        let acknowledged = segment.acknowledgment().latest(self.tcb.snd_una() + 1);
        let (data_sent, data_left) = (self.tcb.snd_nxt() - (self.tcb.snd_una() + 1), self.tcb.snd_nxt().after(acknowledged));
        let Some(cold) = self.shared.cold.get_mut(self.tcb.cold()) else { return };
        let Early::Sent { option, failure, .. } = cold.fast_open else { return };
        let failure = if data_left && failure == Failure::None { Failure::NotAcknowledged } else { failure };
        let data = data_sent > 0 && !data_left;
        cold.fast_open = Early::Over { data, failure: if data { Failure::None } else { failure } };
        self.learn_fast_open(segment, option, data_left);
        if data_left {
            self.env.counters.count(Counter::TcpFastOpenActiveFail);
            self.env.counters.count(Counter::TcpRetransSegs);
            self.rare().retransmitted_segments += 1;
            self.tcb.retract_next(acknowledged);
            let next_unsent = self.tcb.extent_at(self.env.arena, acknowledged, ringway_shm::Slot::NONE);
            self.tcb.set_next_unsent(next_unsent);
        } else if data {
            self.env.counters.count(Counter::TcpFastOpenActive);
            // Data that has passed shows that there is no black hole.
            self.shared.fast_open.cache.disabled.0 = 0;
        }
    }

    fn learn_fast_open(&mut self, segment: &Segment, sent: Option<FastOpen>, data_left: bool) {
        let (_, remote) = self.tcb.template.addresses();
        let told = segment.header.options.fast_open.filter(|option| sent.is_some() && !option.cookie().is_empty());
        let (again, now) = (self.tcb.backoff() > 0, self.now);
        let peer = self.shared.fast_open.cache.peer(remote);
        peer.mss = segment.header.options.maximum_segment_size.unwrap_or(peer.mss);
        if told.is_some() {
            peer.cookie = told;
        } else if let Some(sent) = sent.filter(|sent| !again && sent.cookie().is_empty()) {
            // The peer did not understand the option: use the other number next time, and then no more.
            if peer.cookie.is_none() && peer.experimental != Some(false) {
                peer.experimental = Some(!sent.experimental);
            }
        }
        if again && told.is_none() && data_left {
            peer.losses = peer.losses.saturating_add(1);
            peer.lost_at = now;
        } else {
            peer.losses = 0;
        }
    }
}

#[cfg(test)]
mod tests;
