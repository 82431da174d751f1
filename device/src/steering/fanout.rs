//! Read packet(7), PACKET_FANOUT_EBPF, first. The program that says which worker's socket a packet is for.
//!
//! ```text
//!  IPv4, IPv6 without extension headers; TCP or UDP: table[group of the flow]
//!  ICMP errors about one of these:                    table[group of the flow that they quote]
//!  the rest, and every fragment:                      0
//! ```
//! It runs before the socket's own filter, so what is not owned is refused afterwards as with one socket. A packet that is
//! shorter than its headers say is worker 0's. Groups are those of [`FlowGroup`](ringway_shm::FlowGroup).

use std::os::fd::BorrowedFd;

use ringway_shm::flow_group::{MULTIPLIER, SHIFT};

use super::assembler::{Assembler, Helper, Instruction, Label, R0, R1, R2, R6, R7, R8, R9, R10, Register, When, Width};
use super::offsets::*;

// `struct __sk_buff`; the packet begins with its IP header here.
const SKB_PROTOCOL: i16 = 16;
/// Where the key of the table stands on the program's stack.
const KEY: i16 = -4;

/// Returns the worker that `table` names for the packet's flow group, else 0.
pub(super) fn fanout(table: BorrowedFd<'_>) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let (first, v4, v6, icmp, icmpv6) = (asm.label(), asm.label(), asm.label(), asm.label(), asm.label());
    let (v4_flow, v6_flow, ports) = (asm.label(), asm.label(), asm.label());
    asm.copy(R6, R1).load(Width::Word, R0, R6, SKB_PROTOCOL).from_network(R0, 16);
    asm.jump_if(When::Equal, R0, ETHERTYPE_IPV4, v4).jump_if(When::NotEqual, R0, ETHERTYPE_IPV6, first);
    // `R7`: where the IP header begins whose flow is meant.
    asm.place(v6).set(R7, 0).load_packet(Width::Byte, V6_NEXT);
    asm.jump_if(When::Equal, R0, PROTOCOL_ICMPV6, icmpv6);
    asm.place(v6_flow).load_packet_indexed(Width::Byte, R7, V6_NEXT);
    need_ports(&mut asm, first);
    combine(&mut asm, V6_SOURCE, 8);
    asm.add(R7, V6_HEADER).jump(ports);
    asm.place(v4).set(R7, 0).load_packet(Width::Half, V4_FRAGMENT).jump_if(When::AnyBit, R0, V4_FRAGMENT_MASK, first);
    asm.load_packet(Width::Byte, V4_PROTOCOL).jump_if(When::Equal, R0, PROTOCOL_ICMP, icmp);
    asm.place(v4_flow).load_packet_indexed(Width::Byte, R7, V4_PROTOCOL);
    need_ports(&mut asm, first);
    combine(&mut asm, V4_SOURCE, 2);
    skip_v4_header(&mut asm);
    asm.place(ports);
    for port in [0, 2] {
        asm.load_packet_indexed(Width::Half, R7, port).xor_register(R8, R0);
    }
    look_up(&mut asm, table, first);
    asm.exit();
    asm.place(icmp);
    skip_v4_header(&mut asm);
    need_error(&mut asm, ICMP_ERRORS, first);
    asm.add(R7, ICMP_HEADER).jump(v4_flow);
    asm.place(icmpv6).set(R7, V6_HEADER);
    need_error(&mut asm, ICMPV6_ERRORS, first);
    asm.add(R7, ICMP_HEADER).jump(v6_flow);
    asm.place(first).set(R0, 0).exit();
    asm.finish()
}

/// Jumps to `other` unless the protocol in `R0` is one with ports.
fn need_ports(asm: &mut Assembler, other: Label) {
    let has_ports = asm.label();
    asm.jump_if(When::Equal, R0, PROTOCOL_TCP, has_ports).jump_if(When::NotEqual, R0, PROTOCOL_UDP, other);
    asm.place(has_ports);
}

/// `R8` = the exclusive or of `words` words from `R7 + at` on.
fn combine(asm: &mut Assembler, at: i32, words: i32) {
    asm.set(R8, 0);
    for word in 0..words {
        asm.load_packet_indexed(Width::Word, R7, at + 4 * word).xor_register(R8, R0);
    }
}

/// `R7` = what follows the IPv4 header at `R7`.
fn skip_v4_header(asm: &mut Assembler) {
    asm.load_packet_indexed(Width::Byte, R7, 0).and(R0, 0xf).shift_left(R0, 2).add_register(R7, R0);
}

/// Goes on when the ICMP message at `R7` is one of `kinds`, else jumps to `other`.
fn need_error(asm: &mut Assembler, kinds: &[u8], other: Label) {
    let error = asm.label();
    asm.load_packet_indexed(Width::Byte, R7, 0);
    for &kind in kinds {
        asm.jump_if(When::Equal, R0, kind.into(), error);
    }
    asm.jump(other).place(error);
}

/// `R0` = what `table` says of the flow whose words and ports are combined in `R8`.
fn look_up(asm: &mut Assembler, table: BorrowedFd<'_>, absent: Label) {
    let key: Register = R9;
    asm.multiply_u32(R8, MULTIPLIER.cast_signed()).shift_right_u32(R8, SHIFT.cast_signed());
    asm.store(Width::Word, R10, KEY, R8).copy(key, R10).add(key, i32::from(KEY));
    asm.load_map(R1, table).copy(R2, key).call(Helper::MapLookup);
    asm.jump_if(When::Equal, R0, 0, absent).load(Width::Word, R0, R0, 0);
}
