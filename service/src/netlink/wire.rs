//! rtnetlink messages: requests written, answers and notifications read.
//! Read rtnetlink(7), netlink(7) and linux/rtnetlink.h first.
//!
//! Everything is in host order but addresses. A message that makes no sense is skipped.

use std::net::IpAddr;

use ringway_device::netlink::{
    self, Attributes, CREATE, DONE, DUMP, DUMP_INTERRUPTED, ERROR, Messages, REPLACE, REQUEST, attribute, put, text, u16_at,
    u32_at,
};
use ringway_stack::{Cidr, MacAddress};

use super::{Address, Link, LinkRoute, NO_LINK, Neighbor, Policy};

/// The tables that can be dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Links,
    Addresses,
    Routes,
    Neighbors,
    Policies,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Link(Link),
    LinkGone(u32),
    Address(Address),
    AddressGone(Address),
    Route(LinkRoute),
    RouteGone(LinkRoute),
    Neighbor(Neighbor),
    Policy(Policy),
    PolicyGone(Policy),
    /// A dump is complete.
    Done,
    /// Negative: an errno; zero: done as asked.
    Error(i32),
}

/// A message and what its header says of the dump it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) sequence: u32,
    /// The tables changed while they were dumped.
    pub(super) interrupted: bool,
    /// It takes the place of what had the same key.
    pub(super) replaces: bool,
    pub(super) message: Message,
}

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const RTM_GETNEIGH: u16 = 30;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTM_GETRULE: u16 = 34;

const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// The queueing discipline in which nothing waits.
const NO_QUEUE: &str = "noqueue";

const ARPHRD_ETHER: u16 = 1;
const IFF_UP: u32 = 0x1;
const IFF_LOOPBACK: u32 = 0x8;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_QDISC: u16 = 6;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_SLAVE_KIND: u16 = 4;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_OPTIMISTIC: u32 = 0x04;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_TENTATIVE: u32 = 0x40;

const VRF: &str = "vrf";

const RT_TABLE_DEFAULT: u32 = 253;
const RT_TABLE_MAIN: u32 = 254;
const RT_TABLE_LOCAL: u32 = 255;
const FR_ACT_TO_TBL: u8 = 1;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
const FRA_L3MDEV: u16 = 19;
const RTN_UNICAST: u8 = 1;
/// Blackhole, unreachable, prohibit.
const RTN_NOWHERE: [u8; 3] = [6, 7, 8];
const RTM_F_CLONED: u32 = 0x200;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NTF_USE: u8 = 0x01;
/// REACHABLE, STALE, DELAY, PROBE, NOARP, PERMANENT: the link address is usable.
const NUD_USABLE: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

/// Asks for everything in `table`.
pub(super) fn dump_request(table: Table, sequence: u32) -> Vec<u8> {
    let (kind, body) = match table {
        Table::Links => (RTM_GETLINK, 16),
        Table::Addresses => (RTM_GETADDR, 8),
        Table::Routes => (RTM_GETROUTE, 12),
        Table::Neighbors => (RTM_GETNEIGH, 12),
        Table::Policies => (RTM_GETRULE, 12),
    };
    netlink::message(kind, REQUEST | DUMP, sequence, &vec![0; body])
}

/// Asks the kernel to resolve `ip` as if it had a packet for it.
pub(super) fn resolve_request(link: u32, ip: IpAddr, sequence: u32) -> Vec<u8> {
    let family = if ip.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut body = vec![family, 0, 0, 0];
    body.extend(link.to_ne_bytes());
    body.extend([0, 0, NTF_USE, 0]);
    match ip {
        IpAddr::V4(ip) => put(&mut body, NDA_DST, &ip.octets()),
        IpAddr::V6(ip) => put(&mut body, NDA_DST, &ip.octets()),
    }
    netlink::message(RTM_NEWNEIGH, REQUEST | CREATE, sequence, &body)
}

/// Reads the messages of one received datagram.
pub(super) fn messages(datagram: &[u8]) -> Vec<Received> {
    let read = |one: netlink::Message<'_>| {
        Some(Received {
            sequence: one.sequence,
            interrupted: one.flags & DUMP_INTERRUPTED != 0,
            replaces: one.flags & REPLACE != 0,
            message: message(one.kind, one.body)?,
        })
    };
    Messages(datagram).filter_map(read).collect()
}

fn message(kind: u16, body: &[u8]) -> Option<Message> {
    match kind {
        DONE => Some(Message::Done),
        ERROR => Some(Message::Error(u32_at(body, 0)?.cast_signed())),
        RTM_NEWLINK => link(body).map(Message::Link),
        RTM_DELLINK => link(body).map(|link| Message::LinkGone(link.index)),
        RTM_NEWADDR => address(body).map(Message::Address),
        RTM_DELADDR => address(body).map(Message::AddressGone),
        RTM_NEWROUTE => route(body).map(Message::Route),
        RTM_DELROUTE => route(body).map(Message::RouteGone),
        RTM_NEWRULE => policy(body).map(Message::Policy),
        RTM_DELRULE => policy(body).map(Message::PolicyGone),
        RTM_NEWNEIGH => neighbor(body).map(Message::Neighbor),
        RTM_DELNEIGH => neighbor(body).map(|gone| Message::Neighbor(Neighbor { mac: None, ..gone })),
        _ => None,
    }
}

/// struct ifinfomsg {family u8, pad u8, type u16, index i32, flags u32, change u32}
fn link(body: &[u8]) -> Option<Link> {
    if *body.first()? != AF_UNSPEC {
        return None;
    }
    let flags = u32_at(body, 8)?;
    let mut link = Link {
        index: u32_at(body, 4)?,
        name: String::new(),
        mac: MacAddress::default(),
        mtu: 0,
        up: flags & IFF_UP != 0,
        loopback: flags & IFF_LOOPBACK != 0,
        ethernet: u16_at(body, 2)? == ARPHRD_ETHER,
        queued: false,
        kind: String::new(),
        is_in_vrf: false,
    };
    for (kind, payload) in Attributes(body.get(16..)?) {
        match kind {
            IFLA_ADDRESS => link.mac = mac(payload).unwrap_or_default(),
            IFLA_IFNAME => link.name = text(payload),
            IFLA_MTU => link.mtu = u32_at(payload, 0)?,
            IFLA_QDISC => link.queued = text(payload) != NO_QUEUE,
            IFLA_LINKINFO => {
                let nested = |wanted| attribute(payload, wanted).map(text);
                link.kind = nested(IFLA_INFO_KIND).unwrap_or_default();
                link.is_in_vrf = nested(IFLA_INFO_SLAVE_KIND).is_some_and(|kind| kind == VRF);
            }
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

/// struct ifaddrmsg {family u8, prefixlen u8, flags u8, scope u8, index u32}
fn address(body: &[u8]) -> Option<Address> {
    let (family, prefix_len) = (*body.first()?, *body.get(1)?);
    let mut flags = u32::from(*body.get(2)?);
    let mut local = None;
    for (kind, payload) in Attributes(body.get(8..)?) {
        match kind {
            // On point-to-point links IFA_ADDRESS is the peer's; IFA_LOCAL is always ours.
            IFA_LOCAL => local = ip(family, payload),
            IFA_ADDRESS if local.is_none() => local = ip(family, payload),
            // All flags; the header has room for eight.
            IFA_FLAGS => flags = u32_at(payload, 0)?,
            _ => {}
        }
    }
    let unconfirmed = flags & IFA_F_TENTATIVE != 0 && flags & IFA_F_OPTIMISTIC == 0;
    Some(Address {
        link: u32_at(body, 4)?,
        cidr: cidr(local?, prefix_len)?,
        tentative: unconfirmed || flags & IFA_F_DADFAILED != 0,
        deprecated: flags & IFA_F_DEPRECATED != 0,
    })
}

/// struct rtmsg {family, dst_len, src_len, tos, table, protocol, scope, type: u8, flags u32}
fn route(body: &[u8]) -> Option<LinkRoute> {
    let (family, prefix_len) = (*body.first()?, *body.get(1)?);
    let (kind, flags) = (*body.get(7)?, u32_at(body, 8)?);
    let nowhere = RTN_NOWHERE.contains(&kind);
    if (kind != RTN_UNICAST && !nowhere) || flags & RTM_F_CLONED != 0 {
        return None;
    }
    let mut table = u32::from(*body.get(4)?);
    let (mut destination, mut link, mut gateway, mut metric, mut source) = (None, None, None, 0, None);
    for (kind, payload) in Attributes(body.get(12..)?) {
        match kind {
            RTA_DST => destination = ip(family, payload),
            RTA_OIF => link = u32_at(payload, 0),
            RTA_GATEWAY => gateway = ip(family, payload),
            RTA_PRIORITY => metric = u32_at(payload, 0)?,
            RTA_PREFSRC => source = ip(family, payload),
            RTA_TABLE => table = u32_at(payload, 0)?,
            RTA_MULTIPATH => (link, gateway) = first_hop(family, payload)?,
            _ => {}
        }
    }
    let destination = match destination {
        Some(ip) => ip,
        None => unspecified(family)?,
    };
    (table == RT_TABLE_MAIN).then_some(LinkRoute {
        destination: cidr(destination, prefix_len)?,
        gateway,
        link: if nowhere { NO_LINK } else { link? },
        metric,
        source,
    })
}

/// struct fib_rule_hdr {family, dst_len, src_len, tos, table, res1, res2, action: u8, flags u32}; `None`: one that every machine has,
/// and that which asks for the table of a VRF.
fn policy(body: &[u8]) -> Option<Policy> {
    let (family, action) = (*body.first()?, *body.get(7)?);
    unspecified(family)?;
    let mut policy = Policy { is_ipv4: family == AF_INET, priority: 0, table: None };
    let mut table = u32::from(*body.get(4)?);
    for (kind, payload) in Attributes(body.get(12..)?) {
        match kind {
            FRA_PRIORITY => policy.priority = u32_at(payload, 0)?,
            FRA_TABLE => table = u32_at(payload, 0)?,
            FRA_L3MDEV => return None,
            _ => {}
        }
    }
    policy.table = (action == FR_ACT_TO_TBL).then_some(table);
    (!matches!(policy.table, Some(RT_TABLE_LOCAL | RT_TABLE_MAIN | RT_TABLE_DEFAULT))).then_some(policy)
}

/// struct rtnexthop {len u16, flags u8, hops u8, ifindex i32} and its attributes: of several paths the first is used.
fn first_hop(family: u8, payload: &[u8]) -> Option<(Option<u32>, Option<IpAddr>)> {
    let len = usize::from(u16_at(payload, 0)?);
    let gateway = attribute(payload.get(8..len)?, RTA_GATEWAY).and_then(|gateway| ip(family, gateway));
    Some((u32_at(payload, 4), gateway))
}

/// struct ndmsg {family u8, pad u8, pad u16, ifindex i32, state u16, flags u8, type u8}
fn neighbor(body: &[u8]) -> Option<Neighbor> {
    let (family, state) = (*body.first()?, u16_at(body, 8)?);
    let (mut address, mut link_address) = (None, None);
    for (kind, payload) in Attributes(body.get(12..)?) {
        match kind {
            NDA_DST => address = ip(family, payload),
            NDA_LLADDR => link_address = mac(payload),
            _ => {}
        }
    }
    let usable = state & NUD_USABLE != 0;
    Some(Neighbor { link: u32_at(body, 4)?, ip: address?, mac: if usable { link_address } else { None } })
}

fn cidr(ip: IpAddr, prefix_len: u8) -> Option<Cidr> {
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    (prefix_len <= longest).then_some(Cidr { ip, prefix_len })
}

fn ip(family: u8, payload: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => <[u8; 4]>::try_from(payload).ok().map(IpAddr::from),
        AF_INET6 => <[u8; 16]>::try_from(payload).ok().map(IpAddr::from),
        _ => None,
    }
}

fn unspecified(family: u8) -> Option<IpAddr> {
    match family {
        AF_INET => Some(IpAddr::from([0; 4])),
        AF_INET6 => Some(IpAddr::from([0; 16])),
        _ => None,
    }
}

fn mac(payload: &[u8]) -> Option<MacAddress> {
    <[u8; 6]>::try_from(payload).ok().map(MacAddress)
}
