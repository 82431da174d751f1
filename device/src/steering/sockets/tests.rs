use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::*;
use crate::testing::{in_namespace, ip};

/// A connection is there until the kernel has forgotten it; its listener is none.
#[test]
fn connections_and_their_time_wait_are_there_and_listeners_are_not() {
    in_namespace(|| {
        ip("link set lo up");
        for local in [IpAddr::V4(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            let listener = TcpListener::bind((local, 0)).expect("a port is free");
            let port = listener.local_addr().expect("bound").port();
            let stream = TcpStream::connect((local, port)).expect("it listens");
            let from = stream.local_addr().expect("connected").port();
            let (client, server) = ((local, from), (local, port));
            let flow = Flow { local: client, remote: server };
            let mut asker = Asker::open().expect("the kernel has sock_diag");
            assert!(asker.has_connection(&flow).expect("it answers"));
            assert!(asker.has_connection(&Flow { local: server, remote: client }).expect("it answers"));
            let none = Flow { local: server, remote: (local, from ^ 1) };
            assert!(!asker.has_connection(&none).expect("it answers"), "the listener is no connection");
            assert!(!asker.has_connection(&Flow { local: client, remote: (local, port ^ 1) }).expect("it answers"));
            let (accepted, _) = listener.accept().expect("it waits");
            drop(stream);
            drop(accepted);
            drop(listener);
            assert!(asker.has_connection(&flow).expect("it answers"), "TIME-WAIT");
        }
    });
}

/// All connections of a port and address, in every state, and no others.
#[test]
fn the_peers_of_a_port() {
    in_namespace(|| {
        ip("link set lo up");
        let [own, other] = [[127, 0, 0, 2], [127, 0, 0, 3]].map(|octets| IpAddr::V4(octets.into()));
        let peers = |most| Asker::open().expect("the kernel has sock_diag").peers_of((own, 80), most).expect("it answers");
        // A wildcard of IPv6 accepts IPv4.
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 80)).expect("the port is free");
        assert_eq!(peers(9), Some(BTreeSet::new()), "the listener is none");
        let streams = [own, own, other].map(|ip| TcpStream::connect((ip, 80)).expect("it listens"));
        let ends = streams.each_ref().map(|stream| stream.local_addr().expect("connected")).map(|end| (end.ip(), end.port()));
        let both: BTreeSet<End> = ends[..2].iter().copied().filter(|end| end.0 != own).collect();
        assert_eq!((peers(9), both.len()), (Some(both.clone()), 2), "before they are accepted");
        assert_eq!((peers(2).map(|peers| peers.len()), peers(1)), (Some(2), None));
        let accepted = [(); 3].map(|()| listener.accept().expect("they wait").0);
        drop(listener);
        // Our end closes first: TIME-WAIT is here.
        drop(accepted);
        drop(streams);
        assert_eq!(peers(9), Some(both));
        // Its own end is the other end of a connection of this address.
        let listener = TcpListener::bind((own, 81)).expect("the port is free");
        let stream = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a descriptor");
        rustix::net::bind(&stream, &std::net::SocketAddr::new(own, 5000)).expect("the port is free");
        rustix::net::connect(&stream, &listener.local_addr().expect("bound")).expect("it listens");
        let at = |port| Asker::open().expect("it has").peers_of((own, port), 9).expect("it answers");
        assert_eq!((at(81), at(5000)), (Some(BTreeSet::new()), Some(BTreeSet::new())));
    });
}

/// More than one part of a list.
#[test]
fn a_long_list_is_read_to_its_end() {
    in_namespace(|| {
        ip("link set lo up");
        let own = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        let listener = TcpListener::bind((own, 80)).expect("the port is free");
        let pairs: Vec<_> = (0..400).map(|_| (TcpStream::connect((own, 80)), listener.accept().expect("one waits"))).collect();
        let peers = Asker::open().expect("it has").peers_of((own, 80), 1000).expect("it answers").expect("they are fewer");
        assert_eq!(peers.len(), pairs.len());
    });
}

/// A message of a list that makes no sense tells of no connection.
#[test]
fn messages_of_a_list() {
    let local = (IpAddr::from([10, 0, 0, 1]), 80);
    let mut body = vec![AF_INET, 1, 0, 0, 0, 80, 0x10, 0, 10, 0, 0, 1];
    body.resize(REMOTE_AT, 0);
    body.extend([10, 0, 0, 2]);
    assert_eq!(peer_of(&body, local), Some((IpAddr::from([10, 0, 0, 2]), 0x1000)));
    assert_eq!(peer_of(&body[..REMOTE_AT + 3], local), None);
    assert_eq!(peer_of(&[], local), None);
    assert_eq!(peer_of(&body, (local.0, 81)), None);
    for (at, byte) in [(0, 9), (STATE_AT, TCP_LISTEN), (LOCAL_AT, 11)] {
        let mut other = body.clone();
        other[at] = byte;
        assert_eq!(peer_of(&other, local), None);
    }
}

/// What makes no sense is no connection.
#[test]
fn a_short_answer_is_no_connection() {
    assert!(!is_connection(&[2], 0));
    assert!(!is_connection(&[2, 1, 0, 0, 0, 80, 0], 0));
    assert!(is_connection(&[2, 1, 0, 0, 0, 80, 0, 0], 0));
    assert!(!is_connection(&[2, TCP_LISTEN, 0, 0, 0, 80, 0, 0], 0));
}
