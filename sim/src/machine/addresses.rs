//! Addresses and routes of a machine's only interface.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringway_stack::{Cidr, Route};

/// Returns the interface's addresses, and the routes: everything is beyond it, from the first address of the family.
pub(super) fn addressing(addresses: &[IpAddr]) -> (Vec<Cidr>, Vec<Route>) {
    let cidr = |ip: &IpAddr| Cidr { ip: *ip, prefix_len: if ip.is_ipv4() { 32 } else { 128 } };
    let nowhere: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let everywhere = |ip: IpAddr| {
        let source = addresses.iter().find(|address| address.is_ipv4() == ip.is_ipv4()).copied();
        Route { destination: Cidr { ip, prefix_len: 0 }, gateway: None, interface: 0, metric: 0, source }
    };
    let routes = nowhere.map(everywhere).into_iter().filter(|route| route.source.is_some());
    (addresses.iter().map(cidr).collect(), routes.collect())
}

/// Returns the packet's destination, if it can be an address of one machine.
pub(super) fn unicast_destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => {
            let ip = Ipv4Addr::from(*packet.get(16..20)?.first_chunk::<4>()?);
            (!(ip.is_multicast() || ip.is_broadcast() || ip.is_unspecified())).then_some(ip.into())
        }
        6 => {
            let ip = Ipv6Addr::from(*packet.get(24..40)?.first_chunk::<16>()?);
            (!(ip.is_multicast() || ip.is_unspecified())).then_some(ip.into())
        }
        _ => None,
    }
}
