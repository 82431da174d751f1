//! Duplicate address detection (DAD). Read RFC 4862 §5.4, RFC 7527, RFC 5227 §2.1 first.
//!
//! A checked address is not used until its probes have stayed unanswered: one neighbor solicitation for IPv6, three ARP
//! probes for IPv4. When another host answers or probes for it, the address is not used, and the owner of the stack gets an
//! event. Also defends an address in use against a later claim (RFC 5227 §2.4).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringway_shm::{Duration, Instant};

use super::control::{Control, ControlOut};
use super::{Ip, Medium, Role};
use crate::address::MacAddress;
use crate::event::AddressChange;
use crate::link::arp;
use crate::wire::arp::Packet;
use crate::wire::ipv6;
use crate::wire::ndp::{Message, Nonce};

/// An address being checked.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) ip: IpAddr,
    /// Number of probes sent.
    sent: u8,
    /// Time of the next step; `None`: not begun.
    pub(super) next: Option<Instant>,
    /// Nonce of the last solicitation, to recognise it when a network loops it back.
    pub(super) nonce: Nonce,
}

/// An IPv4 address that has just come into use, for its second announcement.
#[derive(Debug)]
pub(super) struct Announcement {
    ip: Ipv4Addr,
    pub(super) at: Instant,
}

/// Number and timing of the probes.
struct Course {
    questions: u8,
    /// Minimum and maximum interval between two probes.
    gap: (Duration, Duration),
    /// Time after the last probe.
    settle: Duration,
}

impl Course {
    fn of(ip: IpAddr) -> Course {
        match ip {
            IpAddr::V4(_) => Course { questions: PROBE_NUM, gap: (PROBE_MIN, PROBE_MAX), settle: ANNOUNCE_WAIT },
            IpAddr::V6(_) => Course { questions: 1, gap: (RETRANSMIT, RETRANSMIT), settle: RETRANSMIT },
        }
    }
}

impl Check {
    pub(super) fn new(ip: IpAddr) -> Check {
        Check { ip, sent: 0, next: None, nonce: Nonce::default() }
    }
}

impl Ip {
    /// Returns true when addresses of an interface can be checked at all.
    pub(super) fn can_check(&self, interface: u32) -> bool {
        let own = &self.interfaces[interface as usize].interface;
        own.role == Role::Owned && own.medium == Medium::Ethernet
    }

    /// Returns a random time below `limit`.
    pub(super) fn random_time(&mut self, limit: Duration) -> Duration {
        Duration::from_nanos(self.secrets.random() % limit.as_nanos().max(1))
    }

    /// Continues the checks of an interface that are due; unique addresses come into use.
    pub(super) fn tend_checks(&mut self, now: Instant, interface: u32) {
        let mut at = 0;
        while let Some(check) = self.interfaces[interface as usize].checks.get(at) {
            let (ip, sent) = (check.ip, check.sent);
            let course = Course::of(ip);
            match check.next {
                None => {
                    // RFC 4862 §5.4.2, RFC 5227 §2.1.1: a random delay, so that the hosts of a link do not start at once.
                    let next = now + self.random_time(FIRST_WITHIN);
                    self.interfaces[interface as usize].checks[at].next = Some(next);
                }
                Some(due) if due > now => {}
                Some(_) if sent < course.questions => {
                    let (least, most) = course.gap;
                    let gap = least + self.random_time(Duration::from_nanos(most.as_nanos() - least.as_nanos()));
                    let nonce = self.ask_whether_unique(interface, ip);
                    let check = &mut self.interfaces[interface as usize].checks[at];
                    check.sent += 1;
                    check.nonce = nonce;
                    check.next = Some(now + if check.sent == course.questions { course.settle } else { gap });
                }
                Some(_) => {
                    self.interfaces[interface as usize].checks.remove(at);
                    self.address_is_unique(now, interface, ip);
                    continue;
                }
            }
            at += 1;
        }
    }

    fn ask_whether_unique(&mut self, interface: u32, ip: IpAddr) -> Nonce {
        let random = self.secrets.random().to_be_bytes();
        let nonce = [random[0], random[1], random[2], random[3], random[4], random[5]];
        let own_mac = self.interfaces[interface as usize].interface.mac;
        let (destination, message) = match ip {
            IpAddr::V4(ip) => (MacAddress::BROADCAST, Control::Arp(arp::request(own_mac, Ipv4Addr::UNSPECIFIED, ip))),
            IpAddr::V6(target) => {
                let to = ipv6::solicited_node(target);
                let message = Message::NeighborSolicitation { target, source_link: None, nonce: Some(nonce) };
                let source = Ipv6Addr::UNSPECIFIED;
                (MacAddress::of_group(to.into()), Control::Discovery { source, to, message })
            }
        };
        self.control.push_back(ControlOut { interface, destination, message });
        nonce
    }

    fn address_is_unique(&mut self, now: Instant, interface: u32, ip: IpAddr) {
        self.refresh_addresses(interface);
        let state = &mut self.interfaces[interface as usize];
        if let Some(address) = state.addresses.iter().find(|cidr| cidr.ip == ip).copied() {
            if let IpAddr::V4(ip) = ip {
                state.announcements.push(Announcement { ip, at: now + ANNOUNCE_INTERVAL });
                self.announce(interface, ip);
            }
            self.tell(interface, AddressChange::Added(address));
        }
    }

    /// RFC 5227 §2.3
    pub(super) fn announce(&mut self, interface: u32, ip: Ipv4Addr) {
        let packet = arp::announcement(self.interfaces[interface as usize].interface.mac, ip);
        let (destination, message) = (MacAddress::BROADCAST, Control::Arp(packet));
        self.control.push_back(ControlOut { interface, destination, message });
    }

    /// Sends second announcements that are due.
    pub(super) fn tend_announcements(&mut self, now: Instant, interface: u32) {
        let waiting = core::mem::take(&mut self.interfaces[interface as usize].announcements);
        for announcement in waiting {
            if announcement.at > now {
                self.interfaces[interface as usize].announcements.push(announcement);
            } else if self.interfaces[interface as usize].has(announcement.ip.into()) {
                self.announce(interface, announcement.ip);
            }
        }
    }

    /// Returns true when `ip` is being checked.
    pub(super) fn is_tentative(&self, interface: u32, ip: IpAddr) -> bool {
        self.interfaces[interface as usize].checks.iter().any(|check| check.ip == ip)
    }

    /// Gives up an address being checked that another host has or probes for.
    pub(super) fn address_is_taken(&mut self, interface: u32, ip: IpAddr) {
        let state = &mut self.interfaces[interface as usize];
        let before = state.checks.len();
        state.checks.retain(|check| check.ip != ip);
        if state.checks.len() == before {
            return;
        }
        if state.configured.iter().any(|cidr| cidr.ip == ip) {
            state.refused.push(ip);
        }
        self.tell(interface, AddressChange::Duplicate(ip));
        self.replace_automatic(interface, ip);
        self.refresh_addresses(interface);
        self.reschedule();
    }

    /// RFC 4862 §5.4.3: handles a solicitation for an address being checked, with its `nonce`.
    pub(super) fn hears_question(&mut self, interface: u32, target: Ipv6Addr, from_nobody: bool, nonce: Option<Nonce>) {
        let check = self.interfaces[interface as usize].checks.iter().find(|check| check.ip == target);
        let own = check.is_some_and(|check| check.sent > 0 && nonce == Some(check.nonce));
        // A sender with an address resolves the target's link address; it does not claim the target.
        if from_nobody && !own {
            self.address_is_taken(interface, target.into());
        }
    }

    /// RFC 5227 §2.1.1, §2.4: handles an ARP packet that claims one of our addresses.
    pub(super) fn hears_claim(&mut self, now: Instant, interface: u32, packet: &Packet) {
        let state = &self.interfaces[interface as usize];
        if packet.sender_mac == state.interface.mac {
            return;
        }
        let (sender, target) = (IpAddr::V4(packet.sender_ip), IpAddr::V4(packet.target_ip));
        let rival_probe = packet.sender_ip.is_unspecified() && self.is_tentative(interface, target);
        if self.is_tentative(interface, sender) {
            self.address_is_taken(interface, sender);
        } else if rival_probe {
            self.address_is_taken(interface, target);
        } else if self.interfaces[interface as usize].has(sender) {
            self.defend(now, interface, packet.sender_ip);
        }
    }

    /// RFC 5227 §2.4 (c): a server keeps its address and announces it, at most once in ten seconds.
    fn defend(&mut self, now: Instant, interface: u32, ip: Ipv4Addr) {
        let state = &mut self.interfaces[interface as usize];
        if state.defended_at.is_some_and(|at| now < at + DEFEND_INTERVAL) {
            return;
        }
        state.defended_at = Some(now);
        self.announce(interface, ip);
        self.tell(interface, AddressChange::Duplicate(ip.into()));
    }
}

/// RFC 5227 §1.1, PROBE_WAIT; RFC 4861 §10, MAX_RTR_SOLICITATION_DELAY.
const FIRST_WITHIN: Duration = Duration::from_secs(1);
const PROBE_NUM: u8 = 3;
const PROBE_MIN: Duration = Duration::from_secs(1);
const PROBE_MAX: Duration = Duration::from_secs(2);
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// RFC 4861 §10, RETRANS_TIMER.
const RETRANSMIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
