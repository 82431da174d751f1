//! Whatever wire brings a packet, the worker that has its flow group gets it, once.
use super::*;
use crate::memory::{Memory, MemoryOptions};
use crate::testing::{Packet, arena, arrived, wait_readable};

struct Bed {
    wires: Vec<Memory>,
    shares: Vec<Share>,
    groups: Arc<Groups>,
    arena: Arena,
}

fn bed(workers: usize) -> Bed {
    let (arena, groups) = (arena(), Arc::new(Groups::new(workers)));
    let (mut wires, mut shares) = (Vec::new(), Vec::new());
    for (worker, links) in links(workers).expect("memory").into_iter().enumerate() {
        let (outside, inside) = crate::memory::pair(&arena, &arena, MemoryOptions::default());
        wires.push(outside);
        shares.push(Share::new(Box::new(inside), groups.clone(), worker, links, &arena).expect("a descriptor is left"));
    }
    Bed { wires, shares, groups, arena }
}

impl Bed {
    /// Sends `bytes` into the device of `worker` and returns what each worker receives.
    fn send(&mut self, worker: usize, bytes: &[u8]) -> Vec<usize> {
        let mut burst = Burst::default();
        burst.push(self.arena.alloc_from(bytes).expect("room"));
        self.wires[worker].transmit(Instant::ZERO, &mut burst).expect("room");
        let mut got: Vec<usize> = self.shares.iter().map(|_| 0).collect();
        // The second round takes what the first has passed on.
        for _ in 0..2 {
            for (share, got) in self.shares.iter_mut().zip(&mut got) {
                let mut burst = Burst::default();
                share.receive(Instant::ZERO, &mut burst).expect("the links are whole");
                *got += arrived(&mut burst).iter().filter(|packet| packet.bytes == bytes).count();
            }
        }
        got
    }
}

#[test]
fn a_flow_reaches_its_worker_from_any_wire_also_after_it_has_moved() {
    let mut bed = bed(3);
    for port in 5000..5010 {
        let packet = Packet { ports: (port, 80), ..Packet::default() };
        let Addressee::Flow(group) = addressee(Medium::Ethernet, &packet.bytes()) else { panic!("it is a flow's") };
        let owner = bed.groups.owner(group);
        for (from, to) in [(0, owner), (1, owner), (2, owner), (0, (owner + 1) % 3)] {
            bed.groups.assign(group, to).expect("no kernel is asked");
            let expected: Vec<usize> = (0..3).map(|worker| usize::from(worker == to)).collect();
            assert_eq!(bed.send(from, &packet.bytes()), expected, "port {port} over wire {from}");
        }
    }
}

#[test]
fn answers_about_link_addresses_and_fragments_reach_everyone_and_questions_the_first() {
    let mut bed = bed(3);
    let mut fragment = Packet::default().bytes();
    fragment[20..22].copy_from_slice(&[0x20, 0]);
    let mut arp = fragment.clone();
    arp[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    let mut advertisement = Packet { ipv6: true, ..Packet::default() }.bytes();
    (advertisement[20], advertisement[54]) = (58, 136);
    for bytes in [&fragment, &arp, &advertisement] {
        assert_eq!(bed.send(1, bytes), [1, 1, 1]);
    }
    arp[20..22].copy_from_slice(&[0, 1]);
    (advertisement[20], advertisement[54]) = (58, 135);
    for bytes in [&arp, &advertisement] {
        assert_eq!(bed.send(2, bytes), [1, 0, 0]);
    }
}

#[test]
fn a_worker_that_sleeps_wakes_for_what_another_passes_on() {
    let mut bed = bed(2);
    let packet = (5000..).map(|port| Packet { ports: (port, 80), ..Packet::default() }).find(|packet| {
        let Addressee::Flow(group) = addressee(Medium::Ethernet, &packet.bytes()) else { panic!("it is a flow's") };
        bed.groups.owner(group) == 1
    });
    let readable = |share: &Share| wait_readable(share, 0).expect("it has a device and a link");
    assert!(!bed.shares[1].arm());
    assert!(!readable(&bed.shares[1]));
    let mut burst = Burst::default();
    burst.push(bed.arena.alloc_from(&packet.expect("some port").bytes()).expect("room"));
    bed.wires[0].transmit(Instant::ZERO, &mut burst).expect("room");
    bed.shares[0].receive(Instant::ZERO, &mut burst).expect("the links are whole");
    assert!(burst.is_empty());
    assert!(readable(&bed.shares[1]));
    assert!(bed.shares[1].arm(), "something waits already");
}

#[test]
fn a_link_without_room_loses_packets_and_says_so() {
    let mut bed = bed(2);
    let payload = vec![7; 1400];
    let mut sent = 0;
    for port in (5000..).take(9_000) {
        let packet = Packet { ports: (port, 80), payload: &payload, ..Packet::default() }.bytes();
        let mut burst = Burst::default();
        burst.push(bed.arena.alloc_from(&packet).expect("what was passed on or lost is free again"));
        bed.wires[0].transmit(Instant::ZERO, &mut burst).expect("room");
        bed.shares[0].receive(Instant::ZERO, &mut burst).expect("the links are whole");
        sent += usize::from(burst.is_empty());
    }
    let lost = bed.shares[0].counters().rx_dropped as usize;
    assert!(lost > 0 && lost < sent, "{lost} of {sent}");
    let mut burst = Burst::default();
    let mut passed = 0;
    while bed.shares[1].receive(Instant::ZERO, &mut burst).expect("the links are whole") > 0 {
        passed += arrived(&mut burst).len();
    }
    assert_eq!(passed + lost, sent);
}
