//! Read Documentation/bpf, RFC 791 §3.1 and RFC 8200 §3, §4.5 first. The programs that tell our packets from the kernel's.
//!
//! Promises: what follows an IPv4 header, or directly an IPv6 header or its fragment header, is matched; a packet with other
//! extension headers is the kernel's. Only first fragments have ports; see the module above for the later ones. Keys of the
//! table are as `Key` one level up lays them out, built here at the end of the program's stack.

use std::os::fd::{AsFd, BorrowedFd};

use ringway_shm::flow_group::{MULTIPLIER, SHIFT};

use super::assembler::{
    Assembler, Helper, Instruction, Label, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, Register, When, Width,
};
use super::division::{Division, FLOW_ADDRESSES, FLOW_BYTES, FLOW_PORTS, SCATTERED, WORKER};
use super::exception_path::count_packet;
use super::kernel_flows::{COPIES, FLOWS, LEFT, WORKERS};
use super::offsets::*;
use super::{KEY_ADDRESS, KEY_BYTES, KEY_PORT, KEY_PROTOCOL, SocketMap};

/// Where an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before there is a socket buffer.
    Native,
    /// In the kernel's generic receive path: any driver.
    Generic,
}

// Offsets in `struct __sk_buff` and `struct xdp_md`.
const SKB_VLAN_PRESENT: i16 = 20;
const XDP_DATA: i16 = 0;
const XDP_DATA_END: i16 = 4;
const XDP_QUEUE: i16 = 16;

const FILTER_REJECT: i32 = 0;
const FILTER_WHOLE: i32 = -1;
pub(super) const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;
const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;

/// What the programs look up.
#[derive(Clone, Copy)]
pub(super) struct Tables<'a> {
    /// The owned ports.
    pub(super) owned: BorrowedFd<'a>,
    /// The kernel's flows of them.
    pub(super) flows: BorrowedFd<'a>,
    /// What the kernel may get of them.
    pub(super) exceptions: BorrowedFd<'a>,
}

/// Where the key begins: a place that is aligned to eight bytes below the end of the stack.
const KEY: i16 = -24;
/// The same for keys of a division's tables: a group's number, and a flow.
const GROUP_KEY: i16 = KEY - 8;
const FLOW_KEY: i16 = GROUP_KEY - 40;
const FLOW_REMOTE: i16 = FLOW_KEY + FLOW_ADDRESSES;
const FLOW_LOCAL: i16 = FLOW_REMOTE + 16;
const _: () = assert!(FLOW_BYTES <= 40);

/// Where `match_owned` jumps when it does not go on behind itself. `R7` is the offset (or, in an XDP program, the
/// address) of what follows the IP header, `R9` its protocol.
#[derive(Clone, Copy)]
struct Exits {
    icmp: Label,
    icmpv6: Label,
    /// A fragment without ports; only `R9` is set.
    fragment: Label,
    /// A packet of an owned port whose flow is the kernel's.
    kernels: Label,
    not_ours: Label,
}

/// Returns the whole length for packets that the worker at `seat` owns, ICMP errors and fragments without ports; zero
/// otherwise.
pub(super) fn socket_filter(tables: Tables<'_>, among: Option<(usize, &Division)>) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let not_ours = asm.label();
    let exits = Exits { icmp: asm.label(), icmpv6: asm.label(), fragment: asm.label(), kernels: not_ours, not_ours };
    let ours = asm.label();
    match_owned(&mut asm, tables, exits);
    match among {
        Some((worker, division)) => match_worker(&mut asm, worker, division, ours, exits.not_ours),
        // Of no worker: the port is shut.
        None => _ = asm.and(R8, WORKERS.cast_signed()).jump_if(When::Equal, R8, 0, exits.not_ours),
    }
    asm.place(ours).set_u32(R0, FILTER_WHOLE).exit();
    for (label, errors) in [(exits.icmp, ICMP_ERRORS), (exits.icmpv6, ICMPV6_ERRORS)] {
        asm.place(label).load_packet_indexed(Width::Byte, R7, 0);
        for &kind in errors {
            asm.jump_if(When::Equal, R0, kind.into(), ours);
        }
        asm.jump(exits.not_ours);
    }
    asm.place(exits.fragment);
    asm.jump_if(When::Equal, R9, PROTOCOL_TCP, ours).jump_if(When::Equal, R9, PROTOCOL_UDP, ours);
    asm.place(exits.not_ours).set(R0, FILTER_REJECT).exit();
    asm.finish()
}

/// Drops owned packets, leaves the rest to the next program or the kernel. With `lives`, a map of sockets, it drops only while
/// there is a socket in its first place.
pub(super) fn hide_from_kernel(tables: Tables<'_>, lives: Option<BorrowedFd<'_>>) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let (not_ours, kernels, owned) = (asm.label(), asm.label(), asm.label());
    if let Some(lives) = lives {
        asm.copy(R6, R1).store_value(Width::Word, R10, GROUP_KEY, 0);
        asm.load_map(R1, lives).copy(R2, R10).add(R2, i32::from(GROUP_KEY)).call(Helper::MapLookup);
        asm.jump_if(When::Equal, R0, 0, not_ours).copy(R1, R6);
    }
    match_owned(&mut asm, tables, Exits { icmp: not_ours, icmpv6: not_ours, fragment: not_ours, kernels, not_ours });
    asm.jump_if(When::AnyBit, R8, COPIES.cast_signed(), not_ours);
    asm.place(owned).set(R0, TCX_DROP).exit().place(kernels);
    count_packet(&mut asm, tables.exceptions, GROUP_KEY, not_ours, owned);
    asm.place(not_ours).set(R0, TCX_NEXT).exit();
    asm.finish()
}

/// Goes on behind itself when the packet of an `__sk_buff` program is owned and of no flow of the kernel's, else to one of `exits`.
/// `R8` is the word of the port then.
fn match_owned(asm: &mut Assembler, tables: Tables<'_>, exits: Exits) {
    let (v4, v6_transport, ports, flow, ours) = (asm.label(), asm.label(), asm.label(), asm.label(), asm.label());
    asm.copy(R6, R1);
    asm.load(Width::Word, R0, R6, SKB_VLAN_PRESENT).jump_if(When::NotEqual, R0, 0, exits.not_ours);
    asm.load_packet(Width::Half, ETHERTYPE).jump_if(When::Equal, R0, ETHERTYPE_IPV4, v4);
    asm.jump_if(When::NotEqual, R0, ETHERTYPE_IPV6, exits.not_ours);
    asm.load_packet(Width::Byte, IP + V6_NEXT).copy(R9, R0).set(R7, IP + V6_HEADER);
    asm.jump_if(When::NotEqual, R9, PROTOCOL_FRAGMENT, v6_transport);
    asm.load_packet(Width::Byte, IP + V6_HEADER).copy(R9, R0).set(R7, IP + V6_HEADER + V6_FRAGMENT_HEADER);
    asm.load_packet(Width::Half, IP + V6_HEADER + V6_FRAGMENT_OFFSET);
    asm.jump_if(When::AnyBit, R0, V6_OFFSET_MASK, exits.fragment);
    asm.place(v6_transport).jump_if(When::Equal, R9, PROTOCOL_ICMPV6, exits.icmpv6);
    need_ports(asm, exits.not_ours);
    load_bytes(asm, At::Start(IP + V6_DESTINATION), KEY + KEY_ADDRESS, 16, exits.not_ours);
    asm.jump(ports);
    asm.place(v4).load_packet(Width::Byte, IP + V4_PROTOCOL).copy(R9, R0);
    asm.load_packet(Width::Half, IP + V4_FRAGMENT).jump_if(When::AnyBit, R0, V4_OFFSET_MASK, exits.fragment);
    asm.load_packet(Width::Byte, IP).and(R0, 0xf).shift_left(R0, 2).copy(R7, R0).add(R7, IP);
    asm.jump_if(When::Equal, R9, PROTOCOL_ICMP, exits.icmp);
    need_ports(asm, exits.not_ours);
    map_v4(asm, KEY + KEY_ADDRESS);
    load_bytes(asm, At::Start(IP + V4_DESTINATION), KEY + KEY_ADDRESS + 12, 4, exits.not_ours);
    asm.place(ports);
    load_bytes(asm, At::Behind(R7, DESTINATION_PORT), KEY + KEY_PORT, 2, exits.not_ours);
    look_up(asm, tables.owned, exits.not_ours);
    asm.load(Width::Word, R8, R0, 0).jump_if(When::AnyBit, R8, FLOWS.cast_signed(), flow).jump(ours).place(flow);
    look_up_flow(asm, tables.flows, exits.not_ours);
    match_flow(asm, ours, exits.kernels);
    asm.place(ours);
}

/// Goes on behind itself, or at `ours`, when the flow is the stacks': `R0` is the address of what the table of flows says of it, or zero, and
/// `R8` the word of its port.
fn match_flow(asm: &mut Assembler, ours: Label, kernels: Label) {
    let absent = asm.label();
    asm.jump_if(When::Equal, R0, 0, absent).load(Width::Word, R0, R0, 0).jump_if(When::Equal, R0, 0, kernels).jump(ours);
    asm.place(absent).jump_if(When::AnyBit, R8, LEFT.cast_signed(), kernels);
}

/// Goes on behind itself, or at `ours`, when the packet is for `worker`; else jumps to `not_ours`. `R8` has the workers that own the
/// port, as bits; where there are several, the division says which one.
fn match_worker(asm: &mut Assembler, worker: usize, division: &Division, ours: Label, not_ours: Label) {
    let (v4, ports, decided) = (asm.label(), asm.label(), asm.label());
    let bit = 1 << worker;
    asm.copy(R0, R8).and(R0, bit).jump_if(When::Equal, R0, 0, not_ours);
    asm.and(R8, WORKERS.cast_signed() & !bit).jump_if(When::Equal, R8, 0, ours);
    asm.set(R8, 0).load_packet(Width::Half, ETHERTYPE).jump_if(When::Equal, R0, ETHERTYPE_IPV4, v4);
    combine(asm, IP + V6_SOURCE, 8);
    asm.jump(ports).place(v4);
    combine(asm, IP + V4_SOURCE, 2);
    asm.place(ports);
    for port in [0, DESTINATION_PORT] {
        asm.load_packet_indexed(Width::Half, R7, port).xor_register(R8, R0);
    }
    look_up_group(asm, division, decided, not_ours);
    look_up_flow(asm, division.kept(), not_ours);
    asm.jump_if(When::Equal, R0, 0, decided).load(Width::Word, R8, R0, 0);
    asm.place(decided).and(R8, WORKER as i32).jump_if(When::NotEqual, R8, worker as i32, not_ours);
}

/// `R8` = what the division says of the group of the flow whose words and ports are combined in `R8`; goes on when some of its flows
/// are kept elsewhere, else jumps to `decided`.
fn look_up_group(asm: &mut Assembler, division: &Division, decided: Label, absent: Label) {
    asm.multiply_u32(R8, MULTIPLIER.cast_signed()).shift_right_u32(R8, SHIFT.cast_signed());
    asm.store(Width::Word, R10, GROUP_KEY, R8).load_map(R1, division.groups());
    asm.copy(R2, R10).add(R2, i32::from(GROUP_KEY)).call(Helper::MapLookup);
    asm.jump_if(When::Equal, R0, 0, absent).load(Width::Word, R8, R0, 0);
    asm.copy(R0, R8).and(R0, SCATTERED as i32).jump_if(When::Equal, R0, 0, decided);
}

/// `R0` = the address of what `flows` says of the packet's flow, or zero. A segment that is too short for its ports is `not_ours`.
fn look_up_flow(asm: &mut Assembler, flows: BorrowedFd<'_>, not_ours: Label) {
    let (v4, ports) = (asm.label(), asm.label());
    asm.load_packet(Width::Half, ETHERTYPE).jump_if(When::Equal, R0, ETHERTYPE_IPV4, v4);
    load_bytes(asm, At::Start(IP + V6_SOURCE), FLOW_REMOTE, 32, not_ours);
    asm.jump(ports).place(v4);
    for (from, to) in [(V4_SOURCE, FLOW_REMOTE), (V4_DESTINATION, FLOW_LOCAL)] {
        map_v4(asm, to);
        load_bytes(asm, At::Start(IP + from), to + 12, 4, not_ours);
    }
    asm.place(ports);
    load_bytes(asm, At::Behind(R7, 0), FLOW_KEY + FLOW_PORTS, PORTS, not_ours);
    asm.load_map(R1, flows).copy(R2, R10).add(R2, i32::from(FLOW_KEY)).call(Helper::MapLookup);
}

/// `R8` ^= each of `words` words from `at` on.
fn combine(asm: &mut Assembler, at: i32, words: i32) {
    for word in 0..words {
        asm.load_packet(Width::Word, at + 4 * word).xor_register(R8, R0);
    }
}

/// Jumps to `not_ours` unless the protocol in `R9` is one with ports.
fn need_ports(asm: &mut Assembler, not_ours: Label) {
    let has_ports = asm.label();
    asm.jump_if(When::Equal, R9, PROTOCOL_TCP, has_ports).jump_if(When::NotEqual, R9, PROTOCOL_UDP, not_ours);
    asm.place(has_ports);
}

/// A place in the packet: so many bytes behind its start, or behind the one whose offset a register has.
enum At {
    Start(i32),
    Behind(Register, i32),
}

/// Copies `count` bytes of the packet to `to` on the stack; where they are not there, jumps to `absent`.
fn load_bytes(asm: &mut Assembler, at: At, to: i16, count: i32, absent: Label) {
    asm.copy(R1, R6);
    match at {
        At::Behind(index, bytes) => asm.copy(R2, index).add(R2, bytes),
        At::Start(bytes) => asm.set(R2, bytes),
    };
    asm.copy(R3, R10).add(R3, i32::from(to)).set(R4, count).call(Helper::LoadBytes);
    asm.jump_if(When::NotEqual, R0, 0, absent);
}

/// The first twelve bytes of an IPv4-mapped address (RFC 4291 §2.5.5.2), at `address` on the stack.
fn map_v4(asm: &mut Assembler, address: i16) {
    asm.store_value(Width::Double, R10, address, 0);
    asm.store_value(Width::Half, R10, address + 8, 0).store_value(Width::Half, R10, address + 10, 0xffff);
}

/// Completes the key with the protocol in `R9`, and jumps to `absent` when it is not in the table.
fn look_up(asm: &mut Assembler, table: BorrowedFd<'_>, absent: Label) {
    asm.store(Width::Byte, R10, KEY + KEY_PROTOCOL, R9).store_value(Width::Byte, R10, KEY + KEY_BYTES - 1, 0);
    asm.load_map(R1, table).copy(R2, R10).add(R2, i32::from(KEY)).call(Helper::MapLookup);
    asm.jump_if(When::Equal, R0, 0, absent);
}

/// Redirects owned packets, and ICMP errors about owned ports, to the socket that their worker has on the receive queue, but for flows of
/// the kernel's; `division`: there are several workers.
pub(super) fn redirect(tables: Tables<'_>, sockets: &SocketMap, division: Option<&Division>) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    match_owned_xdp(&mut asm, tables, Fate::Redirected(sockets, division));
    asm.finish()
}

/// What becomes of owned packets in an XDP program.
#[derive(Clone, Copy)]
enum Fate<'a> {
    Redirected(&'a SocketMap, Option<&'a Division>),
    Dropped,
}

/// Ends an XDP program, whose packets that are not owned are the kernel's. `R6` is its argument.
fn match_owned_xdp(asm: &mut Assembler, tables: Tables<'_>, fate: Fate<'_>) {
    let (pass, v4, ports, flow) = (asm.label(), asm.label(), asm.label(), asm.label());
    let (known, ours, kernels, drop) = (asm.label(), asm.label(), asm.label(), asm.label());
    let (icmp, icmpv6) = (asm.label(), asm.label());
    asm.load(Width::Word, R2, R6, XDP_DATA).load(Width::Word, R3, R6, XDP_DATA_END);
    need(asm, R2, IP + V4_MIN, pass);
    asm.load(Width::Half, R0, R2, ETHERTYPE as i16).from_network(R0, 16);
    asm.jump_if(When::Equal, R0, ETHERTYPE_IPV4, v4).jump_if(When::NotEqual, R0, ETHERTYPE_IPV6, pass);
    find_v6_transport(asm, icmpv6, pass);
    store_v6(asm, R2, IP + V6_DESTINATION, KEY + KEY_ADDRESS);
    asm.jump(ports).place(v4);
    find_v4_transport(asm, icmp, pass);
    store_v4(asm, R2, IP + V4_DESTINATION, KEY + KEY_ADDRESS);
    asm.place(ports);
    need(asm, R7, PORTS, pass);
    asm.load(Width::Half, R0, R7, DESTINATION_PORT as i16).store(Width::Half, R10, KEY + KEY_PORT, R0);
    look_up(asm, tables.owned, pass);
    asm.load(Width::Word, R8, R0, 0).jump_if(When::AnyBit, R8, COPIES.cast_signed(), pass);
    asm.jump_if(When::AnyBit, R8, FLOWS.cast_signed(), flow);
    if let Fate::Redirected(_, Some(_)) = fate {
        store_flow(asm, pass);
    }
    asm.place(ours).and(R8, WORKERS.cast_signed()).jump_if(When::Equal, R8, 0, drop);
    if let Fate::Redirected(_, Some(division)) = fate {
        choose_worker(asm, division, drop);
    }
    match fate {
        Fate::Redirected(sockets, _) => redirect_to_queue(asm, sockets, XDP_DROP),
        Fate::Dropped => _ = asm.jump(drop),
    }
    asm.place(flow);
    store_flow(asm, pass);
    asm.place(known).load_map(R1, tables.flows).copy(R2, R10).add(R2, i32::from(FLOW_KEY)).call(Helper::MapLookup);
    match_flow(asm, ours, kernels);
    asm.jump(ours).place(kernels);
    count_packet(asm, tables.exceptions, GROUP_KEY, pass, drop);
    match_quoted(asm, tables.owned, Quoted { icmp, icmpv6, known, ours, pass });
    asm.place(drop).set(R0, XDP_DROP).exit();
    asm.place(pass).set(R0, XDP_PASS).exit();
}

/// Places and targets of `match_quoted`.
#[derive(Clone, Copy)]
struct Quoted {
    icmp: Label,
    icmpv6: Label,
    /// The port has flows of the kernel's, and the key of this flow is complete.
    known: Label,
    ours: Label,
    pass: Label,
}

/// Jumps on with an ICMP error: it is ours when the packet that it quotes came from an owned port. `R7` is its address.
fn match_quoted(asm: &mut Assembler, owned: BorrowedFd<'_>, to: Quoted) {
    let (found, pass) = (asm.label(), to.pass);
    asm.place(to.icmp);
    need_error(asm, ICMP_ERRORS, ICMP_HEADER + V4_MIN, pass);
    asm.load(Width::Byte, R9, R7, (ICMP_HEADER + V4_PROTOCOL) as i16);
    need_ports(asm, pass);
    store_v4(asm, R7, ICMP_HEADER + V4_SOURCE, KEY + KEY_ADDRESS);
    store_v4(asm, R7, ICMP_HEADER + V4_SOURCE, FLOW_LOCAL);
    store_v4(asm, R7, ICMP_HEADER + V4_DESTINATION, FLOW_REMOTE);
    asm.copy(R5, R7).add(R5, ICMP_HEADER);
    skip_v4_header(asm, R5, R7, ICMP_HEADER as i16, pass);
    asm.jump(found).place(to.icmpv6);
    need_error(asm, ICMPV6_ERRORS, ICMP_HEADER + V6_HEADER, pass);
    asm.load(Width::Byte, R9, R7, (ICMP_HEADER + V6_NEXT) as i16);
    need_ports(asm, pass);
    store_v6(asm, R7, ICMP_HEADER + V6_SOURCE, KEY + KEY_ADDRESS);
    store_v6(asm, R7, ICMP_HEADER + V6_SOURCE, FLOW_LOCAL);
    store_v6(asm, R7, ICMP_HEADER + V6_DESTINATION, FLOW_REMOTE);
    asm.copy(R5, R7).add(R5, ICMP_HEADER + V6_HEADER);
    asm.place(found);
    need(asm, R5, PORTS, pass);
    asm.load(Width::Half, R0, R5, 0).store(Width::Half, R10, KEY + KEY_PORT, R0);
    asm.store(Width::Half, R10, FLOW_KEY + FLOW_PORTS + 2, R0);
    asm.load(Width::Half, R0, R5, 2).store(Width::Half, R10, FLOW_KEY + FLOW_PORTS, R0);
    look_up(asm, owned, pass);
    asm.load(Width::Word, R8, R0, 0).jump_if(When::AnyBit, R8, FLOWS.cast_signed(), to.known).jump(to.ours);
}

/// Completes the key of the flow from the packet of an XDP program, whose transport header is at `R7`.
fn store_flow(asm: &mut Assembler, pass: Label) {
    let (v4, ports) = (asm.label(), asm.label());
    asm.load(Width::Word, R2, R6, XDP_DATA).load(Width::Word, R3, R6, XDP_DATA_END);
    need(asm, R2, IP + V4_MIN, pass);
    asm.load(Width::Half, R0, R2, ETHERTYPE as i16).from_network(R0, 16).jump_if(When::Equal, R0, ETHERTYPE_IPV4, v4);
    need(asm, R2, IP + V6_HEADER, pass);
    store_v6(asm, R2, IP + V6_SOURCE, FLOW_REMOTE);
    store_v6(asm, R2, IP + V6_DESTINATION, FLOW_LOCAL);
    asm.jump(ports).place(v4);
    store_v4(asm, R2, IP + V4_SOURCE, FLOW_REMOTE);
    store_v4(asm, R2, IP + V4_DESTINATION, FLOW_LOCAL);
    asm.place(ports);
    for port in [0, DESTINATION_PORT as i16] {
        asm.load(Width::Half, R0, R7, port).store(Width::Half, R10, FLOW_KEY + FLOW_PORTS + port, R0);
    }
}

/// `R8` = the worker that the packet is for, of those whose bits it has; the key of the packet's flow is complete.
fn choose_worker(asm: &mut Assembler, division: &Division, absent: Label) {
    let (masked, decided) = (asm.label(), asm.label());
    for worker in 0..division.workers() as i32 {
        let other = asm.label();
        asm.jump_if(When::NotEqual, R8, 1 << worker, other).set(R8, worker).jump(decided).place(other);
    }
    asm.set(R8, 0);
    for word in 0..8 {
        asm.load(Width::Word, R0, R10, FLOW_KEY + FLOW_ADDRESSES + 4 * word).xor_register(R8, R0);
    }
    asm.from_network(R8, 32);
    for port in [0, DESTINATION_PORT as i16] {
        asm.load(Width::Half, R0, R10, FLOW_KEY + FLOW_PORTS + port).from_network(R0, 16).xor_register(R8, R0);
    }
    look_up_group(asm, division, masked, absent);
    asm.load_map(R1, division.kept()).copy(R2, R10).add(R2, i32::from(FLOW_KEY)).call(Helper::MapLookup);
    asm.jump_if(When::Equal, R0, 0, masked).load(Width::Word, R8, R0, 0);
    asm.place(masked).and(R8, WORKER as i32).place(decided);
}

/// Redirects everything to the socket of the receive queue, of several workers to the first one's.
pub(super) fn redirect_all(sockets: &SocketMap) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1).set(R8, 0);
    redirect_to_queue(&mut asm, sockets, XDP_PASS);
    asm.finish()
}

/// Redirects answers to echo requests with this identifier, as hosts send them: without IP options or extension headers. Owned packets of `hidden` are dropped:
/// programs of the traffic control do not find them once an XDP program has run in generic mode, after which Linux 6.18 tells them no length of the link header.
pub(super) fn redirect_echo_replies(sockets: &SocketMap, identifier: u16, hidden: Option<Tables<'_>>) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let (pass, v6, found) = (asm.label(), asm.label(), asm.label());
    let match_echo = |asm: &mut Assembler, at: i32, reply: i32| {
        need(asm, R2, at + ICMP_HEADER, pass);
        asm.load(Width::Byte, R0, R2, at as i16).jump_if(When::NotEqual, R0, reply, pass);
        asm.load(Width::Half, R0, R2, (at + ECHO_IDENTIFIER) as i16).from_network(R0, 16);
        asm.jump_if(When::NotEqual, R0, i32::from(identifier), pass);
    };
    asm.copy(R6, R1).load(Width::Word, R2, R6, XDP_DATA).load(Width::Word, R3, R6, XDP_DATA_END);
    need(&mut asm, R2, IP + V4_MIN, pass);
    asm.load(Width::Half, R0, R2, ETHERTYPE as i16).from_network(R0, 16);
    asm.jump_if(When::Equal, R0, ETHERTYPE_IPV6, v6).jump_if(When::NotEqual, R0, ETHERTYPE_IPV4, pass);
    asm.load(Width::Byte, R0, R2, IP as i16).jump_if(When::NotEqual, R0, V4_PLAIN, pass);
    asm.load(Width::Byte, R0, R2, (IP + V4_PROTOCOL) as i16).jump_if(When::NotEqual, R0, PROTOCOL_ICMP, pass);
    asm.load(Width::Half, R0, R2, (IP + V4_FRAGMENT) as i16).from_network(R0, 16);
    asm.jump_if(When::AnyBit, R0, V4_OFFSET_MASK, pass);
    match_echo(&mut asm, IP + V4_MIN, ICMP_ECHO_REPLY);
    asm.jump(found).place(v6).load(Width::Byte, R0, R2, (IP + V6_NEXT) as i16);
    asm.jump_if(When::NotEqual, R0, PROTOCOL_ICMPV6, pass);
    match_echo(&mut asm, IP + V6_HEADER, ICMPV6_ECHO_REPLY);
    asm.place(found).set(R8, 0);
    redirect_to_queue(&mut asm, sockets, XDP_PASS);
    asm.place(pass);
    match hidden {
        Some(tables) => match_owned_xdp(&mut asm, tables, Fate::Dropped),
        None => _ = asm.set(R0, XDP_PASS).exit(),
    }
    asm.finish()
}

/// `R7` = what follows the IPv6 header at `R2`, `R9` = its protocol, which is one with ports.
fn find_v6_transport(asm: &mut Assembler, icmpv6: Label, pass: Label) {
    let transport = asm.label();
    need(asm, R2, IP + V6_HEADER, pass);
    asm.copy(R7, R2).add(R7, IP + V6_HEADER).load(Width::Byte, R9, R2, (IP + V6_NEXT) as i16);
    asm.jump_if(When::NotEqual, R9, PROTOCOL_FRAGMENT, transport);
    need(asm, R7, V6_FRAGMENT_HEADER, pass);
    asm.load(Width::Half, R0, R7, V6_FRAGMENT_OFFSET as i16).from_network(R0, 16);
    asm.jump_if(When::AnyBit, R0, V6_OFFSET_MASK, pass);
    asm.load(Width::Byte, R9, R7, 0).add(R7, V6_FRAGMENT_HEADER);
    asm.place(transport).jump_if(When::Equal, R9, PROTOCOL_ICMPV6, icmpv6);
    need_ports(asm, pass);
}

/// `R7` = what follows the IPv4 header at `R2`, `R9` = its protocol, which is one with ports.
fn find_v4_transport(asm: &mut Assembler, icmp: Label, pass: Label) {
    asm.load(Width::Half, R0, R2, (IP + V4_FRAGMENT) as i16).from_network(R0, 16);
    asm.jump_if(When::AnyBit, R0, V4_OFFSET_MASK, pass);
    asm.copy(R7, R2).add(R7, IP);
    skip_v4_header(asm, R7, R2, IP as i16, pass);
    asm.load(Width::Byte, R9, R2, (IP + V4_PROTOCOL) as i16).jump_if(When::Equal, R9, PROTOCOL_ICMP, icmp);
    need_ports(asm, pass);
}

/// Goes on when an ICMP error of one of `kinds` stands at `R7` and `bytes` bytes with it; else jumps to `pass`.
fn need_error(asm: &mut Assembler, kinds: &[u8], bytes: i32, pass: Label) {
    let error = asm.label();
    need(asm, R7, bytes, pass);
    asm.load(Width::Byte, R0, R7, 0);
    for &kind in kinds {
        asm.jump_if(When::Equal, R0, kind.into(), error);
    }
    asm.jump(pass).place(error);
}

/// The IPv4 address at `from + offset` goes to `to` on the stack, mapped.
fn store_v4(asm: &mut Assembler, from: Register, offset: i32, to: i16) {
    map_v4(asm, to);
    asm.load(Width::Word, R0, from, offset as i16).store(Width::Word, R10, to + 12, R0);
}

/// The IPv6 address at `from + offset` goes to `to` on the stack.
fn store_v6(asm: &mut Assembler, from: Register, offset: i32, to: i16) {
    for half in [0, 8] {
        asm.load(Width::Double, R0, from, offset as i16 + half).store(Width::Double, R10, to + half, R0);
    }
}

/// Jumps to `pass` unless `bytes` bytes lie between `from` and the packet's end in `R3`. Loses `R4`.
fn need(asm: &mut Assembler, from: Register, bytes: i32, pass: Label) {
    asm.copy(R4, from).add(R4, bytes).jump_if_register(When::Greater, R4, R3, pass);
}

/// Adds the length of the IPv4 header at `base + offset` to `pointer`. Loses `R0`.
fn skip_v4_header(asm: &mut Assembler, pointer: Register, base: Register, offset: i16, pass: Label) {
    asm.load(Width::Byte, R0, base, offset).and(R0, 0xf).shift_left(R0, 2);
    asm.jump_if(When::Less, R0, V4_MIN, pass);
    asm.add_register(pointer, R0);
}

/// Redirects to the socket on the receive queue, of several workers to that of the one in `R8`; `absent`: what to do where there is none.
fn redirect_to_queue(asm: &mut Assembler, sockets: &SocketMap, absent: i32) {
    asm.load_map(R1, sockets.map.as_fd()).load(Width::Word, R2, R6, XDP_QUEUE).set(R3, absent);
    if sockets.workers > 1 {
        asm.multiply_u32(R2, sockets.workers as i32).add_register(R2, R8);
    }
    asm.call(Helper::RedirectMap).exit();
}
