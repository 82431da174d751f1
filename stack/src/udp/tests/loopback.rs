//! Datagrams between sockets of one stack.

use alloc::vec::Vec;
use core::net::IpAddr;

use ringway_shm::{Arena, ArenaConfig, Burst, Class, Instant};

use crate::address::{Cidr, MacAddress, SocketAddress};
use crate::config::{StackConfig, UdpOptions};
use crate::error::UdpSendError;
use crate::ip::{Autoconfiguration, Interface, Medium, Role};
use crate::stack::Stack;
use crate::udp::UdpSend;

fn addresses() -> [IpAddr; 2] {
    [IpAddr::from([10, 0, 0, 1]), "2001:db8::1".parse().expect("an address")]
}

fn stack(role: Role) -> (Stack, Arena) {
    let arena = Arena::new(ArenaConfig { large: 2_048, small: 2_048 });
    let mut stack = Stack::new(StackConfig { seed: 9, ..StackConfig::default() }, arena.clone(), Instant::ZERO);
    let interface = stack.add_interface(Interface {
        name: "wire0".into(),
        medium: Medium::Ip,
        mac: MacAddress::default(),
        mtu: 1_500,
        sends_partial_checksums: false,
        segmentation_max_bytes: 0,
        segmentation_max_segments: u32::MAX,
        segments_udp: false,
        gathers: true,
        role,
        autoconfiguration: Autoconfiguration::Off,
        detects_duplicates: false,
        vlan: None,
    });
    stack.set_addresses(interface, addresses().into_iter().map(|ip| Cidr { ip, prefix_len: 24 }).collect());
    (stack, arena)
}

fn turn(stack: &mut Stack, now: Instant) {
    let mut out = [Burst::default()];
    for _ in 0..100 {
        let more = stack.transmit(now, &mut out);
        while stack.poll_event().is_some() {}
        if !more && stack.poll_timeout().is_none_or(|at| at > now) {
            assert!(out[0].is_empty(), "nothing leaves");
            return;
        }
        stack.handle_timeout(now);
    }
    panic!("it does not end");
}

/// Small ones and such as a link would have to cut arrive whole over both families; every frame comes back.
#[test]
fn datagrams_arrive() {
    for ip in addresses() {
        let (mut stack, arena) = stack(Role::Owned);
        let now = Instant::from_millis(1_000);
        let server = SocketAddress { ip, port: 53 };
        let receiver = stack.udp_bind(server, UdpOptions::default(), 1).expect("the port is free");
        let sender = stack.udp_bind(SocketAddress { ip, port: 1_053 }, UdpOptions::default(), 2).expect("the port is free");
        for len in [0usize, 1, 1_000, 1_472, 5_000, 40_000] {
            let mut byte = 0u8;
            let mut fill = |piece: &mut [u8]| {
                piece.iter_mut().for_each(|to| {
                    *to = byte;
                    byte = byte.wrapping_add(1);
                });
            };
            let send = UdpSend { len, to: Some(server), ..UdpSend::default() };
            assert_eq!(stack.udp_send(now, sender, &send, &mut fill), Ok(len));
            turn(&mut stack, now);
            let mut frames = Burst::default();
            let message = stack.udp_receive(receiver, &mut frames).expect("it has arrived");
            assert_eq!((message.from.port, message.to, message.len as usize), (1_053, server, len));
            let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes().to_vec()).collect();
            assert!(bytes.len() == len && bytes.iter().enumerate().all(|(at, byte)| *byte == at as u8), "{len} bytes");
        }
        stack.close(now, sender);
        stack.close(now, receiver);
        assert_eq!((arena.free(Class::Large), arena.free(Class::Small)), (2_048, 2_048));
    }
}

/// A closed port: a connected sender is told of it. Where the kernel has the address too, it is the kernel's matter.
#[test]
fn a_closed_port() {
    for ip in addresses() {
        let (mut owned, _) = stack(Role::Owned);
        let now = Instant::from_millis(1_000);
        let sender = owned.udp_bind(SocketAddress { ip, port: 1_053 }, UdpOptions::default(), 2).expect("the port is free");
        owned.udp_connect(sender, Some(SocketAddress { ip, port: 54 })).expect("a way to ourselves");
        let send = UdpSend { len: 4, ..UdpSend::default() };
        owned.udp_send(now, sender, &send, &mut |piece| piece.fill(7)).expect("there is room");
        turn(&mut owned, now);
        assert_eq!(owned.udp_error(sender), Some(crate::udp::UdpError::Refused));
        let (mut shared, _) = stack(Role::Shared);
        let sender = shared.udp_bind(SocketAddress { ip, port: 1_053 }, UdpOptions::default(), 2).expect("the port is free");
        let send = UdpSend { len: 4, to: Some(SocketAddress { ip, port: 54 }), ..UdpSend::default() };
        assert_eq!(shared.udp_send(now, sender, &send, &mut |_| {}), Err(UdpSendError::NoRoute));
    }
}
