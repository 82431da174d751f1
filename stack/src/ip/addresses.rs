//! Addresses in use: those configured and those that the stack has made, except those being checked or used by another host;
//! and the timer of all that changes them.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use ringway_shm::Instant;

use super::autoconf::Automatic;
use super::dad::{Announcement, Check};
use super::group::Membership;
use super::router::{OnLink, Router, Soliciting};
use super::{Autoconfiguration, Interface, Ip, Medium, Role};
use crate::address::Cidr;
use crate::event::{AddressChange, Event};

/// An interface and its addresses.
#[derive(Debug)]
pub(super) struct InterfaceState {
    pub(super) interface: Interface,
    /// Addresses in use.
    pub(super) addresses: Vec<Cidr>,
    /// Addresses in use that new flows avoid.
    pub(super) deprecated: Vec<IpAddr>,
    /// Broadcast addresses of its IPv4 networks.
    pub(super) broadcasts: Vec<Ipv4Addr>,
    pub(super) configured: Vec<Cidr>,
    /// Configured addresses that new flows avoid.
    pub(super) avoided: Vec<IpAddr>,
    pub(super) automatic: Vec<Automatic>,
    pub(super) checks: Vec<Check>,
    /// Configured addresses that another host uses.
    pub(super) refused: Vec<IpAddr>,
    pub(super) announcements: Vec<Announcement>,
    pub(super) defended_at: Option<Instant>,
    pub(super) routers: Vec<Router>,
    pub(super) on_link: Vec<OnLink>,
    pub(super) soliciting: Option<Soliciting>,
    /// Hop limit of IPv6 packets, from router advertisements.
    pub(super) hop_limit: u8,
    pub(super) groups: Vec<Membership>,
    /// Groups that the interface's own addresses require.
    pub(super) own_groups: Vec<IpAddr>,
    pub(super) ipv6_mtu: u16,
}

impl InterfaceState {
    pub(super) fn new(interface: Interface) -> InterfaceState {
        let interface = interface.settle();
        let ipv6_mtu = interface.mtu;
        InterfaceState {
            interface,
            addresses: Vec::new(),
            deprecated: Vec::new(),
            broadcasts: Vec::new(),
            configured: Vec::new(),
            avoided: Vec::new(),
            automatic: Vec::new(),
            checks: Vec::new(),
            refused: Vec::new(),
            announcements: Vec::new(),
            defended_at: None,
            routers: Vec::new(),
            on_link: Vec::new(),
            soliciting: None,
            hop_limit: HOP_LIMIT,
            groups: Vec::new(),
            own_groups: Vec::new(),
            ipv6_mtu,
        }
    }

    /// Returns true when `ip` is one of its addresses.
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|cidr| cidr.ip == ip)
    }

    /// Returns the MTU for an address's family.
    pub(super) fn mtu_for(&self, ip: IpAddr) -> u16 {
        if ip.is_ipv4() { self.interface.mtu } else { self.ipv6_mtu }
    }

    fn next_due(&self) -> Option<Instant> {
        // Checks and solicitations that have not begun are due at once.
        let begin = |at: Option<Instant>| at.unwrap_or(Instant::ZERO);
        let checks = self.checks.iter().map(|check| begin(check.next));
        let lifetimes = self.automatic.iter().flat_map(|known| [known.preferred_until, known.valid_until]).flatten();
        let routers = self.routers.iter().map(|router| router.until);
        let on_link = self.on_link.iter().filter_map(|known| known.until);
        let soliciting = self.soliciting.map(|soliciting| begin(soliciting.next));
        let announcements = self.announcements.iter().map(|announcement| announcement.at);
        let groups = self.groups.iter().filter_map(Membership::next_due);
        let checks = checks.chain(groups);
        checks.chain(lifetimes).chain(routers).chain(on_link).chain(soliciting).chain(announcements).min()
    }
}

impl Ip {
    /// Starts autoconfiguration of an interface.
    pub(super) fn begin_autoconfiguration(&mut self, interface: u32) {
        let own = &self.interfaces[interface as usize].interface;
        let off = own.autoconfiguration == Autoconfiguration::Off || own.role == Role::Shared || own.medium == Medium::Ip;
        if off {
            self.interfaces[interface as usize].interface.autoconfiguration = Autoconfiguration::Off;
            return;
        }
        self.interfaces[interface as usize].soliciting = Some(Soliciting::default());
        self.make_link_local(interface);
        self.refresh_routes();
        self.reschedule();
    }

    /// Replaces an interface's description; its addresses stay.
    pub(crate) fn set_interface(&mut self, interface: u32, description: Interface) {
        let state = &mut self.interfaces[interface as usize];
        state.ipv6_mtu = description.mtu;
        let autoconfiguration = state.interface.autoconfiguration;
        state.interface = Interface { autoconfiguration, ..description.settle() };
        self.bump_generation();
    }

    pub(crate) fn set_addresses(&mut self, interface: u32, addresses: Vec<Cidr>) {
        let can_check = self.can_check(interface);
        let state = &mut self.interfaces[interface as usize];
        let checks = can_check && state.interface.detects_duplicates;
        let before = core::mem::replace(&mut state.configured, addresses);
        let kept: Vec<IpAddr> = state.configured.iter().map(|cidr| cidr.ip).collect();
        state.checks.retain(|check| kept.contains(&check.ip) || state.automatic.iter().any(|known| check.ip == known.ip));
        state.refused.retain(|ip| kept.contains(ip));
        let added: Vec<IpAddr> = state.configured.iter().filter(|cidr| !before.contains(cidr)).map(|cidr| cidr.ip).collect();
        if checks {
            state.checks.extend(added.iter().map(|ip| Check::new(*ip)));
        }
        self.refresh_addresses(interface);
        for ip in added.into_iter().filter(|_| can_check && !checks) {
            if let IpAddr::V4(ip) = ip {
                self.announce(interface, ip);
            }
        }
        self.reschedule();
    }

    /// Marks configured addresses that new flows use only when no other fits (RFC 6724 §5, rule 3).
    pub(crate) fn set_deprecated(&mut self, interface: u32, addresses: Vec<IpAddr>) {
        self.interfaces[interface as usize].avoided = addresses;
        self.refresh_addresses(interface);
    }

    /// Rebuilds the lists with which packets are compared.
    pub(super) fn refresh_addresses(&mut self, interface: u32) {
        let state = &mut self.interfaces[interface as usize];
        let usable = |cidr: &Cidr| !state.checks.iter().any(|check| check.ip == cidr.ip) && !state.refused.contains(&cidr.ip);
        let automatic = state.automatic.iter().map(Automatic::cidr);
        state.addresses = state.configured.iter().copied().chain(automatic).filter(usable).collect();
        let deprecated = state.automatic.iter().filter(|known| known.deprecated).map(|known| known.ip.into());
        state.deprecated = deprecated.chain(state.avoided.iter().copied()).collect();
        state.broadcasts = state.addresses.iter().filter_map(Cidr::broadcast).collect();
        self.local = self.interfaces.iter().flat_map(|state| state.addresses.iter().map(|cidr| cidr.ip)).collect();
        self.local.sort_unstable();
        self.local.dedup();
        self.local_ipv4 = self.local.iter().filter_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None }).collect();
        self.local_ipv6 = self.local.iter().filter_map(|ip| if let IpAddr::V6(ip) = ip { Some(*ip) } else { None }).collect();
        self.bump_generation();
        self.follow_addresses(interface);
    }

    /// Runs checks, announcements, solicitations and lifetimes that are due.
    pub(super) fn tend(&mut self, now: Instant) {
        if self.next_due.is_none_or(|at| at > now) {
            return;
        }
        for interface in 0..self.interfaces.len() as u32 {
            self.tend_checks(now, interface);
            self.tend_announcements(now, interface);
            self.tend_groups(now, interface);
            self.tend_soliciting(now, interface);
            self.tend_lifetimes(now, interface);
            self.tend_routers(now, interface);
        }
        if self.redirects.forget(now, None) {
            self.bump_generation();
        }
        self.reschedule();
    }

    /// Recomputes the time of the next `tend`.
    pub(super) fn reschedule(&mut self) {
        let interfaces = self.interfaces.iter().filter_map(InterfaceState::next_due);
        self.next_due = interfaces.chain(self.redirects.next_due()).min();
    }

    /// Queues an event for the owner of the stack.
    pub(super) fn tell(&mut self, interface: u32, change: AddressChange) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push_back(Event::Address { interface, change });
        }
    }

    /// Returns the next event about addresses.
    pub(crate) fn poll_notice(&mut self) -> Option<Event> {
        self.notices.pop_front()
    }
}

/// RFC 8200 leaves the default to hosts; the value of Linux and of IANA's assignment.
const HOP_LIMIT: u8 = 64;
/// Maximum number of queued events.
const NOTICES_MAX: usize = 256;
