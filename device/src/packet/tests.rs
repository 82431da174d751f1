//! What the device holds while nobody looks.

use ringway_shm::{Burst, Instant};

use super::{Packet as PacketDevice, PacketOptions};
use crate::testing::{Packet, arena, in_namespace, ip};
use crate::{Device, interface};

/// Connections that each have one request under way: the largest number that `ringway bench conns` opens over veth.
const CONNECTIONS: u32 = 4800;

/// The two ends of a wire that carries nothing of its own, and the link addresses of a packet from left to right.
fn ends() -> (PacketDevice, PacketDevice, [u8; 12]) {
    ip("link add left type veth peer name right");
    for name in ["left", "right"] {
        ip(&format!("link set {name} arp off up"));
    }
    let mac = |name| interface::Interface::open(name).expect("it was made above").mac;
    let macs = [mac("right"), mac("left")].concat().try_into().expect("twice six bytes");
    let open = |name| PacketDevice::open(name, None, PacketOptions::default(), &arena()).expect("it was made above");
    (open("left"), open("right"), macs)
}

#[test]
fn requests_of_many_connections_wait_for_a_worker_that_is_late() {
    in_namespace(|| {
        let (mut left, mut right, macs) = ends();
        let template = Packet { macs, payload: &[7; 64], ..Packet::default() };
        let mut burst = Burst::with_capacity(64);
        for sequence in 0..CONNECTIONS {
            Packet { sequence, ..template }.push(&left.arena, &mut burst, 0, false);
            if burst.packets() == 64 || sequence + 1 == CONNECTIONS {
                left.transmit(Instant::ZERO, &mut burst).expect("the wire is up");
            }
        }
        let mut wanted = 0;
        while wanted < CONNECTIONS && right.receive(Instant::ZERO, &mut burst).expect("the wire is up") > 0 {
            for packet in crate::testing::arrived(&mut burst) {
                wanted += u32::from(packet.payload() == [7; 64]);
            }
        }
        assert_eq!((wanted, right.counters().rx_dropped), (CONNECTIONS, 0));
    });
}
