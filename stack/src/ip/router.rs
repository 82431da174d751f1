//! Router discovery. Read RFC 4861 §6.3 first.
//!
//! With autoconfiguration, solicits routers, keeps those that answer as default routes, and takes over hop limit, MTU, times
//! and prefixes. Believes only link-local senders of this link. A router that does not answer for its link address is tried
//! last.

use core::net::{IpAddr, Ipv6Addr};

use ringway_shm::{Duration, Instant};

use super::autoconf::lifetime;
use super::control::{Control, ControlOut};
use super::discovery::is_neighbors;
use super::{Autoconfiguration, Ip, Route};
use crate::address::{Cidr, MacAddress};
use crate::link::neighbor::{Key, Times};
use crate::stats::Counter;
use crate::wire::ipv6;
use crate::wire::ndp::{Message, RouterAdvertisement};

/// A default router.
#[derive(Clone, Copy, Debug)]
pub(super) struct Router {
    ip: Ipv6Addr,
    pub(super) until: Instant,
}

/// A prefix whose addresses are on the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnLink {
    prefix: Cidr,
    pub(super) until: Option<Instant>,
}

/// Progress of router solicitation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Soliciting {
    left: u8,
    /// `None`: not begun.
    pub(super) next: Option<Instant>,
}

impl Default for Soliciting {
    fn default() -> Soliciting {
        Soliciting { left: SOLICITATIONS, next: None }
    }
}

impl Ip {
    /// §6.3.7: solicits routers when that is due.
    pub(super) fn tend_soliciting(&mut self, now: Instant, interface: u32) {
        let Some(soliciting) = self.interfaces[interface as usize].soliciting else { return };
        let Some(due) = soliciting.next else {
            let next = Some(now + self.random_time(SOLICITATION_DELAY));
            self.interfaces[interface as usize].soliciting = Some(Soliciting { next, ..soliciting });
            return;
        };
        if due > now {
            return;
        }
        let state = &mut self.interfaces[interface as usize];
        let left = soliciting.left - 1;
        state.soliciting = (left > 0).then_some(Soliciting { left, next: Some(now + SOLICITATION_INTERVAL) });
        // §4.1: without an address yet, names no link address.
        let source = state.source_towards(ipv6::ALL_ROUTERS.into(), ipv6::ALL_ROUTERS.into());
        let source_link = source.map(|_| state.interface.mac);
        let source = if let Some(IpAddr::V6(ip)) = source { ip } else { Ipv6Addr::UNSPECIFIED };
        let (to, message) = (ipv6::ALL_ROUTERS, Message::RouterSolicitation { source_link });
        let destination = MacAddress::of_group(to.into());
        self.control.push_back(ControlOut { interface, destination, message: Control::Discovery { source, to, message } });
    }

    /// §6.1.2, §6.3.4
    pub(super) fn receive_advertisement(
        &mut self,
        now: Instant,
        interface: u32,
        router: Ipv6Addr,
        told: &RouterAdvertisement,
    ) -> Result<(), Counter> {
        if !router.is_unicast_link_local() {
            return Err(Counter::IcmpInErrors);
        }
        let state = &mut self.interfaces[interface as usize];
        if state.interface.autoconfiguration == Autoconfiguration::Off {
            return Ok(());
        }
        if told.lifetime_secs > 0 {
            state.soliciting = None;
        }
        if told.hop_limit != 0 {
            state.hop_limit = told.hop_limit;
        }
        if let Some(mtu) = told.mtu.and_then(|mtu| u16::try_from(mtu).ok())
            && (ipv6::MTU_MIN..=state.interface.mtu).contains(&mtu)
        {
            state.ipv6_mtu = mtu;
        }
        self.take_times(interface, told);
        if let Some(mac) = told.source_link.filter(|mac| is_neighbors(*mac)) {
            self.neighbors.noticed(now, (interface, router.into()), mac);
        }
        self.take_router(now, interface, router, told.lifetime_secs);
        for prefix in &told.prefixes {
            if prefix.on_link && prefix.prefix_len <= 128 && !prefix.prefix.is_unicast_link_local() {
                let cidr = Cidr { ip: prefix.prefix.into(), prefix_len: prefix.prefix_len };
                self.take_on_link(now, interface, cidr, prefix.valid_secs);
            }
            self.hears_prefix(now, interface, prefix);
        }
        self.refresh_routes();
        Ok(())
    }

    fn take_times(&mut self, interface: u32, told: &RouterAdvertisement) {
        let base = match told.reachable_ms {
            1..=REACHABLE_MS_MAX => told.reachable_ms,
            _ => REACHABLE_MS,
        };
        // §6.3.2: between half and one and a half times the base.
        let millis = u64::from(base / 2) + self.secrets.random() % u64::from(base.max(1));
        let retransmit_ms = if told.retransmit_ms == 0 { RETRANSMIT_MS } else { told.retransmit_ms.min(RETRANSMIT_MS_MAX) };
        let (reachable, retransmit) = (Duration::from_millis(millis), Duration::from_millis(retransmit_ms.into()));
        self.neighbors.set_times(interface, Times { reachable, retransmit });
    }

    fn take_router(&mut self, now: Instant, interface: u32, ip: Ipv6Addr, lifetime_secs: u16) {
        let routers = &mut self.interfaces[interface as usize].routers;
        let until = now + Duration::from_secs(lifetime_secs.into());
        match routers.iter().position(|router| router.ip == ip) {
            Some(at) => routers[at].until = until,
            None if routers.len() < ROUTERS_MAX => routers.push(Router { ip, until }),
            None => {}
        }
        routers.retain(|router| router.until > now);
    }

    fn take_on_link(&mut self, now: Instant, interface: u32, prefix: Cidr, valid_secs: u32) {
        let known = &mut self.interfaces[interface as usize].on_link;
        known.retain(|known| known.prefix.network() != prefix.network() || known.prefix.prefix_len != prefix.prefix_len);
        if valid_secs > 0 && known.len() < ON_LINK_MAX {
            known.push(OnLink { prefix, until: lifetime(now, valid_secs) });
        }
    }

    /// Ends expired lifetimes.
    pub(super) fn tend_routers(&mut self, now: Instant, interface: u32) {
        let state = &mut self.interfaces[interface as usize];
        let before = (state.routers.len(), state.on_link.len());
        state.routers.retain(|router| router.until > now);
        state.on_link.retain(|known| known.until.is_none_or(|until| until > now));
        if before != (state.routers.len(), state.on_link.len()) {
            self.refresh_routes();
        }
    }

    /// §7.2.5: removes a router that is none any more.
    pub(super) fn remove_router(&mut self, (interface, ip): Key) {
        self.interfaces[interface as usize].routers.retain(|router| router.ip != ip);
        self.refresh_routes();
    }

    /// §6.3.6: moves a router that does not answer to the end.
    pub(super) fn demote_router(&mut self, (interface, ip): Key) {
        let routers = &mut self.interfaces[interface as usize].routers;
        let Some(at) = routers.iter().position(|router| router.ip == ip) else { return };
        let router = routers.remove(at);
        routers.push(router);
        self.refresh_routes();
    }

    /// Returns true when `ip` is a default router of the link.
    pub(super) fn is_router(&self, interface: u32, ip: IpAddr) -> bool {
        self.interfaces[interface as usize].routers.iter().any(|router| router.ip == ip)
    }

    /// Rebuilds the routes: those configured, and those learnt from routers.
    pub(super) fn refresh_routes(&mut self) {
        let mut routes = self.configured_routes.clone();
        for (interface, state) in self.interfaces.iter().enumerate() {
            let interface = interface as u32;
            let route = |destination, gateway| Route { destination, gateway, interface, metric: LEARNT_METRIC, source: None };
            if state.interface.autoconfiguration != Autoconfiguration::Off {
                routes.push(route(Cidr { ip: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0).into(), prefix_len: 64 }, None));
            }
            routes.extend(state.on_link.iter().map(|known| route(known.prefix, None)));
            let everything = Cidr { ip: Ipv6Addr::UNSPECIFIED.into(), prefix_len: 0 };
            routes.extend(state.routers.first().map(|router| route(everything, Some(router.ip.into()))));
        }
        self.routes.replace(routes);
        self.bump_generation();
    }
}

/// RFC 4861 §10
const SOLICITATIONS: u8 = 3;
const SOLICITATION_DELAY: Duration = Duration::from_secs(1);
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);
const REACHABLE_MS: u32 = 30_000;
/// RFC 4861 §6.2.1: an hour.
const REACHABLE_MS_MAX: u32 = 3_600_000;
const RETRANSMIT_MS: u32 = 1_000;
/// A minute between solicitations: no link needs longer.
const RETRANSMIT_MS_MAX: u32 = 60_000;
/// Maximum number of default routers of one interface.
const ROUTERS_MAX: usize = 8;
/// Maximum number of on-link prefixes of one interface.
const ON_LINK_MAX: usize = 32;
/// Worse than configured routes; the same as on Linux.
const LEARNT_METRIC: u32 = 1_024;

#[cfg(test)]
mod tests;
