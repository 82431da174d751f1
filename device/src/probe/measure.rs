//! The speed of a candidate here: one thread sends to itself over a private wire.
//!
//! The figure is the cost of one crossing, sending and receiving together, on one core; it compares
//! candidates on this machine and is no promise about another wire.

use std::io;
use std::process::{Command, Stdio};

use ringway_shm::{Arena, ArenaConfig, Burst, Class, Instant};

use super::{Candidate, sys};
use crate::interface::{Interface, set_up};
use crate::offload::Offload;
use crate::packet::{Packet, PacketOptions};
use crate::run::take_packet;
use crate::steering::{Redirect, XdpMode};
use crate::tap::Tap;
use crate::xdp::{Xdp, XdpOptions};
use crate::{Counters, Device};

/// Packets per burst that are sent before the other end is read.
const BURST: usize = 32;
const ARENA: ArenaConfig = ArenaConfig { large: 4096, small: 1024 };
/// Empty reads in a row before the wire counts as broken.
const EMPTY_MAX: u32 = 1_000_000;

/// The figures of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Packets that crossed per second.
    pub packets_per_second: f64,
    /// Bytes that crossed per second, with headers.
    pub bytes_per_second: f64,
    /// The counters of the sending end.
    pub sent: Counters,
}

/// Sends `count` packets of `packet_bytes` bytes (60 to 1514) through `candidate`. `clock` tells the time.
///
/// # Errors
/// No capability for a namespace, no `ip` command, or the candidate does not work here.
///
/// # Blocking
/// Until all packets have crossed.
pub fn measure(
    candidate: Candidate,
    packet_bytes: usize,
    count: usize,
    clock: impl Fn() -> Instant + Send + 'static,
) -> io::Result<Measurement> {
    let thread = std::thread::Builder::new().name("measure".to_owned()).spawn(move || {
        sys::enter_new_namespace()?;
        let (near_arena, far_arena) = (Arena::new(ARENA), Arena::new(ARENA));
        let (mut near, mut far, mac) = wire(candidate, &near_arena, &far_arena)?;
        let bytes = raw_packet(mac, packet_bytes.clamp(60, 1514));
        run([near.as_mut(), far.as_mut()], &near_arena, &bytes, count, &clock)
    })?;
    thread.join().map_err(|_| io::Error::other("the measuring thread failed"))?
}

type Ends = (Box<dyn Device>, Box<dyn Device>, [u8; 6]);

/// Both ends of a fresh wire, and the hardware address of the far one.
fn wire(candidate: Candidate, near_arena: &Arena, far_arena: &Arena) -> io::Result<Ends> {
    let options = PacketOptions { ring_slots: 255, ..PacketOptions::default() };
    if candidate == Candidate::Tap {
        let tap = Tap::open("rwmeasure%d", near_arena)?;
        let name = tap.interface().name.clone();
        set_up(&name, None, None)?;
        let far = Packet::open(&name, None, options, far_arena)?;
        let mac = far.interface().mac;
        return Ok((Box::new(tap), Box::new(far), mac));
    }
    ip(&["link", "add", "near", "type", "veth", "peer", "name", "far"])?;
    set_up("near", None, None)?;
    set_up("far", None, None)?;
    let mode = match candidate {
        Candidate::XdpGeneric => XdpMode::Generic,
        _ => XdpMode::Native,
    };
    let near: Box<dyn Device> = match candidate {
        Candidate::Packet | Candidate::Tap => Box::new(Packet::open("near", None, options, near_arena)?),
        Candidate::XdpNative | Candidate::XdpGeneric => {
            let options = XdpOptions { mode: Some(mode), ..XdpOptions::default() };
            Offload::where_needed(Box::new(Xdp::open("near", Redirect::All, options, near_arena)?), near_arena)
        }
    };
    let far = Packet::open("far", None, options, far_arena)?;
    Ok((near, Box::new(far), Interface::open("far")?.mac))
}

fn ip(arguments: &[&str]) -> io::Result<()> {
    let status = Command::new("ip").args(arguments).stdin(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("ip {} failed", arguments.join(" ")))) }
}

/// An Ethernet frame of `len` bytes of a type that no protocol handles.
fn raw_packet(destination: [u8; 6], len: usize) -> Vec<u8> {
    const ETHERTYPE_LOCAL_EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];
    let mut bytes = vec![0; len];
    bytes[..6].copy_from_slice(&destination);
    bytes[6] = 2;
    bytes[12..14].copy_from_slice(&ETHERTYPE_LOCAL_EXPERIMENTAL);
    bytes
}

fn run(
    [near, far]: [&mut dyn Device; 2],
    arena: &Arena,
    packet: &[u8],
    count: usize,
    clock: &dyn Fn() -> Instant,
) -> io::Result<Measurement> {
    let (mut out, mut arrived, mut frames) = (Burst::default(), Burst::default(), Vec::new());
    let (mut sent, mut received, mut empty) = (0, 0, 0);
    let started = clock();
    while received < count && empty < EMPTY_MAX {
        // No more under way than the ring behind the wire holds.
        while out.packets() < BURST && sent < count && sent - received < 128 {
            let Some(mut frame) = arena.alloc(Class::Large) else { break };
            frame.extend(packet.len()).copy_from_slice(packet);
            out.push(frame);
            sent += 1;
        }
        near.transmit(started, &mut out)?;
        far.receive(started, &mut arrived)?;
        let before = received;
        while take_packet(&mut arrived, &mut frames) {
            let ours = frames[0].bytes().get(..14).is_some_and(|header| header[12..14] == packet[12..14]);
            received += usize::from(ours);
        }
        empty = if received == before { empty + 1 } else { 0 };
    }
    if received < count {
        return Err(io::Error::other(format!("{} of {count} packets were lost", count - received)));
    }
    let seconds = clock().since(started).as_nanos().max(1) as f64 / 1e9;
    let packets_per_second = received as f64 / seconds;
    let bytes_per_second = packets_per_second * packet.len() as f64;
    Ok(Measurement { packets_per_second, bytes_per_second, sent: near.counters() })
}
