use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};

use ringway::Transport;

use super::{read, serving, users};

const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 2 1
   2: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 3 1
   3: 0100007F:0016 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1001        0 4 1
";

fn in_table(ip: [u8; 4], port: u16) -> Vec<u32> {
    serving(IpAddr::V4(Ipv4Addr::from(ip)), &read(Transport::Tcp, TABLE.as_bytes(), port).expect("it reads from memory"), &[])
}

const TABLE_V6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  2000
   1: 00000000000000000000000000000000:0051 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  2000
   2: 0000000000000000FFFF00000100000A:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  3000
   3: 000000FD000000000000000001000000:0052 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  4000
";

/// A socket on `::` counts for IPv4 only where no IPv4 socket listens; one on a v4-mapped address always does.
#[test]
fn listeners_of_both_families() {
    let users = |ip: &str, port| {
        let tables = [TABLE, TABLE_V6].map(|table| read(Transport::Tcp, table.as_bytes(), port).expect("it reads from memory"));
        serving(ip.parse().expect("an address"), &tables[0], &tables[1])
    };
    assert_eq!(users("fd00::1", 80), [2000]);
    assert_eq!(users("10.0.0.1", 80), [33, 3000]);
    assert_eq!(users("10.0.0.1", 81), [2000]);
    assert_eq!(users("fd00::100:0", 82), []);
    assert_eq!(users("0.0.0.0", 81), [2000]);
    assert_eq!(users("0.0.0.0", 82), []);
    assert_eq!(users("fd00::1", 82), [4000]);
}

/// Listeners on the address itself and on all addresses count; connections and other ports do not.
#[test]
fn listeners_of_an_address() {
    assert_eq!(in_table([127, 0, 0, 1], 22), [0]);
    assert_eq!(in_table([127, 0, 0, 1], 80), [33, 1000]);
    assert_eq!(in_table([10, 0, 0, 1], 80), [33]);
    assert_eq!(in_table([10, 0, 0, 1], 22), []);
}

/// The machine's own tables, IPv4 and (where there is IPv6) a listener on all addresses of both kinds.
#[test]
fn listeners_of_this_machine() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are free ports");
    let address = listener.local_addr().expect("bound");
    let me = rustix::process::getuid().as_raw();
    assert_eq!(users(Transport::Tcp, address.ip(), address.port()).expect("/proc is there"), [me]);
    let connection = TcpStream::connect(address).expect("it listens");
    drop(listener);
    assert_eq!(users(Transport::Tcp, address.ip(), address.port()).expect("/proc is there"), []);
    drop(connection);
    if let Ok(both) = TcpListener::bind("[::]:0") {
        let port = both.local_addr().expect("bound").port();
        assert_eq!(users(Transport::Tcp, Ipv4Addr::LOCALHOST.into(), port).expect("/proc is there"), [me]);
    }
}

/// A UDP socket that is bound counts, whatever its state.
#[test]
fn datagram_sockets_of_this_machine() {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are free ports");
    let address = socket.local_addr().expect("bound");
    let me = rustix::process::getuid().as_raw();
    assert_eq!(users(Transport::Udp, address.ip(), address.port()).expect("/proc is there"), [me]);
    drop(socket);
    assert_eq!(users(Transport::Udp, address.ip(), address.port()).expect("/proc is there"), []);
}
