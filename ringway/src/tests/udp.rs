//! Datagrams between two programs.

use ringway_shm::{Class, Duration};

use super::harness::{CLIENT, Pair, SERVER, address, pattern};
use crate::{BindError, Event, ReadError, UdpSendError, UdpSocket, UdpSocketId};

fn bound(pair: &mut Pair, host: usize, port: u16) -> UdpSocketId {
    UdpSocket::bind(&mut pair.nets[host], address(host, port)).expect("the port is free").into_id()
}

/// Datagrams cross by copy and in place, both ways, each whole, with their source address; those in place are not
/// copied.
#[test]
fn datagrams_cross_by_copy_and_in_place() {
    let mut pair = Pair::new();
    let (server, client) = (bound(&mut pair, SERVER, 53), bound(&mut pair, CLIENT, 4000));
    assert_eq!(UdpSocket::bind(&mut pair.nets[SERVER], address(SERVER, 53)).err(), Some(BindError::InUse));
    assert_eq!(server.recv_chunk(&mut pair.nets[SERVER]).err(), Some(ReadError::WouldBlock));
    assert_eq!(client.send(&mut pair.nets[CLIENT], b"where to?"), Err(UdpSendError::DestinationRequired));
    for len in [0, 1, 200, 1400, 9_000] {
        let question = pattern(len, len as u64 + 1);
        assert_eq!(client.send_to(&mut pair.nets[CLIENT], &question, address(SERVER, 53)), Ok(len));
        pair.run_until(|pair| {
            pair.events[SERVER].pop().is_some_and(|event| matches!(event, Event::Datagram(s, r) if s == server && r.readable))
        });
        let datagram = server.recv_chunk(&mut pair.nets[SERVER]).expect("the event has said so");
        assert_eq!((datagram.len(), datagram.from()), (len, address(CLIENT, 4000)));
        assert!(datagram.bytes()[..] == question[..]);
    }
    let copied = pair.nets[CLIENT].copied_bytes();
    assert_eq!(copied, 1 + 200 + 1400 + 9_000);
    assert_eq!(pair.nets[SERVER].copied_bytes(), 0);

    client.connect(&mut pair.nets[CLIENT], Some(address(SERVER, 53))).expect("a route");
    for len in [0, 5, 150, 1400] {
        let mut room = client.reserve(&mut pair.nets[CLIENT], 1400).expect("room");
        room[..len].copy_from_slice(&pattern(len, 9));
        client.commit(&mut pair.nets[CLIENT], room, len, None).expect("it is open");
        pair.run_for(Duration::from_millis(1));
        let mut buffer = [0; 1000];
        let cut = len.min(1000);
        assert_eq!(server.recv_from(&mut pair.nets[SERVER], &mut buffer), Ok((cut, address(CLIENT, 4000))));
        assert!(buffer[..cut] == pattern(len, 9)[..cut]);
        assert_eq!(server.send_to(&mut pair.nets[SERVER], b"yes", address(CLIENT, 4000)), Ok(3));
        pair.run_for(Duration::from_millis(1));
        assert_eq!(client.recv(&mut pair.nets[CLIENT], &mut buffer), Ok(3));
    }
    assert_eq!(pair.nets[CLIENT].copied_bytes(), copied + 4 * 3, "only what came back was copied");
    let too_long = client.reserve(&mut pair.nets[CLIENT], 5_000).err();
    assert_eq!(too_long, Some(UdpSendError::MessageTooLong));
    client.close(&mut pair.nets[CLIENT]);
    server.close(&mut pair.nets[SERVER]);
    assert_eq!(server.recv(&mut pair.nets[SERVER], &mut [0; 8]), Err(ReadError::NotOpen));
    pair.run_for(Duration::from_millis(10));
    assert!(pair.frames_are_all_free());
}

/// An application that keeps datagrams finally receives no more, and leaves frames to others.
#[test]
fn kept_datagrams_leave_frames_to_others() {
    let mut pair = Pair::with(Default::default(), Default::default(), 1_024);
    let (server, client) = (bound(&mut pair, SERVER, 53), bound(&mut pair, CLIENT, 4000));
    let (other, payload) = (bound(&mut pair, SERVER, 54), pattern(1400, 1));
    let mut kept = Vec::new();
    let mut refused = false;
    for _ in 0..2_000 {
        assert_eq!(client.send_to(&mut pair.nets[CLIENT], &payload, address(SERVER, 53)), Ok(1400));
        pair.step();
        pair.step();
        match server.recv_chunk(&mut pair.nets[SERVER]) {
            Ok(datagram) => kept.push(datagram),
            Err(error) => refused |= error == ReadError::Lent,
        }
    }
    assert!(refused);
    let arena = pair.nets[SERVER].arena();
    assert!(arena.free(Class::Large) > arena.capacity(Class::Large) / 4);
    assert_eq!(client.send_to(&mut pair.nets[CLIENT], &payload, address(SERVER, 54)), Ok(1400));
    pair.run_until(|pair| other.recv(&mut pair.nets[SERVER], &mut [0; 2000]) == Ok(1400));
    kept.clear();
    pair.run_for(Duration::from_millis(5));
    let again = server.recv_chunk(&mut pair.nets[SERVER]);
    assert!(again.is_ok(), "giving back lets more be taken");
}
