use super::*;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const NONE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

/// The bytes of a value in parts.
fn value(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn the_three_forms_of_a_request_are_read() {
    let group = GROUP.octets();
    let short = value(&[&group, &[192, 0, 2, 1]]);
    let read = Change::of_option(libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &short);
    assert_eq!(read, Some(Change::Join(Multicast { group: GROUP, interface: 0, address: [192, 0, 2, 1].into() })));
    let long = value(&[&group, &[0; 4], &7_u32.to_ne_bytes()]);
    let read = Change::of_option(libc::IPPROTO_IP, libc::IP_DROP_MEMBERSHIP, &long);
    assert_eq!(read, Some(Change::Leave(Multicast { group: GROUP, interface: 7, address: NONE })));
    let family = (libc::AF_INET as u16).to_ne_bytes();
    let named = value(&[&7_u32.to_ne_bytes(), &[0; 4], &family, &[0; 2], &group, &[0; 120]]);
    let read = Change::of_option(libc::IPPROTO_IP, MCAST_JOIN_GROUP, &named);
    assert_eq!(read, Some(Change::Join(Multicast { group: GROUP, interface: 7, address: NONE })));
}

#[test]
fn what_is_too_short_or_of_another_kind_is_the_kernels() {
    let family = (libc::AF_INET6 as u16).to_ne_bytes();
    let of_ipv6 = value(&[&7_u32.to_ne_bytes(), &[0; 4], &family, &[0; 126]]);
    assert_eq!(Change::of_option(libc::IPPROTO_IP, MCAST_JOIN_GROUP, &of_ipv6), None);
    for len in 0..8 {
        assert_eq!(Change::of_option(libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &[0; 8][..len]), None, "{len} bytes");
    }
    for len in 0..16 {
        assert_eq!(Change::of_option(libc::IPPROTO_IP, MCAST_JOIN_GROUP, &[0; 16][..len]), None, "{len} bytes");
    }
    assert_eq!(Change::of_option(libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &[0; 20]), None);
    assert_eq!(Change::of_option(libc::IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP, &[0; 12]), None);
}

/// What a filter looks at.
#[derive(Clone, Copy)]
struct Packet {
    kind: u32,
    version: u32,
    destination: Ipv4Addr,
    interface: u32,
}

/// Runs a filter as the kernel does; the bytes that pass.
fn run(program: &[Instruction], packet: Packet) -> u32 {
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let Instruction { code, if_true, if_false, value } = program[at];
        at += 1;
        match (code, value) {
            (0x00, number) => accumulator = number,
            (LOAD_WORD, PACKET_TYPE) => accumulator = packet.kind,
            (LOAD_WORD, INTERFACE) => accumulator = packet.interface,
            (LOAD_WORD, _) => accumulator = packet.destination.into(),
            (LOAD_BYTE, _) => accumulator = packet.version << 4 | 5,
            (AND, mask) => accumulator &= mask,
            (JUMP_IF_EQUAL, number) => at += usize::from(if accumulator == number { if_true } else { if_false }),
            (RETURN, bytes) => return bytes,
            (code, _) => panic!("{code:#x} is not in a filter of ours"),
        }
    }
}

#[test]
fn the_filter_drops_what_the_stack_receives_and_nothing_else() {
    let joined = [Membership { group: GROUP, interface: 3 }, Membership { group: [224, 0, 1, 129].into(), interface: 4 }];
    let program = filter(&joined.each_ref());
    let outside = Packet { kind: 2, version: 4, destination: GROUP, interface: 3 };
    let dropped = |packet| run(&program, packet) == 0;
    assert!(dropped(outside));
    assert!(dropped(Packet { destination: [224, 0, 1, 129].into(), interface: 4, ..outside }));
    assert!(!dropped(Packet { interface: 4, ..outside }), "another interface");
    assert!(!dropped(Packet { destination: [224, 0, 1, 129].into(), ..outside }), "another group's interface");
    assert!(!dropped(Packet { destination: [239, 1, 2, 4].into(), ..outside }), "another group");
    assert!(!dropped(Packet { kind: PACKET_LOOPBACK, ..outside }), "this host's own");
    assert!(!dropped(Packet { version: 6, ..outside }), "another protocol, whose bytes mean something else");
}
