//! Segment size by the path MTU from ICMP, and permission to fragment segments: IP_MTU_DISCOVER.
//!
//! Read RFC 1191 §6.4, RFC 8201 §5.4, RFC 6864 §4 first. The state per destination is in `ip/path_mtu`; the search without
//! ICMP is in `mtu_probe`. As in Linux, IPv4 segments of a socket with any mode but `Want` or `Do` may be fragmented; then
//! each has an identification. SYN-ACKs of listeners and resets, which fit every path, always have "don't fragment" set.

use ringway_shm::Frame;

use crate::config::PathMtuDiscovery;
use crate::ip::OutputError;
use crate::wire::tcp::HEADER_BYTES;

use super::connection::Connection;
use super::state::State;
use super::tcb::flag;
use crate::wire::sequence::SeqNum;

impl PathMtuDiscovery {
    /// Returns true when IPv4 headers of segments have "don't fragment" set (Linux: ip_dont_fragment).
    fn forbids_cutting(self) -> bool {
        matches!(self, PathMtuDiscovery::Want | PathMtuDiscovery::Do)
    }

    /// Returns true when a router's "too large" is accepted. IPv6 routers never fragment, so there `Dont` has no effect.
    fn heeds_routers(self, is_ipv6: bool) -> bool {
        match self {
            PathMtuDiscovery::Dont => is_ipv6,
            PathMtuDiscovery::Want | PathMtuDiscovery::Do | PathMtuDiscovery::Probe => true,
            PathMtuDiscovery::Interface | PathMtuDiscovery::Omit => false,
        }
    }
}

impl Connection<'_, '_> {
    fn path_mtu_discovery(&self) -> PathMtuDiscovery {
        self.shared.cold.get(self.tcb.cold()).map_or(PathMtuDiscovery::Want, |cold| cold.timeouts.path_mtu_discovery)
    }

    /// Returns true when routers may fragment segments.
    pub(crate) fn may_be_cut(&self) -> bool {
        !self.tcb.template.is_ipv6() && !self.path_mtu_discovery().forbids_cutting()
    }

    /// Makes the header template current.
    pub(crate) fn renew_template(&mut self) -> Result<(), OutputError> {
        self.tcb.template = self.env.ip.template(self.now, &self.tcb.flow())?;
        if self.may_be_cut() {
            self.tcb.template.allow_cutting();
        }
        Ok(())
    }

    /// RFC 6864 §4.1: a packet that may be fragmented has an identification that the next such packet does not have. When a
    /// link splits the packet into `segments`, each gets one.
    #[cold]
    pub(crate) fn number_packet(&mut self, first: &mut Frame, segments: u32) {
        let (local, remote) = self.tcb.template.addresses();
        let identification = self.env.ip.identify(local, remote, super::PROTOCOL, segments);
        self.tcb.template.put_identification(first.bytes_mut(), identification);
    }

    /// RFC 1191 §6.4, RFC 8201 §5.4: the path to the peer takes packets of at most `mtu` bytes.
    pub(crate) fn on_packet_too_big(&mut self, mtu: u16, sequence: SeqNum) {
        let heeded = self.path_mtu_discovery().heeds_routers(self.tcb.template.is_ipv6());
        if !heeded || !sequence.within(self.tcb.snd_una(), self.tcb.flight()) {
            return;
        }
        let (_, remote) = self.tcb.template.addresses();
        self.env.ip.learn_path_mtu(self.now, remote, mtu);
        if self.tcb.state() == State::SynSent {
            self.fast_open_too_big();
        }
        self.fit_to_path();
    }

    /// Reduces the segment size to what the path takes; larger segments in flight are retransmitted.
    pub(crate) fn fit_to_path(&mut self) {
        let (local, remote) = self.tcb.template.addresses();
        let Some(mtu) = self.env.ip.route(remote, Some(local)).map(|path| path.mtu) else { return };
        let options = if self.tcb.has(flag::TIMESTAMPS) { 12 } else { 0 };
        let mss = mtu - (self.tcb.template.network_header_len() + HEADER_BYTES) as u16 - options;
        self.mtu_search_ends_at(mss);
        // Until the SYNs have been exchanged, `mss` holds the limit of the socket's options.
        if mss < self.tcb.mss() && self.tcb.state() != State::SynSent {
            self.tcb.set_mss(mss);
            // Before its SYN is acknowledged an early connection retransmits no data here (RFC 7413 §4.2.2): its timer does.
            if self.tcb.state() != State::SynReceived {
                self.resend_all();
            }
        }
    }
}
