use std::net::IpAddr;
use std::process::Command;

use ringway_stack::{Cidr, MacAddress};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::wire::{Message, Table, dump_request, messages, resolve_request};
use super::{Address, Differences, Mirror, NO_LINK, NeighborResolver, Snapshot};

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn cidr(text: &str) -> Cidr {
    crate::config::parse_cidr(text).expect("an address with prefix length")
}

/// RTM_NEWNEIGH for 10.0.0.2 on link 3, state REACHABLE, as Linux sends it.
fn neighbor_datagram() -> Vec<u8> {
    let mut body = vec![2, 0, 0, 0];
    body.extend(3u32.to_ne_bytes());
    body.extend(2u16.to_ne_bytes());
    body.extend([0, 1]);
    body.extend(8u16.to_ne_bytes());
    body.extend(1u16.to_ne_bytes());
    body.extend([10, 0, 0, 2]);
    body.extend(10u16.to_ne_bytes());
    body.extend(2u16.to_ne_bytes());
    body.extend([2, 0, 0, 0, 0, 9, 0, 0]);
    let mut datagram = (16 + body.len() as u32).to_ne_bytes().to_vec();
    datagram.extend(28u16.to_ne_bytes());
    datagram.extend([0; 10]);
    datagram.extend(body);
    datagram
}

#[test]
fn a_neighbor_is_read() {
    let received = messages(&neighbor_datagram());
    assert_eq!(received.len(), 1);
    let Message::Neighbor(neighbor) = &received[0].message else { panic!("{received:?}") };
    assert_eq!((neighbor.link, neighbor.ip, neighbor.mac), (3, ip("10.0.0.2"), Some(MacAddress([2, 0, 0, 0, 0, 9]))));
}

/// RTM_NEWADDR for fd00::1/64 on link 3, with flags in the header and (`all`) in an attribute of its own.
fn address_datagram(flags: u8, all: Option<u32>) -> Vec<u8> {
    let mut body = vec![10, 64, flags, 0];
    body.extend(3u32.to_ne_bytes());
    body.extend(20u16.to_ne_bytes());
    body.extend(1u16.to_ne_bytes());
    body.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    if let Some(all) = all {
        body.extend(8u16.to_ne_bytes());
        body.extend(8u16.to_ne_bytes());
        body.extend(all.to_ne_bytes());
    }
    let mut datagram = (16 + body.len() as u32).to_ne_bytes().to_vec();
    datagram.extend(20u16.to_ne_bytes());
    datagram.extend([0; 10]);
    datagram.extend(body);
    datagram
}

/// Permanent (0x80), tentative (0x40), deprecated (0x20), duplicate (0x08), optimistic (0x04).
#[test]
fn addresses_say_whether_they_may_be_used() {
    for (flags, all, tentative, deprecated) in [
        (0x80, None, false, false),
        (0xc0, None, true, false),
        (0x80, Some(0x1c0), true, false),
        (0xc4, None, false, false),
        (0xa0, None, false, true),
        (0x88, None, true, false),
    ] {
        let received = messages(&address_datagram(flags, all));
        let Message::Address(address) = &received[0].message else { panic!("{received:?}") };
        assert_eq!(*address, Address { link: 3, cidr: cidr("fd00::1/64"), tentative, deprecated }, "{flags:x} {all:x?}");
    }
}

#[test]
fn a_cut_or_scribbled_message_is_skipped_and_never_panics() {
    let whole = neighbor_datagram();
    for len in 0..whole.len() {
        assert!(messages(&whole[..len]).is_empty());
    }
    // Seed 1; every message type, with random bodies.
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    for kind in 0..40u16 {
        for len in (0..120).step_by(3) {
            let mut datagram = (16 + len as u32).to_ne_bytes().to_vec();
            datagram.extend(kind.to_ne_bytes());
            datagram.extend([0; 10]);
            datagram.extend((0..len).map(|_| random()));
            messages(&datagram);
        }
    }
}

#[test]
fn requests_have_their_length() {
    for table in [Table::Links, Table::Addresses, Table::Routes, Table::Neighbors] {
        let request = dump_request(table, 7);
        assert_eq!(u32::from_ne_bytes(request[..4].try_into().expect("four bytes")) as usize, request.len());
    }
    assert_eq!(resolve_request(3, ip("10.0.0.2"), 1).len(), 16 + 12 + 8);
    assert_eq!(resolve_request(3, ip("fe80::1"), 1).len(), 16 + 12 + 20);
}

/// Runs the ignored test `name` of this binary in a fresh network namespace; without the right to
/// make one, says so and passes.
pub(crate) fn in_fresh_namespace(name: &str) {
    let unshare = Command::new("unshare").args(["-n", "true"]).output();
    if !unshare.is_ok_and(|output| output.status.success()) {
        println!("skipped: network namespaces are not permitted here");
        return;
    }
    let binary = std::env::current_exe().expect("the test binary has a path");
    let output = Command::new("unshare").arg("-n").arg(binary).args(["--exact", name, "--ignored", "--nocapture"]).output();
    let output = output.expect("unshare has just worked");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn shell(command: &str) {
    let status = Command::new("sh").args(["-ec", command]).status().expect("there is a shell");
    assert!(status.success(), "{command}");
}

#[test]
fn the_mirror_follows_the_kernel() {
    in_fresh_namespace("netlink::tests::namespace_mirror_follows");
}

/// Updates until `wanted` holds; fails when the kernel is silent for two seconds.
fn follow(mirror: &mut Mirror, wanted: impl Fn(&Snapshot) -> bool) -> Differences {
    let mut all = Differences::default();
    loop {
        let found = mirror.update().expect("the kernel answers");
        all.links.extend(found.links);
        all.neighbors.extend(found.neighbors);
        all.routes |= found.routes;
        if wanted(mirror.now()) {
            return all;
        }
        let fd = mirror.wait_fd();
        let limit = Timespec { tv_sec: 2, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)).expect("poll works");
        assert!(ready > 0, "nothing more comes; the mirror has {:#?}", mirror.now());
    }
}

#[test]
#[ignore = "runs in a namespace of its own, see the_mirror_follows_the_kernel"]
fn namespace_mirror_follows() {
    shell("ip link set lo up");
    let mut mirror = Mirror::open().expect("netlink works");
    let loopback = mirror.now().link_named("lo").expect("there is a loopback").clone();
    assert!(loopback.loopback && loopback.up && !mirror.now().links.is_empty());

    shell(
        "ip link add rwa type veth peer name rwb; ip link set rwb up; ip link set rwa mtu 1400 up; ip addr add 10.9.0.1/24 dev rwa",
    );
    let found = follow(&mut mirror, |now| {
        let link = now.link_named("rwa").filter(|link| link.up).map(|link| link.index);
        link.is_some_and(|link| {
            now.addresses_of(link).contains(&cidr("10.9.0.1/24")) && now.routes.iter().any(|route| route.link == link)
        })
    });
    let link = mirror.now().link_named("rwa").expect("just seen").clone();
    assert!(found.routes && found.links.contains(&link.index));
    assert_eq!((link.mtu, link.kind.as_str(), link.ethernet, link.loopback), (1400, "veth", true, false));
    let route = mirror.now().routes.iter().find(|route| route.link == link.index && route.destination.ip.is_ipv4());
    let route = *route.expect("the connected route");
    assert_eq!((route.destination, route.gateway, route.source), (cidr("10.9.0.0/24"), None, Some(ip("10.9.0.1"))));

    shell("ip route add 10.8.0.0/16 via 10.9.0.7 metric 50; ip route replace 10.8.0.0/16 via 10.9.0.8 metric 50");
    follow(&mut mirror, |now| now.routes.iter().any(|route| route.gateway == Some(ip("10.9.0.8")) && route.metric == 50));
    assert!(!mirror.now().routes.iter().any(|route| route.gateway == Some(ip("10.9.0.7"))), "replaced");

    shell(
        "ip addr add fd00:9::1/64 dev rwa nodad preferred_lft 0; ip addr add fd00:9::2/64 dev rwa nodad;
        ip -6 route add fd00:8::/32 via fe80::7 dev rwa metric 50; ip -6 route add unreachable fd00:7::/32;
        ip route add blackhole 10.7.0.0/16; ip neigh add fe80::7 lladdr 02:00:00:00:00:07 dev rwa nud reachable",
    );
    let router = (link.index, ip("fe80::7"));
    follow(&mut mirror, |now| {
        now.neighbors.contains_key(&router) && now.addresses_of(link.index).contains(&cidr("fd00:9::2/64"))
    });
    let addresses = mirror.now().addresses_of(link.index);
    assert_eq!(addresses.last(), Some(&cidr("fd00:9::1/64")), "deprecated ones come last");
    assert_eq!(mirror.now().deprecated_of(link.index), [ip("fd00:9::1")]);
    let route = |text| *mirror.now().routes.iter().find(|route| route.destination == cidr(text)).expect("just added");
    assert_eq!((route("fd00:8::/32").gateway, route("fd00:8::/32").link), (Some(ip("fe80::7")), link.index));
    assert_eq!((route("fd00:7::/32").link, route("10.7.0.0/16").link), (NO_LINK, NO_LINK));
    shell("ip addr change fd00:9::1/64 dev rwa nodad preferred_lft 1000 valid_lft 1000");
    follow(&mut mirror, |now| now.addresses.iter().all(|address| !address.deprecated));
    shell("ip -6 route del fd00:8::/32 via fe80::7 dev rwa metric 50");
    follow(&mut mirror, |now| now.routes.iter().all(|route| route.destination != cidr("fd00:8::/32")));
    shell("ip addr del fd00:9::1/64 dev rwa; ip addr del fd00:9::2/64 dev rwa; ip route del blackhole 10.7.0.0/16");

    shell("ip neigh add 10.9.0.9 lladdr 02:00:00:00:00:09 dev rwa nud reachable");
    let key = (link.index, ip("10.9.0.9"));
    let found = follow(&mut mirror, |now| now.neighbors.contains_key(&key));
    assert_eq!(found.neighbors.get(&key), Some(&Some(MacAddress([2, 0, 0, 0, 0, 9]))));
    let again = mirror.forget_for_test();
    assert!(again.routes && again.links.contains(&link.index) && again.neighbors.contains_key(&key));
    assert_eq!(*mirror.now(), Snapshot::read().expect("netlink works"));

    shell("ip addr del 10.9.0.1/24 dev rwa");
    follow(&mut mirror, |now| now.routes.iter().all(|route| route.destination.ip.is_ipv6()) && !now.neighbors.contains_key(&key));
    shell("ip link del rwa");
    follow(&mut mirror, |now| now.link_named("rwa").is_none() && now.link_named("rwb").is_none());
}

#[test]
fn the_kernel_resolves_on_request() {
    in_fresh_namespace("netlink::tests::namespace_resolves");
}

#[test]
#[ignore = "runs in a namespace of its own, see the_kernel_resolves_on_request"]
fn namespace_resolves() {
    shell("ip link add rwa type veth peer name rwb; ip link set rwa up; ip addr add 10.9.0.1/24 dev rwa");
    // The kernel answers ARP for 10.9.0.2 on the other end: it is an address of this host.
    shell("sysctl -qw net.ipv4.conf.all.arp_ignore=0 net.ipv4.conf.all.rp_filter=0; ip link set rwb up");
    shell("ip addr add 10.10.0.2/24 dev rwb");
    let mut mirror = Mirror::open().expect("netlink works");
    let link = mirror.now().link_named("rwa").expect("just made").index;
    let mut resolver = NeighborResolver::open().expect("netlink works");
    shell("sysctl -qw net.ipv4.conf.all.accept_local=1 net.ipv4.conf.rwb.accept_local=1 net.ipv4.conf.rwa.accept_local=1");
    resolver.resolve(link, ip("10.10.0.2")).expect("the kernel takes it");
    let found = follow(&mut mirror, |now| now.neighbors.contains_key(&(link, ip("10.10.0.2"))));
    let mac = mirror.now().link_named("rwb").expect("there").mac;
    assert_eq!(found.neighbors.get(&(link, ip("10.10.0.2"))), Some(&Some(mac)));
}
