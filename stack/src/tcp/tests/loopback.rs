//! Two sockets of one stack exchange data without a device.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use ringway_shm::{Arena, ArenaConfig, Burst, Class};

use super::rig::link;
use crate::address::{Cidr, SocketAddress};
use crate::config::{StackConfig, TcpOptions};
use crate::error::{ConnectError, ReceiveError};
use crate::event::{Event, SocketError};
use crate::ip::{Interface, Role};
use crate::stack::Stack;
use crate::tcp::ActiveOpen;
use crate::{Instant, SocketId};

fn addresses() -> [IpAddr; 2] {
    [IpAddr::from([10, 0, 0, 1]), "2001:db8::1".parse().expect("an address")]
}

fn stack(role: Role) -> (Stack, Arena) {
    let arena = Arena::new(ArenaConfig { large: 2_048, small: 2_048 });
    let mut stack = Stack::new(StackConfig { seed: 9, ..StackConfig::default() }, arena.clone(), Instant::ZERO);
    let interface = stack.add_interface(Interface { role, ..link(1_500) });
    stack.set_addresses(interface, addresses().into_iter().map(|ip| Cidr { ip, prefix_len: 24 }).collect());
    (stack, arena)
}

/// Runs the stack until nothing is due at `now`; returns the events.
fn turn(stack: &mut Stack, now: Instant) -> Vec<Event> {
    let mut out = [Burst::default()];
    let mut events = Vec::new();
    for _ in 0..100_000 {
        let more = stack.transmit(now, &mut out);
        events.extend(core::iter::from_fn(|| stack.poll_event()));
        if !more && stack.poll_timeout().is_none_or(|at| at > now) {
            assert!(out[0].is_empty(), "nothing leaves");
            return events;
        }
        stack.handle_timeout(now);
    }
    panic!("the stack does not come to rest");
}

fn receive(stack: &mut Stack, id: SocketId) -> Result<Vec<u8>, ReceiveError> {
    let mut bytes = Vec::new();
    loop {
        match stack.take_frame(id) {
            Ok(frame) => {
                stack.consumed(id, frame.len());
                bytes.extend(frame.bytes());
            }
            Err(ReceiveError::WouldBlock) => return Ok(bytes),
            Err(error) => return if bytes.is_empty() { Err(error) } else { Ok(bytes) },
        }
    }
}

/// Over both families: a megabyte from client to server, closed from both ends, and every frame is freed.
#[test]
fn a_transfer() {
    for ip in addresses() {
        for role in [Role::Owned, Role::Shared] {
            let (mut stack, arena) = stack(role);
            let now = Instant::from_millis(1_000);
            let server = SocketAddress { ip, port: 80 };
            let listener = stack.listen(server, 8, TcpOptions::default(), 1).expect("the port is free");
            let client = stack.connect(now, ActiveOpen { user_token: 2, ..ActiveOpen::to(server) }).expect("a way to ourselves");
            let events = turn(&mut stack, now);
            assert!(events.contains(&Event::Connected { socket: client, user_token: 2 }));
            let accepted = stack.accept(listener, 3).expect("one waits");
            let (local, remote) = stack.addresses(accepted).expect("it is connected");
            assert_eq!((local, remote.ip), (server, ip));
            let (mut sent, mut received) = (0usize, Vec::new());
            while received.len() < 1 << 20 {
                let count = stack.send_space(client).min((1 << 20) - sent);
                if count > 0 {
                    let mut fill = |piece: &mut [u8]| {
                        piece.iter_mut().for_each(|byte| {
                            *byte = (sent % 251) as u8;
                            sent += 1;
                        });
                    };
                    stack.send_with(client, count, &mut fill).expect("there is space");
                }
                turn(&mut stack, now);
                received.extend(receive(&mut stack, accepted).expect("no end yet"));
            }
            assert!(received.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
            stack.shutdown_write(now, client);
            turn(&mut stack, now);
            assert_eq!(receive(&mut stack, accepted), Err(ReceiveError::EndOfStream));
            for id in [accepted, client, listener] {
                stack.close(now, id);
            }
            turn(&mut stack, now);
            for class in [Class::Large, Class::Small] {
                assert_eq!(arena.free(class), arena.capacity(class));
            }
        }
    }
}

/// A port without a listener: refused when the address is ours alone, left to the kernel when the kernel has it too.
#[test]
fn ports_without_a_listener() {
    for ip in addresses() {
        let remote = SocketAddress { ip, port: 81 };
        let now = Instant::from_millis(1_000);
        let (mut owned, _) = stack(Role::Owned);
        assert!(owned.reaches(remote));
        let client = owned.connect(now, ActiveOpen { user_token: 2, ..ActiveOpen::to(remote) }).expect("a way to ourselves");
        assert_eq!(turn(&mut owned, now), vec![Event::Failed { socket: client, user_token: 2, error: SocketError::Refused }]);
        let (mut shared, _) = stack(Role::Shared);
        assert!(!shared.reaches(remote));
        assert_eq!(shared.connect(now, ActiveOpen { user_token: 2, ..ActiveOpen::to(remote) }), Err(ConnectError::NoRoute));
    }
}
