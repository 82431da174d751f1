use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};

use super::{collect, users};

const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 2 1
   2: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 3 1
   3: 0100007F:0016 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1001        0 4 1
";

fn in_table(ip: [u8; 4], port: u16) -> Vec<u32> {
    let mut found = Vec::new();
    collect(TABLE.as_bytes(), IpAddr::V4(Ipv4Addr::from(ip)), port, &mut found).expect("it reads from memory");
    found
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
    assert_eq!(users(address.ip(), address.port()).expect("/proc is there"), [me]);
    let connection = TcpStream::connect(address).expect("it listens");
    drop(listener);
    assert_eq!(users(address.ip(), address.port()).expect("/proc is there"), []);
    drop(connection);
    if let Ok(both) = TcpListener::bind("[::]:0") {
        let port = both.local_addr().expect("bound").port();
        assert_eq!(users(Ipv4Addr::LOCALHOST.into(), port).expect("/proc is there"), [me]);
    }
}
