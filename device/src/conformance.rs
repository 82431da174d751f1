//! For tests only: what every back end must do, run over each of them. The wire is a pair of devices.

use ringway_shm::{Arena, Burst, Class, Instant};

use crate::memory::{MemoryOptions, pair};
use crate::offload::Offload;
use crate::packet::{Packet as PacketDevice, PacketOptions};
use crate::steering::{Redirect, XdpMode};
use crate::tap::Tap;
use crate::testing::{Arrived, Packet, arena, arrived, in_namespace, ip, receive_some, wait_readable};
use crate::xdp::{Xdp, XdpOptions};
use crate::{Device, interface};

/// Two ends of a wire and the arenas that they take frames from.
struct Wire {
    near: Box<dyn Device>,
    near_arena: Arena,
    far: Box<dyn Device>,
    far_arena: Arena,
    macs: [u8; 12],
}

impl Wire {
    /// Sends from one end and returns what arrives at the other, of the packets of this test.
    fn cross(&mut self, outward: bool, packets: &[Packet], segment_size: u16, partial: bool) -> Vec<Arrived> {
        let (from, arena, to) = if outward {
            (&mut self.near, &self.near_arena, &mut self.far)
        } else {
            (&mut self.far, &self.far_arena, &mut self.near)
        };
        let mut out = Burst::default();
        for packet in packets {
            Packet { macs: self.macs, ..*packet }.push(arena, &mut out, segment_size, partial);
        }
        let mut got = Vec::new();
        let mut burst = Burst::default();
        while got.len() < packets.len() {
            from.transmit(Instant::ZERO, &mut out).expect("the link is up");
            receive_some(to.as_mut(), &mut burst);
            got.extend(arrived(&mut burst).into_iter().filter(is_ours));
        }
        got
    }
}

/// Returns true if it is one of `Packet::default()`'s kind, and not the kernel's own chatter (IPv6 neighbor discovery).
fn is_ours(packet: &Arrived) -> bool {
    packet.bytes.len() >= 54 && packet.bytes[12..14] == [8, 0] && packet.bytes[26..30] == [10, 0, 0, 1]
}

fn conforms(mut wire: Wire) {
    for outward in [true, false] {
        a_packet_crosses(&mut wire, outward);
        a_burst_keeps_its_order(&mut wire, outward);
        partial_checksums_cross(&mut wire, outward);
        a_64_kib_segment_crosses(&mut wire, outward);
        a_train_of_datagrams_crosses(&mut wire, outward);
        a_waiting_packet_wakes(&mut wire, outward);
    }
    frames_come_back(wire);
}

fn a_packet_crosses(wire: &mut Wire, outward: bool) {
    for len in [0, 1, 200, 1460] {
        let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let got = wire.cross(outward, &[Packet { payload: &payload, ..Packet::default() }], 0, false);
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].payload(), payload);
    }
}

fn a_burst_keeps_its_order(wire: &mut Wire, outward: bool) {
    let packets: Vec<Packet> = (0..200).map(|sequence| Packet { sequence, ..Packet::default() }).collect();
    let got = wire.cross(outward, &packets, 0, false);
    assert_eq!(got.iter().map(Arrived::sequence).collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
}

fn partial_checksums_cross(wire: &mut Wire, outward: bool) {
    let got = wire.cross(outward, &[Packet { payload: b"partial", ..Packet::default() }], 0, true);
    assert_eq!(got[0].payload(), b"partial");
}

fn a_64_kib_segment_crosses(wire: &mut Wire, outward: bool) {
    let payload: Vec<u8> = (0..65_000u32).map(|i| (i * 13) as u8).collect();
    let mut got = wire.cross(outward, &[Packet { payload: &payload, ..Packet::default() }], 1448, true);
    let to = if outward { &mut wire.far } else { &mut wire.near };
    let mut burst = Burst::default();
    while got.iter().map(|packet| packet.payload().len()).sum::<usize>() < payload.len() {
        receive_some(to.as_mut(), &mut burst);
        got.extend(arrived(&mut burst).into_iter().filter(is_ours));
    }
    let bytes: Vec<u8> = got.iter().flat_map(|packet| packet.payload().to_vec()).collect();
    assert!(bytes == payload, "equal bytes arrive, in {} packets", got.len());
}

fn a_train_of_datagrams_crosses(wire: &mut Wire, outward: bool) {
    let payload: Vec<u8> = (0..40_000u32).map(|i| (i * 13) as u8).collect();
    let packet = Packet { payload: &payload, macs: wire.macs, ..Packet::default() };
    let (from, arena, to) = match outward {
        true => (&mut wire.near, &wire.near_arena, &mut wire.far),
        false => (&mut wire.far, &wire.far_arena, &mut wire.near),
    };
    if !from.capabilities().segments_udp {
        return;
    }
    let mut out = Burst::default();
    packet.push_udp(arena, &mut out, 1_400);
    from.transmit(Instant::ZERO, &mut out).expect("the link is up");
    let mut bytes: Vec<u8> = Vec::new();
    let mut burst = Burst::default();
    while bytes.len() < payload.len() {
        receive_some(to.as_mut(), &mut burst);
        for datagram in arrived(&mut burst).into_iter().filter(is_ours) {
            let len = usize::from(u16::from_be_bytes([datagram.bytes[38], datagram.bytes[39]]));
            assert!(len == 8 + 1_400 || datagram.segmentation.size == 1_400 || bytes.len() + len - 8 == payload.len());
            bytes.extend_from_slice(&datagram.bytes[42..34 + len]);
        }
    }
    assert!(bytes == payload, "equal bytes arrive");
}

fn a_waiting_packet_wakes(wire: &mut Wire, outward: bool) {
    let (to, from, arena) = if outward {
        (&mut wire.far, &mut wire.near, &wire.near_arena)
    } else {
        (&mut wire.near, &mut wire.far, &wire.far_arena)
    };
    let mut burst = Burst::default();
    while to.receive(Instant::ZERO, &mut burst).expect("the link is up") > 0 || to.arm() {
        burst.clear();
    }
    burst.clear();
    Packet { macs: wire.macs, ..Packet::default() }.push(arena, &mut burst, 0, false);
    from.transmit(Instant::ZERO, &mut burst).expect("the link is up");
    match wait_readable(to.as_ref(), 5000) {
        Some(woken) => assert!(woken),
        None => assert!(to.arm(), "it is there"),
    }
    receive_some(to.as_mut(), &mut burst);
}

fn frames_come_back(wire: Wire) {
    let Wire { near, near_arena, far, far_arena, .. } = wire;
    drop((near, far));
    for arena in [near_arena, far_arena] {
        assert_eq!(arena.free(Class::Large), arena.capacity(Class::Large));
        assert_eq!(arena.free(Class::Small), arena.capacity(Class::Small));
    }
}

/// A veth pair `left` and `right` in the calling thread's namespace; returns both MACs, `right`'s first.
fn veth() -> [u8; 12] {
    ip("link add left type veth peer name right");
    ip("link set left up");
    ip("link set right up");
    macs("right", "left")
}

fn macs(destination: &str, source: &str) -> [u8; 12] {
    let mac = |name| interface::Interface::open(name).expect("it was made above").mac;
    [mac(destination), mac(source)].concat().try_into().expect("twice six bytes")
}

fn packet_device(name: &str, arena: &Arena) -> PacketDevice {
    PacketDevice::open(name, None, PacketOptions { ring_slots: 300, ..PacketOptions::default() }, arena)
        .expect("the interface was made above")
}

#[test]
fn memory_conforms_with_and_without_offloads() {
    for options in [MemoryOptions::default(), MemoryOptions::offloading()] {
        let (near_arena, far_arena) = (arena(), arena());
        let (near, far) = pair(&near_arena, &far_arena, options);
        let near = Box::new(Offload::new(Box::new(near), &near_arena));
        let far = Box::new(Offload::new(Box::new(far), &far_arena));
        conforms(Wire { near, near_arena, far, far_arena, macs: Packet::default().macs });
    }
}

#[test]
fn the_shared_memory_link_conforms() {
    use crate::memory::link::{CAPACITY, Link};
    let (near, far) = ringway_shm::wire::wire(CAPACITY).expect("memory");
    let (near_arena, far_arena) = (arena(), arena());
    let near = Box::new(Link::open(near, 1500, &near_arena).expect("ours"));
    let far = Box::new(Link::open(far, 1500, &far_arena).expect("ours"));
    conforms(Wire { near, near_arena, far, far_arena, macs: Packet::default().macs });
}

#[test]
fn packet_conforms_over_veth() {
    in_namespace(|| {
        let macs = veth();
        let (near_arena, far_arena) = (arena(), arena());
        let near = Box::new(packet_device("left", &near_arena));
        let far = Box::new(packet_device("right", &far_arena));
        assert!(near.capabilities().segments_udp, "veth cuts trains of datagrams");
        conforms(Wire { near, near_arena, far, far_arena, macs });
    });
}

#[test]
fn tap_conforms_against_packet_on_the_kernel_side() {
    in_namespace(|| {
        let (near_arena, far_arena) = (arena(), arena());
        let near = Box::new(Tap::open("rwtest%d", &near_arena).expect("TAP is available"));
        let name = near.interface().name.clone();
        interface::set_up(&name, None, None).expect("the interface was made above");
        let far = Box::new(packet_device(&name, &far_arena));
        conforms(Wire { near, near_arena, far, far_arena, macs: macs(&name, &name) });
    });
}

#[test]
fn packet_says_that_the_link_is_down_and_recovers() {
    in_namespace(|| {
        let macs = veth();
        let (near_arena, far_arena) = (arena(), arena());
        let (near, mut far) = (packet_device("left", &near_arena), packet_device("right", &far_arena));
        interface::set_down("right").expect("the interface was made above");
        let mut burst = Burst::default();
        while far.receive(Instant::ZERO, &mut burst).is_ok() {
            // Not asked for at once where a packet had come before.
            assert!(far.arm() || far.arm(), "the error is there");
        }
        Packet { macs, ..Packet::default() }.push(&far_arena, &mut burst, 0, false);
        let error = far.transmit(Instant::ZERO, &mut burst).expect_err("the interface is down");
        assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
        interface::set_up("right", None, None).expect("the interface was made above");
        let wire = Wire { near: Box::new(near), near_arena, far: Box::new(far), far_arena, macs };
        conforms(wire);
    });
}

/// AF_XDP in `mode` at one end of a veth pair of `mtu`, AF_PACKET at the other.
fn xdp_conforms(mode: XdpMode, mtu: u16) {
    in_namespace(move || {
        let macs = veth();
        for name in ["left", "right"] {
            interface::set_up(name, Some(mtu), None).expect("the interface was made above");
        }
        let (near_arena, far_arena) = (arena(), arena());
        let options = XdpOptions { mode: Some(mode), ring_entries: 256, ..XdpOptions::default() };
        let xdp = Xdp::open("left", Redirect::All, options, &near_arena).expect("veth has both modes");
        assert_eq!(xdp.mode(), (mode, false), "veth has no zero copy");
        let near = Box::new(Offload::new(Box::new(xdp), &near_arena));
        // The far end cuts too: AF_XDP cannot receive super-segments.
        let far = Box::new(Offload::cutting(Box::new(packet_device("right", &far_arena)), &far_arena));
        conforms(Wire { near, near_arena, far, far_arena, macs });
    });
}

#[test]
fn xdp_conforms_in_native_mode() {
    xdp_conforms(XdpMode::Native, 1500);
}

#[test]
fn xdp_conforms_in_generic_mode() {
    xdp_conforms(XdpMode::Generic, 1500);
}

#[test]
fn xdp_conforms_with_chains_of_frames() {
    xdp_conforms(XdpMode::Native, 9000);
}

#[test]
fn xdp_says_when_a_peer_sends_super_segments() {
    in_namespace(|| {
        let macs = veth();
        let (near_arena, far_arena) = (arena(), arena());
        let options = XdpOptions { mode: Some(XdpMode::Generic), ..XdpOptions::default() };
        let mut xdp = Xdp::open("left", Redirect::All, options, &near_arena).expect("veth has both modes");
        let mut far = packet_device("right", &far_arena);
        assert_eq!(xdp.advice(), None);
        let mut burst = Burst::default();
        Packet { macs, payload: &[1; 20_000], ..Packet::default() }.push(&far_arena, &mut burst, 1448, true);
        Packet { macs, ..Packet::default() }.push(&far_arena, &mut burst, 0, false);
        far.transmit(Instant::ZERO, &mut burst).expect("the link is up");
        receive_some(&mut xdp, &mut burst);
        assert!(xdp.advice().expect("a packet was lost").contains("tso off"));
    });
}
