use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use super::*;
use crate::steering::received_by_kernel;
use crate::testing::{in_namespace, ip};

const AGREED: Agreed = Agreed { mss: 1460, send_scale: 7, receive_scale: 9, sack: true, timestamps: true };

/// `None`: this kernel is too old.
fn queues() -> Option<AcceptQueues> {
    match AcceptQueues::new() {
        Ok(queues) => Some(queues),
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::NotFound) => None,
        Err(error) => panic!("root may use BPF: {error}"),
    }
}

#[test]
fn the_record_has_the_ends_as_a_packet_of_the_peer_has_them() {
    let flow = Flow { local: ([10, 0, 0, 2].into(), 80), remote: ([10, 0, 0, 1].into(), 4711) };
    let bytes = record(&flow, &AGREED, Some(Clock { recent: 5, now: 6 }));
    assert_eq!(bytes[..12], [10, 0, 0, 1, 10, 0, 0, 2, 18, 103, 0, 80]);
    assert_eq!(bytes.len(), ENDS_BYTES + AGREED_BYTES);
    let agreed = &bytes[ENDS_BYTES..];
    assert_eq!((&agreed[..4], &agreed[4..8]), (&5_u32.to_ne_bytes()[..], &6_u32.to_ne_bytes()[..]));
    assert_eq!(agreed[10..], [9, 7, 0, 1, 1, 1, 0, 0, 0, 0]);
    let plain = Agreed { send_scale: 0, receive_scale: 0, sack: false, ..AGREED };
    assert_eq!(record(&flow, &plain, None)[ENDS_BYTES + 10..], [0; 10], "no option was agreed on");
}

/// While a connection is expected, all else over `lo` is as before: other flows, the flow's datagrams, the port's listener.
#[test]
fn other_packets_over_lo_are_left_alone() {
    in_namespace(|| {
        ip("link set lo up");
        let Some(mut queues) = queues() else { return };
        for local in [IpAddr::V4(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            let listener = TcpListener::bind((local, 0)).expect("a port is free");
            let address = listener.local_addr().expect("bound");
            let flow = Flow { local: (local, address.port()), remote: (local, 9) };
            assert!(!queues.is_open());
            queues.open(&flow, &AGREED, None).expect("root");
            queues.open(&flow, &AGREED, None).expect("it stays for the next one");
            assert!(queues.is_open());
            let mut client = TcpStream::connect(address).expect("it listens");
            let (mut server, _) = listener.accept().expect("it is connected");
            client.write_all(b"x").expect("room");
            assert_eq!(server.read(&mut [0; 8]).expect("it is connected"), 1);
            let [one, other] = [9, address.port()].map(|port| UdpSocket::bind((local, port)).expect("no other has it"));
            one.send_to(b"x", SocketAddr::new(local, address.port())).expect("room");
            assert_eq!(other.recv(&mut [0; 8]).expect("it is there"), 1);
            assert_eq!(received_by_kernel(&flow).expect("it answers"), None, "no acknowledgment was shown");
            queues.close();
            let ends = client.local_addr().expect("connected");
            let flow = Flow { local: (local, address.port()), remote: (local, ends.port()) };
            assert_eq!(received_by_kernel(&flow).expect("it answers"), Some(1));
        }
    });
}
