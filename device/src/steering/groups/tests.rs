//! Over veth: each packet reaches the socket of the worker that has its flow group, and the program in the kernel and the
//! classifier agree about every packet.
use super::*;
use crate::interface::{Interface, set_up};
use crate::packet::PacketOptions;
use crate::steering::classify::{Addressee, addressee};
use crate::testing::{Packet as Tcp, arena, arrived, in_namespace, ip, receive_some};
use crate::{Device, Medium};
use ringway_shm::{Arena, Burst, Instant};

const WORKERS: usize = 3;

struct Bed {
    client: Packet,
    workers: Vec<Packet>,
    arena: Arena,
    groups: Groups,
}

fn bed() -> Bed {
    ip("link add client type veth peer name server");
    for name in ["client", "server"] {
        set_up(name, None, None).expect("it was made above");
    }
    let arena = arena();
    let options = PacketOptions { ring_slots: 63, ..PacketOptions::default() };
    let groups = Groups::new(WORKERS);
    let client = Packet::open("client", None, options, &arena).expect("made above");
    let workers: Vec<Packet> = (0..WORKERS).map(|_| Packet::open("server", None, options, &arena).expect("made above")).collect();
    // Another order than the workers'.
    for worker in [1, 0, 2] {
        groups.enter(worker, &workers[worker]).expect("root may use BPF");
    }
    Bed { client, workers, arena, groups }
}

impl Bed {
    /// Sends one packet and returns which worker has it.
    fn way(&mut self, bytes: &[u8]) -> usize {
        let mut burst = Burst::default();
        burst.push(self.arena.alloc_from(bytes).expect("room"));
        self.client.transmit(Instant::ZERO, &mut burst).expect("the link is up");
        loop {
            for (worker, device) in self.workers.iter_mut().enumerate() {
                let mut burst = Burst::default();
                device.receive(Instant::ZERO, &mut burst).expect("the link is up");
                // The kernel may have something to say on a new interface.
                if arrived(&mut burst).iter().any(|packet| packet.bytes == bytes) {
                    return worker;
                }
            }
        }
    }

    fn said(&self, bytes: &[u8]) -> Option<usize> {
        match addressee(Medium::Ethernet, bytes) {
            Addressee::Flow(group) => Some(self.groups.owner(group)),
            Addressee::Everyone => None,
            Addressee::First => Some(0),
        }
    }
}

fn tcp(port: u16, ipv6: bool) -> Tcp<'static> {
    let interface = |name| Interface::open(name).expect("made above").mac;
    let macs = [interface("server"), interface("client")].concat().try_into().expect("twice six bytes");
    Tcp { ports: (port, 80), ipv6, macs, ..Tcp::default() }
}

/// An ICMP error about `quoted`, whose addresses are swapped: it was sent to the one that reports.
fn error_about(quoted: &[u8], ipv6: bool) -> Vec<u8> {
    let (ip_bytes, protocol_at, protocol, message) = match ipv6 {
        false => (20, 23, 1, [3, 1, 0, 0, 0, 0, 0, 0]),
        true => (40, 20, 58, [2, 0, 0, 0, 0, 0, 5, 0]),
    };
    let mut error = [&quoted[..14 + ip_bytes], &message, &quoted[14..14 + ip_bytes + 8]].concat();
    error[protocol_at] = protocol;
    error
}

#[test]
fn flows_and_errors_about_them_reach_the_worker_that_has_their_group() {
    in_namespace(|| {
        let mut bed = bed();
        let mut seen = [0; WORKERS];
        for ipv6 in [false, true] {
            for port in 5000..5016 {
                let mut bytes = tcp(port, ipv6).bytes();
                assert_eq!(Some(bed.way(&bytes)), bed.said(&bytes), "a segment from {port}");
                let error = error_about(&bytes, ipv6);
                let worker = bed.way(&error);
                assert_eq!(Some(worker), bed.said(&error), "an error about {port}");
                assert_eq!(Some(worker), bed.said(&bytes), "both are one flow's");
                seen[worker] += 1;
                if !ipv6 {
                    // A header with options: the ports stand behind them.
                    bytes[14] = 0x46;
                    bytes.splice(34..34, [1, 1, 1, 1]);
                    assert_eq!(bed.way(&bytes), worker, "options in front of {port}");
                    assert_eq!(bed.said(&bytes), Some(worker));
                }
            }
        }
        assert!(seen.iter().all(|&flows| flows >= 4), "{seen:?}");
    });
}

#[test]
fn a_group_that_is_given_away_takes_its_packets_along() {
    in_namespace(|| {
        let mut bed = bed();
        let bytes = tcp(5000, false).bytes();
        let Addressee::Flow(group) = addressee(Medium::Ethernet, &bytes) else { panic!("it is a flow's") };
        for worker in [2, 0, 1] {
            bed.groups.assign(group, worker).expect("the map is there");
            assert_eq!(bed.way(&bytes), worker);
            assert!(bed.groups.of(worker).contains(group));
        }
    });
}

#[test]
fn what_is_no_flow_is_the_first_sockets_or_everyones() {
    in_namespace(|| {
        let mut bed = bed();
        let plain = tcp(5000, false).bytes();
        let changed = |at: usize, values: &[u8]| {
            let mut bytes = plain.clone();
            bytes[at..at + values.len()].copy_from_slice(values);
            bytes
        };
        let (mut arp, mut short) = (changed(12, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]), plain.clone());
        short.truncate(35);
        let echo = changed(23, &[1]);
        // Worker 1 has joined first.
        for bytes in [&arp, &echo, &short] {
            assert_eq!((bed.way(bytes), bed.said(bytes)), (1, Some(0)), "{bytes:02x?}");
        }
        arp[20..22].copy_from_slice(&[0, 2]);
        for bytes in [&arp, &changed(20, &[0x20, 0]), &changed(20, &[0, 9])] {
            assert_eq!((bed.way(bytes), bed.said(bytes)), (1, None), "{bytes:02x?}");
        }
        let mut burst = Burst::default();
        let next = tcp(5001, false).bytes();
        burst.push(bed.arena.alloc_from(&next).expect("room"));
        bed.client.transmit(Instant::ZERO, &mut burst).expect("the link is up");
        let worker = bed.said(&next).expect("a flow's");
        receive_some(&mut bed.workers[worker], &mut burst);
        assert_eq!(arrived(&mut burst).len(), 1, "nothing was left behind");
    });
}
