//! Segments as large as the path takes, when routers say so, and whether they may be cut: IP_MTU_DISCOVER.
//!
//! Read RFC 1191 §6.4, RFC 8201 §5.4, RFC 6864 §4 first. What is kept per destination is in `ip/path_mtu`; finding out
//! without ICMP is in `mtu_probe`. As in Linux, segments of a socket that asks for anything but `Want` or `Do` say over
//! IPv4 that they may be cut; then each bears an identification. SYN-ACKs of listeners and resets, which no path is too narrow
//! for, always say "don't fragment".

use ringway_shm::Frame;

use crate::config::PathMtuDiscovery;
use crate::ip::OutputError;
use crate::wire::tcp::HEADER_BYTES;

use super::connection::Connection;
use super::sequence::SeqNum;
use super::state::State;
use super::tcb::flag;

impl PathMtuDiscovery {
    /// Whether IPv4 headers of segments say "don't fragment" (Linux: ip_dont_fragment).
    fn forbids_cutting(self) -> bool {
        matches!(self, PathMtuDiscovery::Want | PathMtuDiscovery::Do)
    }

    /// Whether a router that says "too large" is believed. IPv6 routers never cut, so there `Dont` means nothing.
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
        self.shared.cold.get(self.tcb.cold).map_or(PathMtuDiscovery::Want, |cold| cold.timeouts.path_mtu_discovery)
    }

    /// Whether routers may cut segments.
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

    /// RFC 6864 §4.1: what may be cut bears a number that the next such packet does not have. Of a packet that a link
    /// cuts into `segments` each gets one.
    #[cold]
    pub(crate) fn number_packet(&mut self, first: &mut Frame, segments: u32) {
        let (local, remote) = self.tcb.template.addresses();
        let identification = self.env.ip.identify(local, remote, super::PROTOCOL, segments);
        self.tcb.template.put_identification(first.bytes_mut(), identification);
    }

    /// RFC 1191 §6.4, RFC 8201 §5.4: the way to the peer takes packets of at most `mtu` bytes.
    pub(crate) fn on_packet_too_big(&mut self, mtu: u16, sequence: SeqNum) {
        let heeded = self.path_mtu_discovery().heeds_routers(self.tcb.template.is_ipv6());
        if !heeded || !sequence.within(self.tcb.snd_una, self.tcb.flight()) {
            return;
        }
        let (_, remote) = self.tcb.template.addresses();
        self.env.ip.learn_path_mtu(self.now, remote, mtu);
        if self.tcb.state == State::SynSent {
            self.fast_open_too_big();
        }
        self.fit_to_path();
    }

    /// Segments become as small as the way to the peer wants them; what is under way and larger is sent again.
    pub(crate) fn fit_to_path(&mut self) {
        let (local, remote) = self.tcb.template.addresses();
        let Some(mtu) = self.env.ip.route(remote, Some(local)).map(|path| path.mtu) else { return };
        let options = if self.tcb.has(flag::TIMESTAMPS) { 12 } else { 0 };
        let mss = mtu - (self.tcb.template.network_header_len() + HEADER_BYTES) as u16 - options;
        self.mtu_search_ends_at(mss);
        // Until the SYNs have been exchanged it is the limit of the socket's options that stands there.
        if mss < self.tcb.mss && self.tcb.state != State::SynSent {
            self.tcb.mss = mss;
            // Before its SYN is acknowledged an early connection sends no data again (RFC 7413 §4.2.2): its timer will.
            if self.tcb.state != State::SynReceived {
                self.resend_all();
            }
        }
    }
}
