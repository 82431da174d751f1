//! Requests survive the ring; nonsense does not.

use super::*;

#[test]
fn what_is_written_is_read() {
    let address: SocketAddr = "192.0.2.7:8080".parse().expect("an address");
    let wide: SocketAddr = "[2001:db8::1]:443".parse().expect("an address");
    let operations = [
        Operation::Listen { local: address, backlog: 511, dual_stack: false },
        Operation::Listen { local: address, backlog: 511, dual_stack: true },
        Operation::Connect { remote: wide },
        Operation::Transmit,
        Operation::Consumed,
        Operation::Shutdown,
        Operation::Close { linger_s: None },
        Operation::Close { linger_s: Some(0) },
        Operation::Close { linger_s: Some(u16::MAX) },
        Operation::Abort,
        Operation::Info,
        Operation::Forked { process: 255, pid: 4_194_304 },
        Operation::Reclaim,
        Operation::Datagram { local: address, dual_stack: false },
        Operation::Datagram { local: wide, dual_stack: true },
        Operation::ConnectDatagram { remote: wide },
        Operation::FastOpenKey { key: [0xa5; 16], backup: false },
        // The bytes of an IPv4-mapped address.
        Operation::FastOpenKey { key: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4], backup: true },
        Operation::Route { remote: address, interface: 0 },
        Operation::Route { remote: address, interface: u32::MAX },
        Operation::Owns { local: address },
        Operation::JoinMulticast(Multicast { group: [224, 0, 0, 251].into(), interface: 0, address: [192, 0, 2, 1].into() }),
        Operation::LeaveMulticast(Multicast { group: [239, 1, 2, 3].into(), interface: u32::MAX, address: [0; 4].into() }),
        Operation::Memberships,
    ];
    let options = SocketOption::ALL.iter().map(|&option| Operation::SetOption { option, value: u32::MAX });
    let read = SocketOption::ALL.iter().map(|&option| Operation::Option { option });
    for operation in operations.into_iter().chain(options).chain(read) {
        let request = Request { slot: SlotRef { index: 65_535, generation: 7 }, sequence: 200, operation };
        assert_eq!(Request::decode(request.encode()), Some(request));
    }
}

#[test]
fn unknown_operations_and_options_are_nothing() {
    assert_eq!(Request::decode([0; 4]), None);
    assert_eq!(Request::decode([99, 0, 0, 0]), None);
    assert_eq!(Request::decode([8 | 999 << 16, 0, 0, 0]), None);
    assert_eq!(Request::decode([19 | 999 << 16, 0, 0, 0]), None);
}
