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

/// What makes no sense is no connection.
#[test]
fn a_short_answer_is_no_connection() {
    assert!(!is_connection(&[2], 0));
    assert!(!is_connection(&[2, 1, 0, 0, 0, 80, 0], 0));
    assert!(is_connection(&[2, 1, 0, 0, 0, 80, 0, 0], 0));
    assert!(!is_connection(&[2, TCP_LISTEN, 0, 0, 0, 80, 0, 0], 0));
}
