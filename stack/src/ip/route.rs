//! Routing table: longest-prefix match. Read RFC 1122 §3.3.1 first.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::Route;
use crate::address::Cidr;

/// A routing table: replaced as a whole, searched by longest prefix.
#[derive(Debug, Default)]
pub(crate) struct RouteTable {
    /// Sorted by family, prefix length (longest first), network, metric.
    routes: Vec<Route>,
    /// Occurring families and prefix lengths, in the same order.
    lengths: Vec<(bool, u8)>,
}

type SortKey = (bool, u8, u128);

fn sort_key(cidr: &Cidr) -> SortKey {
    (cidr.ip.is_ipv6(), u8::MAX - cidr.prefix_len, cidr.network())
}

impl RouteTable {
    /// Replaces all routes. Of routes with the same prefix and metric the first one wins.
    pub(crate) fn replace(&mut self, mut routes: Vec<Route>) {
        routes.sort_by_key(|route| (sort_key(&route.destination), route.metric));
        self.lengths = routes.iter().map(|route| (route.destination.ip.is_ipv6(), route.destination.prefix_len)).collect();
        self.lengths.dedup();
        self.routes = routes;
    }

    /// Returns the best route to `ip`. Costs one binary search for each prefix length in use.
    pub(crate) fn lookup(&self, ip: IpAddr) -> Option<&Route> {
        let lengths = self.lengths.iter().filter(|(is_ipv6, _)| *is_ipv6 == ip.is_ipv6());
        lengths.into_iter().find_map(|&(_, prefix_len)| {
            let wanted = sort_key(&Cidr { ip, prefix_len });
            let at = self.routes.partition_point(|route| sort_key(&route.destination) < wanted);
            self.routes.get(at).filter(|route| sort_key(&route.destination) == wanted)
        })
    }
}

#[cfg(test)]
mod tests;
