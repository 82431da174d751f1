//! Read tcp_syncookies in tcp(7) and `bpf_sk_assign_tcp_reqsk` (Linux 6.9, net/core/filter.c) first. A connection whose handshake another stack has
//! done is put into the accept queue of a kernel listener.
//!
//! ```text
//!   an acknowledgment of the peer's, shown to the kernel over lo
//!     lo -- ingress -- our program:  another flow, or another packet -> the next program
//!                                    the listener of its port has, for this packet, what the SYNs have agreed on
//!     TCP:   as after a SYN cookie: a new connection in the queue, with the sequence numbers of the acknowledgment
//! ```
//! Promises: the program is at `lo` only from [`AcceptQueues::open`] to [`AcceptQueues::close`], and changes no packet. To attach and detach it takes
//! the kernel 20 ms, so it may stay for the next connection. Once a connection is there, further segments of the flow go to it. Does not
//! do: showing segments, and finding out whether there is a connection now; both are the caller's.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringway_shm::Flow;

use super::assembler::{Assembler, Helper, Instruction, Label, R0, R1, R2, R3, R4, R5, R6, R7, R8, R10, When, Width};
use super::offsets::*;
use super::program::TCX_NEXT;
use super::{btf, sys};
use crate::repair::Agreed;

const FUNCTION: &str = "bpf_sk_assign_tcp_reqsk";
/// Every network namespace has it, with this number.
const LOOPBACK: u32 = 1;
/// `protocol` in `struct __sk_buff`, a number of Ethernet's in the network's order.
const SKB_PROTOCOL: i16 = 16;
/// The network namespace of the packet.
const CURRENT_NETWORK: i32 = -1;
/// `struct bpf_sock_tuple`, of the longer family: both addresses, both ports, as they follow one another in a packet without options.
const ENDS_BYTES: usize = 36;
/// `struct bpf_tcp_req_attrs`
const AGREED_BYTES: usize = 20;
/// Where the packet's headers are on the program's stack, and the key of the record.
const HEADERS: i16 = -64;
const KEY: i16 = -8;

/// How a family's packets look.
struct Family {
    ethertype: i32,
    /// The first byte, where it is known.
    begins: Option<i32>,
    protocol_at: i32,
    ends_at: i32,
    ends_bytes: i32,
}

const IPV4: Family = Family {
    ethertype: ETHERTYPE_IPV4,
    begins: Some(V4_PLAIN),
    protocol_at: V4_PROTOCOL,
    ends_at: V4_SOURCE,
    ends_bytes: V4_MIN - V4_SOURCE + PORTS,
};
const IPV6: Family = Family {
    ethertype: ETHERTYPE_IPV6,
    begins: None,
    protocol_at: V6_NEXT,
    ends_at: V6_SOURCE,
    ends_bytes: V6_HEADER - V6_SOURCE + PORTS,
};

/// The programs, and the record that tells them of a connection.
#[derive(Debug)]
pub struct AcceptQueues {
    record: sys::Record,
    ipv4: Attachable,
    ipv6: Attachable,
}

#[derive(Debug)]
struct Attachable {
    program: OwnedFd,
    /// At `lo`, as long as it is there.
    link: Option<OwnedFd>,
}

/// The timestamps of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// TS.Recent
    pub recent: u32,
    /// The TSval from which the kernel's clock goes on, milliseconds.
    pub now: u32,
}

impl AcceptQueues {
    /// Loads the programs.
    ///
    /// # Errors
    /// The kernel is older than 6.9 or does not describe its types, or CAP_BPF and CAP_NET_ADMIN are missing.
    pub fn new() -> io::Result<AcceptQueues> {
        let function = btf::function(FUNCTION)?.ok_or(io::ErrorKind::Unsupported)?;
        let record = sys::Record::new(ENDS_BYTES + AGREED_BYTES)?;
        let load = |family| {
            let program = sys::load(sys::ProgramKind::TrafficControl, &program(record.as_fd(), function, &family))?;
            Ok::<_, io::Error>(Attachable { program, link: None })
        };
        let (ipv4, ipv6) = (load(IPV4)?, load(IPV6)?);
        Ok(AcceptQueues { record, ipv4, ipv6 })
    }

    /// From now on, until the next call, an acknowledgment of the peer's that is shown over `lo` makes the connection. What the SYNs have agreed on
    /// has timestamps if there is a `clock`.
    ///
    /// # Errors
    /// CAP_NET_ADMIN is missing.
    pub fn open(&mut self, flow: &Flow, agreed: &Agreed, clock: Option<Clock>) -> io::Result<()> {
        self.record.write(&record(flow, agreed, clock))?;
        let Attachable { program, link } = if flow.local.0.is_ipv4() { &mut self.ipv4 } else { &mut self.ipv6 };
        if link.is_none() {
            *link = Some(sys::attach_tcx(program.as_fd(), LOOPBACK)?.ok_or(io::ErrorKind::Unsupported)?);
        }
        Ok(())
    }

    /// Returns true if a program is at `lo`.
    pub fn is_open(&self) -> bool {
        self.ipv4.link.is_some() || self.ipv6.link.is_some()
    }

    /// Takes the programs away from `lo`.
    pub fn close(&mut self) {
        (self.ipv4.link, self.ipv6.link) = (None, None);
    }
}

/// What the program reads: the ends as in a packet of the peer's, then the agreement.
fn record(flow: &Flow, agreed: &Agreed, clock: Option<Clock>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ENDS_BYTES + AGREED_BYTES);
    for ip in [flow.remote.0, flow.local.0] {
        match ip {
            IpAddr::V4(ip) => bytes.extend(ip.octets()),
            IpAddr::V6(ip) => bytes.extend(ip.octets()),
        }
    }
    for port in [flow.remote.1, flow.local.1] {
        bytes.extend(port.to_be_bytes());
    }
    bytes.resize(ENDS_BYTES, 0);
    let Agreed { mss, send_scale, receive_scale, sack, .. } = *agreed;
    let numbers = clock.map_or([0, 0], |clock| [clock.recent, clock.now]);
    bytes.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
    bytes.extend(mss.to_ne_bytes());
    let (scales, no_ecn, milliseconds) = (u8::from(send_scale > 0 || receive_scale > 0), 0, 0);
    bytes.extend([receive_scale, send_scale, no_ecn, scales, sack.into(), clock.is_some().into(), milliseconds]);
    bytes.resize(ENDS_BYTES + AGREED_BYTES, 0);
    bytes
}

fn program(record: BorrowedFd<'_>, function: u32, family: &Family) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    let next = asm.label();
    let ends = HEADERS + family.ends_at as i16;
    asm.copy(R6, R1);
    asm.load(Width::Word, R0, R6, SKB_PROTOCOL);
    asm.jump_if(When::NotEqual, R0, i32::from((family.ethertype as u16).to_be()), next);
    load_headers(&mut asm, family, next);
    asm.store_value(Width::Word, R10, KEY, 0);
    asm.load_map(R1, record).copy(R2, R10).add(R2, KEY.into()).call(Helper::MapLookup);
    asm.jump_if(When::Equal, R0, 0, next).copy(R7, R0);
    for word in (0..family.ends_bytes as i16).step_by(4) {
        asm.load(Width::Word, R1, R10, ends + word).load(Width::Word, R2, R7, word);
        asm.jump_if_register(When::NotEqual, R1, R2, next);
    }
    asm.copy(R1, R6).copy(R2, R10).add(R2, ends.into()).set(R3, family.ends_bytes);
    asm.set(R4, CURRENT_NETWORK).set(R5, 0).call(Helper::FindTcpSocket);
    asm.jump_if(When::Equal, R0, 0, next).copy(R8, R0);
    // A connection, once there is one, is no listener: it refuses, and gets the packet.
    asm.copy(R1, R6).copy(R2, R8).copy(R3, R7).add(R3, ENDS_BYTES as i32).set(R4, AGREED_BYTES as i32);
    asm.call_function(function);
    asm.copy(R1, R8).call(Helper::ReleaseSocket);
    asm.place(next).set(R0, TCX_NEXT).exit();
    asm.finish()
}

/// The headers up to the ports, on the stack, if they are TCP's.
fn load_headers(asm: &mut Assembler, family: &Family, next: Label) {
    let bytes = family.ends_at + family.ends_bytes;
    // `lo` puts a header of Ethernet in front.
    asm.copy(R1, R6).set(R2, IP).copy(R3, R10).add(R3, HEADERS.into()).set(R4, bytes);
    asm.call(Helper::LoadBytes).jump_if(When::NotEqual, R0, 0, next);
    if let Some(begins) = family.begins {
        asm.load(Width::Byte, R0, R10, HEADERS).jump_if(When::NotEqual, R0, begins, next);
    }
    asm.load(Width::Byte, R0, R10, HEADERS + family.protocol_at as i16).jump_if(When::NotEqual, R0, PROTOCOL_TCP, next);
}

#[cfg(test)]
mod tests;
