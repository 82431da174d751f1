//! Read Documentation/bpf and RFC 791 §3.1 first. The programs that tell our packets from the kernel's.
//!
//! Keys of the table hold address and port in the machine's byte order (see `Key` one level up).

use std::os::fd::BorrowedFd;

use super::assembler::{
    Assembler, Helper, Instruction, Label, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, Register, When, Width,
};

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

// Offsets in an untagged Ethernet frame with IPv4, and inside an IPv4 header.
const ETHERTYPE: i32 = 12;
const IP: i32 = 14;
const IP_FRAGMENT: i32 = 6;
const IP_PROTOCOL: i32 = 9;
const IP_SOURCE: i32 = 12;
const IP_DESTINATION: i32 = 16;
const IP_MIN: i32 = 20;
const TCP_DESTINATION: i32 = 2;
const TCP_MIN: i32 = 20;
const ICMP_HEADER: i32 = 8;

const ETHERTYPE_IPV4: i32 = 0x0800;
const FRAGMENT_OFFSET_MASK: i32 = 0x1fff;
const PROTOCOL_ICMP: i32 = 1;
const PROTOCOL_TCP: i32 = 6;
/// Destination unreachable, time exceeded, parameter problem.
const ICMP_ERRORS: [i32; 3] = [3, 11, 12];

const FILTER_REJECT: i32 = 0;
const FILTER_WHOLE: i32 = -1;
const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;
const XDP_PASS: i32 = 2;

/// Returns the whole length for owned TCP and ICMP errors, zero otherwise.
pub(super) fn socket_filter(table: BorrowedFd<'_>) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let (ours, not_ours, not_tcp) = (asm.label(), asm.label(), asm.label());
    match_owned(&mut asm, table, not_tcp, not_ours);
    asm.place(ours).set_u32(R0, FILTER_WHOLE).exit();
    asm.place(not_tcp).jump_if(When::NotEqual, R0, PROTOCOL_ICMP, not_ours);
    asm.load_packet_indexed(Width::Byte, R7, IP);
    for kind in ICMP_ERRORS {
        asm.jump_if(When::Equal, R0, kind, ours);
    }
    asm.place(not_ours).set(R0, FILTER_REJECT).exit();
    asm.finish()
}

/// Drops owned TCP, leaves the rest to the next program or the kernel.
pub(super) fn hide_from_kernel(table: BorrowedFd<'_>) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let not_ours = asm.label();
    match_owned(&mut asm, table, not_ours, not_ours);
    asm.set(R0, TCX_DROP).exit();
    asm.place(not_ours).set(R0, TCX_NEXT).exit();
    asm.finish()
}

/// Goes on behind itself when the packet of an `__sk_buff` program is owned TCP; to `not_tcp` with
/// the protocol in `R0` and the IP header's length in `R7` when it is other IPv4; else to `not_ours`.
fn match_owned(asm: &mut Assembler, table: BorrowedFd<'_>, not_tcp: Label, not_ours: Label) {
    asm.copy(R6, R1);
    asm.load(Width::Word, R0, R6, SKB_VLAN_PRESENT).jump_if(When::NotEqual, R0, 0, not_ours);
    asm.load_packet(Width::Half, ETHERTYPE).jump_if(When::NotEqual, R0, ETHERTYPE_IPV4, not_ours);
    asm.load_packet(Width::Half, IP + IP_FRAGMENT).jump_if(When::AnyBit, R0, FRAGMENT_OFFSET_MASK, not_ours);
    asm.load_packet(Width::Byte, IP).and(R0, 0xf).shift_left(R0, 2).copy(R7, R0);
    asm.load_packet(Width::Byte, IP + IP_PROTOCOL).jump_if(When::NotEqual, R0, PROTOCOL_TCP, not_tcp);
    asm.load_packet(Width::Word, IP + IP_DESTINATION).copy(R8, R0);
    asm.load_packet_indexed(Width::Half, R7, IP + TCP_DESTINATION).copy(R9, R0);
    look_up(asm, table, not_ours);
}

/// Jumps to `absent` when (`R8`, `R9`) is not in the table.
fn look_up(asm: &mut Assembler, table: BorrowedFd<'_>, absent: Label) {
    asm.store(Width::Word, R10, -8, R8).store(Width::Half, R10, -4, R9).store_value(Width::Half, R10, -2, 0);
    asm.load_map(R1, table).copy(R2, R10).add(R2, -8).call(Helper::MapLookup);
    asm.jump_if(When::Equal, R0, 0, absent);
}

/// Redirects owned TCP, and ICMP errors about owned TCP, to the socket of the receive queue.
pub(super) fn redirect(table: BorrowedFd<'_>, sockets: BorrowedFd<'_>) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let (pass, icmp, found) = (asm.label(), asm.label(), asm.label());
    asm.copy(R6, R1).load(Width::Word, R2, R6, XDP_DATA).load(Width::Word, R3, R6, XDP_DATA_END);
    need(&mut asm, R2, IP + IP_MIN, pass);
    asm.load(Width::Half, R0, R2, ETHERTYPE as i16).from_network(R0, 16);
    asm.jump_if(When::NotEqual, R0, ETHERTYPE_IPV4, pass);
    asm.load(Width::Half, R0, R2, (IP + IP_FRAGMENT) as i16).from_network(R0, 16);
    asm.jump_if(When::AnyBit, R0, FRAGMENT_OFFSET_MASK, pass);
    // R7 = the transport header.
    asm.copy(R7, R2).add(R7, IP);
    skip_ip_header(&mut asm, R7, R2, IP as i16, pass);
    need(&mut asm, R7, TCP_MIN, pass);
    asm.load(Width::Byte, R0, R2, (IP + IP_PROTOCOL) as i16);
    asm.jump_if(When::Equal, R0, PROTOCOL_ICMP, icmp).jump_if(When::NotEqual, R0, PROTOCOL_TCP, pass);
    asm.load(Width::Word, R8, R2, (IP + IP_DESTINATION) as i16).from_network(R8, 32);
    asm.load(Width::Half, R9, R7, TCP_DESTINATION as i16).from_network(R9, 16);
    asm.place(found);
    look_up(&mut asm, table, pass);
    redirect_to_queue(&mut asm, sockets);
    // An ICMP error is ours when the packet that it quotes came from an owned port.
    asm.place(icmp).load(Width::Byte, R0, R7, 0);
    let error = asm.label();
    for kind in ICMP_ERRORS {
        asm.jump_if(When::Equal, R0, kind, error);
    }
    asm.jump(pass).place(error);
    need(&mut asm, R7, ICMP_HEADER + IP_MIN, pass);
    asm.load(Width::Byte, R0, R7, (ICMP_HEADER + IP_PROTOCOL) as i16).jump_if(When::NotEqual, R0, PROTOCOL_TCP, pass);
    asm.load(Width::Word, R8, R7, (ICMP_HEADER + IP_SOURCE) as i16).from_network(R8, 32);
    asm.copy(R5, R7).add(R5, ICMP_HEADER);
    skip_ip_header(&mut asm, R5, R7, ICMP_HEADER as i16, pass);
    need(&mut asm, R5, 2, pass);
    asm.load(Width::Half, R9, R5, 0).from_network(R9, 16).jump(found);
    asm.place(pass).set(R0, XDP_PASS).exit();
    asm.finish()
}

/// Redirects everything to the socket of the receive queue.
pub(super) fn redirect_all(sockets: BorrowedFd<'_>) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    asm.copy(R6, R1);
    redirect_to_queue(&mut asm, sockets);
    asm.finish()
}

/// Jumps to `pass` unless `bytes` bytes lie between `from` and the packet's end in `R3`. Loses `R4`.
fn need(asm: &mut Assembler, from: Register, bytes: i32, pass: Label) {
    asm.copy(R4, from).add(R4, bytes).jump_if_register(When::Greater, R4, R3, pass);
}

/// Adds the length of the IPv4 header at `base + offset` to `pointer`. Loses `R0`.
fn skip_ip_header(asm: &mut Assembler, pointer: Register, base: Register, offset: i16, pass: Label) {
    asm.load(Width::Byte, R0, base, offset).and(R0, 0xf).shift_left(R0, 2);
    asm.jump_if(When::Less, R0, IP_MIN, pass);
    asm.add_register(pointer, R0);
}

/// Returns the redirection to the socket of the receive queue; to the kernel where there is none.
fn redirect_to_queue(asm: &mut Assembler, sockets: BorrowedFd<'_>) {
    asm.load_map(R1, sockets).load(Width::Word, R2, R6, XDP_QUEUE).set(R3, XDP_PASS);
    asm.call(Helper::RedirectMap).exit();
}
