use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use ringway_engine::Transport;

use super::{Holder, meets, others, read};

const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 2 1
   2: 0100007F:0016 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1001        0 4 1
   3: 0100007F:0016 0100007F:9998 06 00000000:00000000 00:00000000 00000000     0        0 0 1
   4: 0000000000000000FFFF00000100000A:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  3000 0 5
";

/// Listeners and connections count, what is in TIME-WAIT and other ports do not.
#[test]
fn holders_of_a_port() {
    let users = |port| read(TABLE.as_bytes(), port).expect("it reads from memory").iter().map(|h| (h.user, h.inode)).collect();
    let (ssh, http): (Vec<_>, Vec<_>) = (users(22), users(80));
    assert_eq!((ssh, http), (vec![(0, 1), (1001, 4)], vec![(33, 2), (3000, 5)]));
    let mapped = Holder { ip: Ipv4Addr::new(10, 0, 0, 1).into(), user: 3000, inode: 5 };
    assert_eq!(read(TABLE.as_bytes(), 80).expect("it reads from memory")[1], mapped);
}

#[test]
fn a_wildcard_meets_every_address_of_its_family_and_the_one_of_ipv6_also_ipv4() {
    let ip = |text: &str| text.parse().expect("an address");
    for (holder, asked, dual_stack, met) in [
        ("10.0.0.1", "10.0.0.1", false, true),
        ("10.0.0.1", "10.0.0.2", false, false),
        ("0.0.0.0", "10.0.0.1", false, true),
        ("0.0.0.0", "fd00::1", false, false),
        ("::", "10.0.0.1", false, true),
        ("10.0.0.1", "::", true, true),
        ("10.0.0.1", "::", false, false),
        ("fd00::1", "::", false, true),
    ] {
        assert_eq!(meets(ip(holder), ip(asked), dual_stack), met, "{holder} {asked} {dual_stack}");
    }
}

/// The machine's own tables: what another user would meet here.
#[test]
fn sockets_of_this_machine() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are free ports");
    let local = listener.local_addr().expect("bound");
    let me = rustix::process::getuid().as_raw();
    let inode = rustix::fs::fstat(listener.as_fd()).expect("open").st_ino;
    let meets = |local: SocketAddr, uid, inode| others(Transport::Tcp, local, false, (uid, inode)).expect("/proc is there");
    assert!(meets(local, me + 1, 0) && !meets(local, me, 0) && !meets(local, me + 1, inode));
    let connection = TcpStream::connect(local).expect("it listens");
    let accepted = listener.accept().expect("it was connected");
    drop(listener);
    assert!(meets(connection.local_addr().expect("connected"), me + 1, 0), "a connection is a user of its port");
    drop(accepted);
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are free ports");
    let local = socket.local_addr().expect("bound");
    assert!(others(Transport::Udp, local, false, (me + 1, 0)).expect("/proc is there"));
}
