//! Addresses that the stack makes by itself. Read RFC 4862 §5.3, §5.5, RFC 7217, RFC 4291 appendix A first.
//!
//! A link-local address for each interface, and one for each autonomous prefix that a router advertises. Each is checked by
//! DAD (`dad`) before it is used; preferred and valid lifetimes apply; a deprecated address is used only when no
//! better one exists (`source`).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use ringway_shm::{Duration, Instant};

use super::dad::Check;
use super::{Autoconfiguration, Ip};
use crate::address::{Cidr, MacAddress};
use crate::event::AddressChange;
use crate::tcp::demux::FlowKey;
use crate::wire::ndp::Prefix;

/// An address made by autoconfiguration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Automatic {
    pub(super) ip: Ipv6Addr,
    prefix: Ipv6Addr,
    /// RFC 7217's DAD_Counter.
    attempt: u8,
    /// `None`: for ever.
    pub(super) preferred_until: Option<Instant>,
    pub(super) valid_until: Option<Instant>,
    /// True when new flows must not use the address.
    pub(super) deprecated: bool,
}

impl Ip {
    /// RFC 4862 §5.3: makes the interface's link-local address.
    pub(super) fn make_link_local(&mut self, interface: u32) {
        let ip = self.automatic_address(interface, LINK_LOCAL, 0);
        let automatic =
            Automatic { ip, prefix: LINK_LOCAL, attempt: 0, preferred_until: None, valid_until: None, deprecated: false };
        self.begin_automatic(interface, automatic);
    }

    /// RFC 4862 §5.5.3: handles a prefix of a router's advertisement.
    pub(super) fn hears_prefix(&mut self, now: Instant, interface: u32, told: &Prefix) {
        // (a) to (d)
        let usable = told.autonomous && told.preferred_secs <= told.valid_secs && told.prefix_len == PREFIX_LEN;
        if !usable || told.prefix.is_unicast_link_local() || told.prefix.is_multicast() {
            return;
        }
        let prefix = masked(told.prefix);
        let (preferred_until, valid_until) = (lifetime(now, told.preferred_secs), lifetime(now, told.valid_secs));
        let state = &mut self.interfaces[interface as usize];
        if let Some(known) = state.automatic.iter_mut().find(|known| known.prefix == prefix) {
            known.preferred_until = preferred_until;
            known.deprecated = told.preferred_secs == 0;
            // (e): a forged advertisement must not end an address at once.
            let least = now + TWO_HOURS;
            let left = known.valid_until;
            let longer = valid_until.is_none_or(|until| until > least || left.is_some_and(|left| until > left));
            if longer {
                known.valid_until = valid_until;
            } else if left.is_none_or(|left| left > least) {
                known.valid_until = Some(least);
            }
            self.refresh_addresses(interface);
        } else if told.valid_secs > 0 && state.automatic.len() < AUTOMATIC_MAX {
            let ip = self.automatic_address(interface, prefix, 0);
            let deprecated = told.preferred_secs == 0;
            let automatic = Automatic { ip, prefix, attempt: 0, preferred_until, valid_until, deprecated };
            self.begin_automatic(interface, automatic);
        }
    }

    fn begin_automatic(&mut self, interface: u32, automatic: Automatic) {
        let state = &mut self.interfaces[interface as usize];
        state.automatic.push(automatic);
        state.checks.push(Check::new(automatic.ip.into()));
        self.refresh_addresses(interface);
    }

    /// RFC 7217 §6: when another host uses the address, tries another one of the same prefix, a few times.
    pub(super) fn replace_automatic(&mut self, interface: u32, ip: IpAddr) {
        let state = &mut self.interfaces[interface as usize];
        let Some(at) = state.automatic.iter().position(|automatic| automatic.ip == ip) else { return };
        let mut automatic = state.automatic.remove(at);
        if state.interface.autoconfiguration == Autoconfiguration::Stable && automatic.attempt < ATTEMPTS_MAX {
            automatic.attempt += 1;
            automatic.ip = self.automatic_address(interface, automatic.prefix, automatic.attempt);
            self.begin_automatic(interface, automatic);
        }
    }

    /// Ends expired lifetimes.
    pub(super) fn tend_lifetimes(&mut self, now: Instant, interface: u32) {
        let state = &mut self.interfaces[interface as usize];
        let over = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        let mut changed = false;
        for automatic in state.automatic.iter_mut().filter(|automatic| over(automatic.preferred_until)) {
            automatic.deprecated = true;
            automatic.preferred_until = None;
            changed = true;
        }
        let ended: Vec<Ipv6Addr> = state.automatic.iter().filter(|known| over(known.valid_until)).map(|known| known.ip).collect();
        if changed || !ended.is_empty() {
            state.automatic.retain(|automatic| !ended.contains(&automatic.ip));
            state.checks.retain(|check| ended.iter().all(|ip| check.ip != *ip));
            self.refresh_addresses(interface);
            ended.into_iter().for_each(|ip| self.tell(interface, AddressChange::Removed(ip.into())));
        }
    }

    /// Makes the address of `prefix`: appends the interface identifier.
    fn automatic_address(&self, interface: u32, prefix: Ipv6Addr, attempt: u8) -> Ipv6Addr {
        let own = &self.interfaces[interface as usize].interface;
        let identifier = match own.autoconfiguration {
            Autoconfiguration::Eui64 => eui64(own.mac),
            Autoconfiguration::Off | Autoconfiguration::Stable => {
                // RFC 7217 §5: a keyed hash of prefix, interface and counter. A reserved identifier is as unlikely as any
                // other.
                let [a, b, c, d, e, f] = own.mac.0;
                let device = Ipv6Addr::from([0, 0, 0, 0, 0, 0, 0, 0, 0, attempt, a, b, c, d, e, f]);
                let key = FlowKey { local: prefix.into(), remote: device.into(), local_port: 0, remote_port: 0 };
                self.secrets.keyed(&key, STABLE_ADDRESS)
            }
        };
        Ipv6Addr::from(u128::from(prefix) | u128::from(identifier))
    }
}

impl Automatic {
    /// Returns the address with its prefix.
    pub(super) fn cidr(&self) -> Cidr {
        Cidr { ip: self.ip.into(), prefix_len: PREFIX_LEN }
    }
}

/// RFC 4291 appendix A: the link address with ff:fe in its middle and the universal bit inverted.
fn eui64(mac: MacAddress) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

fn masked(prefix: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(prefix) & !u128::from(u64::MAX))
}

/// Returns the end of a lifetime in seconds; `None`: never (RFC 4861 §4.6.2).
pub(super) fn lifetime(now: Instant, secs: u32) -> Option<Instant> {
    (secs != u32::MAX).then(|| now + Duration::from_secs(secs.into()))
}

/// fe80::/64
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);
/// Interface identifiers have 64 bits (RFC 4291 §2.5.1).
const PREFIX_LEN: u8 = 64;
/// Maximum number of automatic addresses of one interface.
const AUTOMATIC_MAX: usize = 16;
/// RFC 7217 §6, IDGEN_RETRIES.
const ATTEMPTS_MAX: u8 = 3;
/// RFC 4862 §5.5.3 (e)
const TWO_HOURS: Duration = Duration::from_secs(7_200);
/// See `Secrets::keyed`.
const STABLE_ADDRESS: u64 = 1;

#[cfg(test)]
pub(super) mod tests;
