//! Over a veth pair of two queues with the kernel behind it: each packet comes to its worker, on whichever queue it arrives.
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::Device;
use crate::Medium;
use crate::interface::set_up;
use crate::packet::{Packet as PacketDevice, PacketOptions};
use crate::steering::classify::{Addressee, addressee};
use crate::steering::{Division, Flows, PortFilter, Protocol, Redirect, Steering, XdpMode};
use crate::testing::{Packet, arena, arrived, in_namespace, ip, receive_some};
use crate::xdp::{Xdp, XdpOptions};
use ringway_shm::{Flow, FlowGroup, Instant};

const COMMON: u16 = 80;
const OWN: u16 = 8_080;
const SERVER_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SERVER: IpAddr = IpAddr::V4(SERVER_V4);
/// As `Packet` writes 10.0.0.2 in IPv6.
const SERVER_V6: &str = "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:0a00:2";

struct Bed {
    client: PacketDevice,
    workers: Vec<Xdp>,
    division: Division,
    filter: PortFilter,
    macs: [u8; 12],
    arena: Arena,
    arenas: Vec<Arena>,
}

/// `COMMON` is every worker's, `OWN` the last one's.
fn bed(workers: usize, mtu: u16, options: XdpOptions) -> Bed {
    ip("link add client numtxqueues 2 numrxqueues 2 type veth peer name server numtxqueues 2 numrxqueues 2");
    set_up("client", Some(mtu), None).expect("it was made above");
    set_up("server", Some(mtu), Some((SERVER_V4, 24))).expect("it was made above");
    let interface = |name| Interface::open(name).expect("it was made above");
    let macs = [interface("server").mac, interface("client").mac].concat().try_into().expect("twice six bytes");
    assert_eq!(interface("server").receive_queues, 2);
    let steering = Steering::new(64).expect("root may use BPF");
    let division = Division::new(workers, 4).expect("root may use BPF");
    let filter = steering.port_filter().expect("a descriptor is left");
    for ip in [SERVER, SERVER_V6.parse().expect("it is one")] {
        filter.own(Protocol::Tcp, ip, COMMON, (1 << workers) - 1).expect("room");
        filter.own(Protocol::Tcp, ip, OWN, 1 << (workers - 1)).expect("room");
    }
    let arenas: Vec<Arena> = (0..workers).map(|_| arena()).collect();
    let options = XdpOptions { workers, ..options };
    let mut first =
        Xdp::open("server", Redirect::Divided(&steering, &division), options, &arenas[0]).expect("veth has both modes");
    let parts = first.take_parts();
    assert_eq!((parts.len(), first.take_parts().len()), (workers - 1, 0));
    let mut devices = vec![first];
    devices.extend(parts.into_iter().zip(&arenas[1..]).map(|(part, arena)| part.open(arena)));
    let client_arena = arena();
    let client = PacketDevice::open("client", None, PacketOptions::default(), &client_arena).expect("it was made above");
    Bed { client, workers: devices, division, filter, macs, arena: client_arena, arenas }
}

fn in_mode(mode: XdpMode) -> XdpOptions {
    XdpOptions { mode: Some(mode), ring_entries: 256, ..XdpOptions::default() }
}

impl Bed {
    fn segment(&self, from: u16, to: u16, ipv6: bool) -> Vec<u8> {
        Packet { ports: (from, to), macs: self.macs, ipv6, ..Packet::default() }.bytes()
    }

    fn send(&mut self, bytes: &[u8]) {
        let mut burst = Burst::default();
        burst.push(self.arena.alloc_from(bytes).expect("room"));
        self.client.transmit(Instant::ZERO, &mut burst).expect("the link is up");
    }

    /// What `worker` has now.
    fn received(&mut self, worker: usize) -> Vec<Vec<u8>> {
        let mut burst = Burst::default();
        while self.workers[worker].receive(Instant::ZERO, &mut burst).expect("the link is up") > 0 {}
        arrived(&mut burst).into_iter().map(|packet| packet.bytes).collect()
    }
}

fn group_of(bytes: &[u8]) -> FlowGroup {
    match addressee(Medium::Ethernet, bytes) {
        Addressee::Flow(group) => group,
        _ => panic!("it is a flow's"),
    }
}

#[test]
fn each_flow_comes_to_its_worker_in_both_families_and_modes() {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        in_namespace(move || {
            let mut bed = bed(3, 1500, in_mode(mode));
            let mut expected: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 3];
            for (from, ipv6) in (5_000..5_030).flat_map(|from| [(from, false), (from, true)]) {
                let (common, own) = (bed.segment(from, COMMON, ipv6), bed.segment(from, OWN, ipv6));
                bed.send(&common);
                bed.send(&own);
                expected[Division::first_owner(group_of(&common), 3)].push(common);
                expected[2].push(own);
            }
            assert!(expected.iter().all(|packets| packets.len() > 10), "all have flows");
            for (worker, mut expected) in expected.into_iter().enumerate() {
                let mut got = bed.received(worker);
                // One queue keeps an order, two do not.
                got.sort();
                expected.sort();
                assert!(got == expected, "{mode:?}: worker {worker} has {} of {}", got.len(), expected.len());
            }
        });
    }
}

#[test]
fn an_error_comes_to_the_worker_of_the_flow_that_it_is_about() {
    in_namespace(|| {
        let mut bed = bed(2, 1500, in_mode(XdpMode::Native));
        for from in 5_000..5_010 {
            let quoted = Packet { source: SERVER_V4.octets(), ports: (COMMON, from), macs: bed.macs, ..Packet::default() };
            let mut quoted = quoted.bytes()[14..42].to_vec();
            quoted[16..20].copy_from_slice(&[10, 0, 0, 1]);
            let segment = bed.segment(from, COMMON, false);
            let worker = Division::first_owner(group_of(&segment), 2);
            let error = [&segment[..23], &[1], &segment[24..34], &[3, 1, 0, 0, 0, 0, 0, 0], &quoted[..]].concat();
            bed.send(&error);
            assert_eq!(bed.received(worker), [error]);
            assert!(bed.received(1 - worker).is_empty());
        }
    });
}

#[test]
fn a_group_moves_kept_flows_stay_and_a_port_that_is_shut_is_of_no_worker() {
    in_namespace(|| {
        let mut bed = bed(2, 1500, in_mode(XdpMode::Native));
        let kept = bed.segment(6_000, COMMON, false);
        let group = group_of(&kept);
        let new =
            (6_001..).map(|from| bed.segment(from, COMMON, false)).find(|bytes| group_of(bytes) == group).expect("there is one");
        let old_worker = Division::first_owner(group, 2);
        let flow = Flow { local: (SERVER, COMMON), remote: ([10, 0, 0, 1].into(), 6_000) };
        bed.division.keep(&flow, old_worker).expect("room");
        bed.division.assign(group, 1 - old_worker, Flows::Scattered).expect("the table is there");
        bed.send(&kept);
        bed.send(&new);
        assert_eq!(bed.received(old_worker), std::slice::from_ref(&kept));
        assert_eq!(bed.received(1 - old_worker), std::slice::from_ref(&new));
        // What is left to the kernel is no worker's, and the mark of the port does not move the others.
        bed.filter.leave_flow(&flow).expect("room");
        bed.send(&kept);
        bed.send(&new);
        assert_eq!(bed.received(old_worker), Vec::<Vec<u8>>::new());
        assert_eq!(bed.received(1 - old_worker), std::slice::from_ref(&new));
        bed.filter.own(Protocol::Tcp, SERVER, COMMON, 0).expect("room");
        bed.send(&new);
        assert_eq!(bed.received(0).len() + bed.received(1).len(), 0);
    });
}

/// A worker that reads nothing loses its own packets and no others, which come as before; its chunks are used again when it reads.
#[test]
fn a_worker_that_does_not_read_takes_nothing_from_the_others() {
    in_namespace(|| {
        let mut bed = bed(2, 1500, in_mode(XdpMode::Native));
        let of = |bed: &Bed, worker| {
            let mut segments = (5_000..).map(|from| bed.segment(from, COMMON, false));
            segments.find(|bytes| Division::first_owner(group_of(bytes), 2) == worker).expect("both have flows")
        };
        let (silent, busy) = (of(&bed, 0), of(&bed, 1));
        for _ in 0..5 {
            for _ in 0..1_000 {
                bed.send(&silent);
            }
            for _ in 0..100 {
                bed.send(&busy);
            }
            assert_eq!(bed.received(1).len(), 100);
        }
        let kept = bed.received(0).len() as u64;
        let lost = bed.workers[0].counters().rx_dropped;
        assert!(lost > 0 && kept + lost == 5_000, "{kept} kept, {lost} lost");
        assert_eq!(bed.workers[1].counters().rx_dropped, 0);
        for _ in 0..10 {
            bed.send(&silent);
        }
        assert_eq!(bed.received(0).len(), 10);
    });
}

/// Every worker sends, packets of one chunk and of several, more of them than there are chunks; all arrive, and no frame stays away.
#[test]
fn all_workers_send_and_receive_packets_of_any_size() {
    for mtu in [1_500, 9_000] {
        in_namespace(move || {
            let mut bed = bed(3, mtu, in_mode(XdpMode::Native));
            let payload: Vec<u8> = (0..u32::from(mtu) - 40).map(|i| (i * 13) as u8).collect();
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            for (round, worker) in (0..300_u32).flat_map(|round| (0..3).map(move |worker| (round, worker))) {
                let macs = [&bed.macs[6..], &bed.macs[..6]].concat().try_into().expect("twice six bytes");
                let len = if round % 3 == 0 { payload.len() } else { round as usize };
                let packet = Packet { payload: &payload[..len], sequence: worker as u32, macs, ..Packet::default() };
                let mut burst = Burst::default();
                packet.push(&bed.arenas[worker], &mut burst, 0, false);
                bed.workers[worker].transmit(Instant::ZERO, &mut burst).expect("the link is up");
                assert!(burst.is_empty());
                receive_some(&mut bed.client, &mut burst);
                for got in arrived(&mut burst).into_iter().filter(|got| got.bytes[12..14] == [8, 0]) {
                    assert!(got.payload() == &payload[..len], "{len} bytes");
                    *counts.entry(got.sequence()).or_default() += 1;
                }
            }
            assert!(counts.len() == 3 && counts.values().all(|count| *count >= 299), "{counts:?}");
            let large = Packet { ports: (5_000, COMMON), payload: &payload, macs: bed.macs, ..Packet::default() }.bytes();
            let mut burst = Burst::default();
            let pieces = large.chunks(1_500).map(|piece| bed.arena.alloc_from(piece).expect("room"));
            give_packet(&mut burst, &mut pieces.collect());
            bed.client.transmit(Instant::ZERO, &mut burst).expect("the link is up");
            assert_eq!(bed.received(Division::first_owner(group_of(&large), 3)), [large]);
            let Bed { workers, arenas, .. } = bed;
            drop(workers);
            for arena in arenas {
                assert_eq!(arena.free(Class::Large), arena.capacity(Class::Large));
                assert_eq!(arena.free(Class::Small), arena.capacity(Class::Small));
            }
        });
    }
}

#[test]
fn rings_hold_what_all_workers_may_leave_unread() {
    for (entries, workers, queues) in [(2_048, 2, 1), (2_048, 3, 8), (64, 2, 1), (2_048, 29, 2), (65_536, 29, 1), (2_048, 2, 128)]
    {
        let all: Vec<Sizes> = (0..queues).map(|queue| Sizes::new(entries, workers, (queue, queues))).collect();
        for sizes in &all {
            assert!(sizes.fill >= workers * sizes.receive && sizes.fill.is_power_of_two() && sizes.receive.is_power_of_two());
            assert!(sizes.completion() >= sizes.senders * TRANSMIT_ENTRIES && sizes.completion().is_power_of_two());
        }
        assert_eq!(all.iter().map(|sizes| sizes.senders).sum::<u32>(), workers, "each sends on one queue");
        let sends_on = |worker: u32| all[(worker % queues) as usize].senders > worker / queues;
        assert!((0..workers).all(sends_on), "{workers} workers on {queues} queues");
    }
}
