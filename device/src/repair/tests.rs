use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketType, connect_unspec, socket};

use super::*;
use crate::testing::{in_namespace, ip};

const CLOSE: u8 = 7;
const ESTABLISHED: u8 = 1;

/// A connection comes to be without a peer, keeps what is set, and goes without a packet.
#[test]
fn a_connection_is_set_and_taken_back() {
    in_namespace(|| {
        ip("link set lo up");
        ip("address add 10.9.9.1/24 dev lo");
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("there are sockets");
        let fd = socket.as_fd();
        enter(fd).expect("root");
        for (queue, number) in [(Queue::Receive, 1_000), (Queue::Send, u32::MAX)] {
            select(fd, queue).expect("in repair mode");
            set_sequence(fd, number).expect("closed");
            assert_eq!(sequence(fd).expect("in repair mode"), number);
        }
        set_number(fd, Number::MaximumSegmentSize, 1_400).expect("closed");
        rustix::net::connect(fd, &std::net::SocketAddr::from(([10, 9, 9, 2], 9))).expect("nothing is sent");
        assert_eq!(info(fd).expect("of TCP").state, ESTABLISHED);
        let agreed = Agreed { mss: 1_400, send_scale: 15, receive_scale: 7, sack: true, timestamps: true };
        agree(fd, &agreed).expect_err("there is no such scale");
        agree(fd, &Agreed { send_scale: 14, ..agreed }).expect("in time");
        set_timestamp(fd, 70_000).expect("in repair mode");
        let windows = Windows { wl1: 1_000, send: 65_536, send_max: 65_536, receive: 30_000, advertised_at: 1_000 };
        set_windows(fd, windows).expect("they fit");
        assert_eq!(super::windows(fd).expect("in repair mode"), windows);
        let found = info(fd).expect("of TCP").agreed;
        assert_eq!(found, Agreed { mss: 1_388, send_scale: 14, ..agreed }, "timestamps take twelve bytes");
        assert_eq!(timestamp(fd).expect("in repair mode") & 1, 0, "it counts milliseconds");
        assert!(!has_protocol_above(fd).expect("of TCP"));
        set_windows(fd, Windows { send_max: 1, ..windows }).expect_err("more than the maximum");
        assert_eq!(rustix::net::send(fd, &[7; 2_000], rustix::net::SendFlags::empty()), Ok(2_000));
        assert!(info(fd).expect("of TCP").unacknowledged > 0, "as if it had been sent");
        connect_unspec(fd).expect("silent");
        assert_eq!(info(fd).expect("of TCP").state, CLOSE);
        leave(fd, Leave::Silent).expect("it was in repair mode");
        set_windows(fd, windows).expect_err("it has left repair mode");
    });
}

#[test]
fn what_is_no_tcp_socket_is_refused() {
    let datagrams = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("there are sockets");
    enter(datagrams.as_fd()).expect_err("no TCP");
    info(datagrams.as_fd()).expect_err("no TCP");
    assert_eq!(number(datagrams.as_fd(), Number::BoundInterface).expect("every socket has it"), 0);
}
