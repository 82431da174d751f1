//! Multicast groups of an interface. Read RFC 3376 §5, RFC 3810 §6, RFC 4291 §2.8 first.
//!
//! The interface receives datagrams to these groups; joining and leaving is reported to routers (twice each, in case a
//! report is lost), and their queries are answered after a random part of the time they allow. Sources are not filtered. On
//! shared interfaces the kernel is in the group too and reports it; the stack only records it.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringway_shm::{Duration, Instant};

use super::addresses::InterfaceState;
use super::control::{Control, ControlOut};
use super::{Autoconfiguration, Ip};
use crate::address::MacAddress;
use crate::wire::igmp::{ALL_ROUTERS, ALL_SYSTEMS, Query, Record};
use crate::wire::ipv6;

/// A group that an interface is in, or has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Membership {
    pub(super) group: IpAddr,
    /// Number of joins; 0: the group was left, which is still being reported.
    users: u32,
    /// Reports of the last change that are still to be sent, and the time of the next one.
    reports_left: u8,
    next: Option<Instant>,
    /// Time of the answer to a query.
    answer_at: Option<Instant>,
}

impl Membership {
    pub(super) fn next_due(&self) -> Option<Instant> {
        // A change is reported at once.
        let change = (self.reports_left > 0).then(|| self.next.unwrap_or(Instant::ZERO));
        [change, self.answer_at].into_iter().flatten().min()
    }
}

/// The protocol that a query came by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryBy {
    /// RFC 3376, of IPv4.
    Igmp,
    /// RFC 3810, of IPv6.
    Mld,
}

impl Ip {
    /// Joins a group once more. `false`: the address is not a group, or there are too many.
    pub(crate) fn join_group(&mut self, interface: u32, group: IpAddr) -> bool {
        let reported = self.is_reported(interface, group);
        let Some(state) = self.interfaces.get_mut(interface as usize).filter(|_| group.is_multicast()) else { return false };
        let change =
            Membership { group, users: 1, reports_left: if reported { ROBUSTNESS } else { 0 }, next: None, answer_at: None };
        match state.groups.iter().position(|known| known.group == group) {
            Some(at) if state.groups[at].users > 0 => state.groups[at].users += 1,
            Some(at) => state.groups[at] = change,
            None if state.groups.len() < GROUPS_MAX => state.groups.push(change),
            None => return false,
        }
        self.reschedule();
        true
    }

    /// Leaves a group once; the last leave ends the membership.
    pub(crate) fn leave_group(&mut self, interface: u32, group: IpAddr) {
        let reported = self.is_reported(interface, group);
        let Some(state) = self.interfaces.get_mut(interface as usize) else { return };
        let Some(at) = state.groups.iter().position(|known| known.group == group && known.users > 0) else { return };
        let known = &mut state.groups[at];
        known.users -= 1;
        if known.users == 0 {
            known.answer_at = None;
            known.next = None;
            known.reports_left = ROBUSTNESS;
            if !reported {
                state.groups.remove(at);
            }
        }
        self.reschedule();
    }

    /// Returns true when a group has been joined.
    #[inline]
    pub(crate) fn is_joined(&self, interface: u32, group: IpAddr) -> bool {
        let joined = |state: &InterfaceState| state.groups.iter().any(|known| known.group == group && known.users > 0);
        self.interfaces.get(interface as usize).is_some_and(joined)
    }

    /// Returns true when packets to `group` are for us: the groups of every host, those of our addresses, and joined groups.
    pub(super) fn is_member(&self, interface: u32, group: IpAddr) -> bool {
        let Some(state) = self.interfaces.get(interface as usize) else { return false };
        let joined = || self.is_joined(interface, group);
        match group {
            IpAddr::V4(ip) => ip == ALL_SYSTEMS || joined(),
            IpAddr::V6(ip) => {
                let asks_for = |own: IpAddr| matches!(own, IpAddr::V6(own) if ipv6::solicited_node(own) == ip);
                let ours = || state.addresses.iter().any(|cidr| asks_for(cidr.ip));
                ip == ipv6::ALL_NODES || ours() || state.checks.iter().any(|check| asks_for(check.ip)) || joined()
            }
        }
    }

    /// RFC 3376 §6, RFC 3810 §6: some groups are never reported; and only an interface whose neighbors the stack resolves
    /// reports.
    fn is_reported(&self, interface: u32, group: IpAddr) -> bool {
        let told = match group {
            IpAddr::V4(ip) => ip != ALL_SYSTEMS,
            IpAddr::V6(ip) => ip != ipv6::ALL_NODES && super::source::scope(ip) > INTERFACE_LOCAL,
        };
        told && (interface as usize) < self.interfaces.len() && self.can_check(interface)
    }

    /// RFC 4861 §7.2.1: an autoconfigured interface is in the groups of its addresses, also of those being checked.
    pub(super) fn follow_addresses(&mut self, interface: u32) {
        let state = &self.interfaces[interface as usize];
        if state.interface.autoconfiguration == Autoconfiguration::Off {
            return;
        }
        let own = state.addresses.iter().map(|cidr| cidr.ip).chain(state.checks.iter().map(|check| check.ip));
        let mut wanted: Vec<IpAddr> =
            own.filter_map(|ip| if let IpAddr::V6(ip) = ip { Some(ipv6::solicited_node(ip).into()) } else { None }).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let before = core::mem::replace(&mut self.interfaces[interface as usize].own_groups, wanted.clone());
        for group in wanted.iter().filter(|group| !before.contains(group)) {
            self.join_group(interface, *group);
        }
        for group in before.iter().filter(|group| !wanted.contains(group)) {
            self.leave_group(interface, *group);
        }
    }

    /// Handles a router's query for one group, or for all: each group is answered at its own random time.
    pub(super) fn hears_query<A: Into<IpAddr>>(&mut self, now: Instant, interface: u32, query: Query<A>, by: QueryBy) {
        let is_ipv4 = by == QueryBy::Igmp;
        let about: Option<IpAddr> = query.group.map(Into::into);
        for at in 0..self.interfaces[interface as usize].groups.len() {
            let group = self.interfaces[interface as usize].groups[at].group;
            if group.is_ipv4() != is_ipv4 || about.is_some_and(|about| about != group) || !self.is_reported(interface, group) {
                continue;
            }
            let delay = self.random_time(Duration::from_millis(query.response_ms.into()));
            let known = &mut self.interfaces[interface as usize].groups[at];
            let at = now + delay;
            known.answer_at = Some(known.answer_at.map_or(at, |before| before.min(at))).filter(|_| known.users > 0);
        }
        self.reschedule();
    }

    /// Sends the reports that are due: one packet for each family.
    pub(super) fn tend_groups(&mut self, now: Instant, interface: u32) {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for at in 0..self.interfaces[interface as usize].groups.len() {
            let gap = self.random_time(UNSOLICITED_INTERVAL);
            let known = &mut self.interfaces[interface as usize].groups[at];
            let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
            let record = if known.reports_left > 0 && (known.next.is_none() || due(known.next)) {
                known.reports_left -= 1;
                known.next = Some(now + gap);
                if known.users > 0 { Record::ToExclude } else { Record::ToInclude }
            } else if due(known.answer_at) {
                known.answer_at = None;
                Record::IsExclude
            } else {
                continue;
            };
            match known.group {
                IpAddr::V4(group) => ipv4.push((record, group)),
                IpAddr::V6(group) => ipv6.push((record, group)),
            }
        }
        self.interfaces[interface as usize].groups.retain(|known| known.users > 0 || known.reports_left > 0);
        if !ipv4.is_empty() {
            let source = self.first_ipv4(interface);
            let destination = MacAddress::of_group(ALL_ROUTERS.into());
            self.control.push_back(ControlOut { interface, destination, message: Control::Igmp { source, records: ipv4 } });
        }
        if !ipv6.is_empty() {
            let source = self.link_local(interface);
            let destination = MacAddress::of_group(ipv6::ALL_MLD_ROUTERS.into());
            self.control.push_back(ControlOut { interface, destination, message: Control::Mld { source, records: ipv6 } });
        }
    }

    /// RFC 3376 §4.2.13: 0.0.0.0 while there is no address.
    fn first_ipv4(&self, interface: u32) -> Ipv4Addr {
        let addresses = self.interfaces[interface as usize].addresses.iter();
        let mut ipv4 = addresses.filter_map(|cidr| if let IpAddr::V4(ip) = cidr.ip { Some(ip) } else { None });
        ipv4.next().unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    /// RFC 3810 §5.2.13: the unspecified address while there is none.
    fn link_local(&self, interface: u32) -> Ipv6Addr {
        let addresses = self.interfaces[interface as usize].addresses.iter();
        let mut ipv6 = addresses.filter_map(|cidr| if let IpAddr::V6(ip) = cidr.ip { Some(ip) } else { None });
        ipv6.find(|ip| ip.is_unicast_link_local()).unwrap_or(Ipv6Addr::UNSPECIFIED)
    }
}

/// Maximum number of groups of one interface.
const GROUPS_MAX: usize = 64;
/// RFC 3376 §8.1, RFC 3810 §9.1: number of reports of a change.
const ROBUSTNESS: u8 = 2;
/// RFC 3376 §8.11, RFC 3810 §9.11.
const UNSOLICITED_INTERVAL: Duration = Duration::from_secs(1);
/// RFC 4291 §2.7
const INTERFACE_LOCAL: u8 = 1;

#[cfg(test)]
mod tests;
