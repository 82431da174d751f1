//! The worker's interfaces: devices on one side, the stack's numbers on the other.
//!
//! Promises: a device that fails is counted and asked again, never trusted with more. Does not do:
//! cutting and summing; the offload middleware does.

use std::io;
use std::os::fd::BorrowedFd;

use ringway_device::offload::Offload;
use ringway_device::{Capabilities, Counters, Device, Rooms};
use ringway_shm::capture::CaptureWriter;
use ringway_shm::{Arena, Burst, Duration, Instant, Room};
use ringway_stack::{Interface, Role, Stack};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType};

use crate::attach::{Attachments, MESSAGE};
use crate::command::InterfaceInfo;
use crate::core::{Core, Link};

mod capture;
mod flood;

use capture::Capture;
use flood::{Flood, Kind};

/// Frames that a burst holds without growing.
const BURST_FRAMES: usize = 1024;

/// Bytes of large packets that one burst takes while there are more: three packets. A portion of this size is still in
/// the processor's cache when the application reads it (measured: docs/lab/2026-11-23-bulk-portions.md).
const RX_BATCH_BYTES: usize = 160 << 10;

/// One interface.
pub(crate) struct WorkerInterface {
    pub(crate) name: String,
    pub(crate) mac: [u8; 6],
    /// The interface as the stack knows it.
    described: Interface,
    pub(crate) device: Box<dyn Device>,
    /// Calls that the device refused.
    pub(crate) errors: u64,
    /// Packets that the device did not take last time.
    left: usize,
    /// The operator has been told of a problem around the device.
    advised: bool,
    /// Packets of a burst behind which others wait.
    full_burst: usize,
    flood: Flood,
    /// The interface is gone; its number may be reused.
    pub(crate) removed: bool,
}

impl WorkerInterface {
    /// Largest IP packet, bytes.
    pub(crate) fn mtu(&self) -> u16 {
        self.described.mtu
    }
}

/// All interfaces of a worker.
pub(crate) struct Interfaces {
    ports: Vec<WorkerInterface>,
    received: Burst,
    out: Vec<Burst>,
}

impl Interfaces {
    pub(crate) fn new() -> Interfaces {
        Interfaces { ports: Vec::new(), received: Burst::with_capacity(BURST_FRAMES), out: Vec::new() }
    }

    /// Adds a device, with the offloads that it lacks in front of it, and names it to the stack. Reuses the number of a
    /// removed interface if there is one.
    pub(crate) fn add(&mut self, new: &InterfaceInfo, device: Box<dyn Device>, core: &mut Core) -> u32 {
        if let Some(number) = self.ports.iter().position(|port| port.removed) {
            self.replace(number as u32, new, device, core);
            return number as u32;
        }
        let (port, described) = describe(new, device, &core.arena);
        let number = core.stack.add_interface(described);
        assert_eq!(number as usize, self.ports.len(), "the stack numbers interfaces in order");
        self.ports.push(port);
        self.out.push(Burst::with_capacity(BURST_FRAMES));
        number
    }

    /// Replaces the device of an interface, which may have been removed before.
    pub(crate) fn replace(&mut self, number: u32, new: &InterfaceInfo, device: Box<dyn Device>, core: &mut Core) {
        let (port, described) = describe(new, device, &core.arena);
        core.stack.set_interface(core.now, number, described);
        self.ports[number as usize] = port;
    }

    /// Changes the MTU of an interface; the device's own limit counts if it is smaller.
    pub(crate) fn set_mtu(&mut self, now: Instant, number: u32, mtu: u16, stack: &mut Stack) {
        let Some(port) = self.ports.get_mut(number as usize) else { return };
        port.described.mtu = mtu.min(port.device.capabilities().mtu);
        stack.set_interface(now, number, port.described.clone());
    }

    /// Closes the device of an interface. Packets that wait for it are dropped; the number stays taken until `free`.
    pub(crate) fn close(&mut self, number: u32) {
        let port = &mut self.ports[number as usize];
        port.device = Box::new(Closed(port.device.capabilities()));
        port.left = 0;
        self.out[number as usize].clear();
    }

    /// What lies under interface `number`, which was made of `new`.
    pub(crate) fn link(&self, number: u32, new: &InterfaceInfo) -> Link {
        let copies_multicast = self.ports[number as usize].device.capabilities().copies_multicast;
        Link { number: kernel_number(new), is_alone: new.owned, copies_multicast }
    }

    /// Frees the number of a closed interface.
    pub(crate) fn free(&mut self, number: u32) {
        self.ports[number as usize].removed = true;
    }

    /// Returns true if an interface of this number exists.
    pub(crate) fn exists(&self, number: u32) -> bool {
        self.ports.get(number as usize).is_some_and(|port| !port.removed)
    }

    /// Tells the operator why packets are lost around a device, once, and of each flood.
    pub(crate) fn advise(&mut self) {
        for port in &mut self.ports {
            if let Some(kind) = port.flood.take_untold() {
                let name = &port.name;
                let (what, counter) = match kind {
                    Kind::Syn => ("SYNs", "RingwaySynsDropped"),
                    Kind::Datagram => ("datagrams", "RingwayDatagramsDropped"),
                };
                tracing::warn!(target: "ringway::interface", "{name}: more {what} arrive than can be handled, and some are dropped ({counter})");
            }
        }
        for port in self.ports.iter_mut().filter(|port| !port.advised) {
            if let Some(advice) = port.device.advice() {
                port.advised = true;
                tracing::warn!(target: "ringway::interface", "{advice}");
            }
        }
    }

    /// Tells the devices the number of open connections.
    pub(crate) fn expect(&mut self, connections: usize) {
        self.ports.iter_mut().for_each(|port| port.device.expect(connections));
    }

    /// Takes one burst from every device into the stack; returns the number of packets.
    pub(crate) fn receive(
        &mut self,
        core: &mut Core,
        attachments: &mut Attachments,
        capture: Option<&mut CaptureWriter>,
    ) -> usize {
        let Core { now, stack, arena, metrics, known_sources, .. } = core;
        let now = *now;
        let mut capture = capture.filter(|capture| capture.is_wanted());
        let mut packets = 0;
        for (number, port) in self.ports.iter_mut().enumerate() {
            let mut rooms = Readers { large: 0, interface: number as u32, stack, attachments, arena };
            if port.device.receive_to(now, &mut self.received, &mut rooms).is_err() {
                port.errors += 1;
            }
            let count = self.received.packets();
            packets += count;
            if port.flood.is_suspected(now, count >= port.full_burst) {
                let medium = port.described.medium;
                if let Some((kind, dropped)) = port.flood.shed(now, medium, &mut self.received, known_sources) {
                    metrics.add(kind.counter(), dropped.packets() as u64);
                    match capture.as_deref_mut() {
                        Some(writer) => {
                            Capture::new(writer, now, number as u32, medium).write_dropped(kind.counter(), dropped);
                        }
                        None => dropped.clear(),
                    }
                }
            }
            if self.received.is_empty() {
                continue;
            }
            match capture.as_deref_mut() {
                Some(writer) => {
                    Capture::new(writer, now, number as u32, port.described.medium).receive(stack, &mut self.received);
                }
                None => stack.receive(now, number as u32, &mut self.received),
            }
            self.received.clear();
        }
        packets
    }

    /// Lets the stack write and the devices send. Returns true if the stack has more to write.
    pub(crate) fn transmit(&mut self, now: Instant, stack: &mut Stack, capture: Option<&mut CaptureWriter>) -> bool {
        let mut capture = capture.filter(|capture| capture.is_wanted());
        let full = self.out.iter().any(|burst| burst.packets() >= BURST_FRAMES);
        let more = full || stack.transmit(now, &mut self.out);
        for (number, (port, burst)) in self.ports.iter_mut().zip(&mut self.out).enumerate() {
            if burst.is_empty() && port.device.poll_timeout().is_none() {
                continue;
            }
            if let Some(writer) = capture.as_deref_mut() {
                Capture::new(writer, now, number as u32, port.described.medium).write_sent(stack, burst, port.left);
            }
            if port.device.transmit(now, burst).is_err() {
                port.errors += 1;
            }
            port.left = burst.packets();
        }
        more
    }

    /// Returns true if packets wait for a full device.
    pub(crate) fn is_congested(&self) -> bool {
        self.out.iter().any(|burst| !burst.is_empty())
    }

    /// Arms all devices; returns true if one has packets already.
    pub(crate) fn arm(&mut self) -> bool {
        self.ports.iter_mut().fold(false, |ready, port| port.device.arm() | ready)
    }

    /// Arrival of the first packet that waits, on the wall clock since 1970, if a device has noted it.
    pub(crate) fn first_arrival(&self) -> Option<Duration> {
        self.ports.iter().filter_map(|port| port.device.first_arrival()).min()
    }

    /// Time of the devices' next work.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.ports.iter().filter_map(|port| port.device.poll_timeout()).min()
    }

    /// Appends the descriptors that are readable while a device has packets.
    pub(crate) fn wait_fds<'a>(&'a self, fds: &mut Vec<BorrowedFd<'a>>) {
        for port in &self.ports {
            port.device.wait_fds(fds);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &WorkerInterface> {
        self.ports.iter()
    }
}

/// The readers of what arrives at an interface.
struct Readers<'a> {
    /// Bytes of the large packets seen so far.
    large: usize,
    interface: u32,
    stack: &'a Stack,
    attachments: &'a mut Attachments,
    arena: &'a Arena,
}

impl Rooms for Readers<'_> {
    fn room(&mut self, head: &[u8], len: usize) -> Option<(usize, Room)> {
        if len > MESSAGE {
            self.large += len;
        }
        let to = self.stack.destination(self.interface, head, len)?;
        let payload = self.attachments.room(to.user_token, to.socket, len.checked_sub(to.header_bytes)?, self.arena)?;
        Some((to.header_bytes, payload))
    }

    fn are_enough(&self) -> bool {
        self.large >= RX_BATCH_BYTES
    }
}

fn describe(new: &InterfaceInfo, device: Box<dyn Device>, arena: &Arena) -> (WorkerInterface, Interface) {
    let device = Offload::where_needed(device, arena);
    let capabilities = device.capabilities();
    let mtu = new.mtu.min(capabilities.mtu);
    let described = Interface {
        name: new.name.clone(),
        medium: capabilities.medium,
        mac: new.mac,
        mtu,
        sends_partial_checksums: capabilities.sends_partial_checksums,
        segmentation_max_bytes: capabilities.segmentation_max_bytes,
        segmentation_max_segments: capabilities.segmentation_max_segments,
        segments_udp: capabilities.segments_udp,
        gathers: capabilities.gathers,
        role: if new.owned { Role::Owned } else { Role::Shared },
        autoconfiguration: new.autoconfiguration,
        detects_duplicates: false,
        vlan: new.vlan,
    };
    let (name, mac) = (new.name.clone(), new.mac.0);
    // Some packets of a burst may be none of the stack's.
    let full_burst = (capabilities.burst - capabilities.burst / 4).max(1);
    let port = WorkerInterface {
        name,
        mac,
        described: described.clone(),
        device,
        errors: 0,
        left: 0,
        advised: false,
        full_burst,
        flood: Flood::default(),
        removed: false,
    };
    (port, described)
}

/// The kernel's number of an interface: the caller's, or (for one that the device has just made) the one that the
/// kernel reports; 0: none.
fn kernel_number(new: &InterfaceInfo) -> u32 {
    if new.kernel_number != 0 {
        return new.kernel_number;
    }
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None);
    socket.and_then(|socket| name_to_index(socket, &new.name)).unwrap_or(0)
}

/// Stands in for a closed device: nothing arrives, and what is sent is lost.
struct Closed(Capabilities);

impl Device for Closed {
    fn capabilities(&self) -> Capabilities {
        self.0
    }

    fn receive(&mut self, _now: Instant, _burst: &mut Burst) -> io::Result<usize> {
        Ok(0)
    }

    fn transmit(&mut self, _now: Instant, burst: &mut Burst) -> io::Result<usize> {
        let packets = burst.packets();
        burst.clear();
        Ok(packets)
    }

    fn wait_fds<'a>(&'a self, _fds: &mut Vec<BorrowedFd<'a>>) {}

    fn arm(&mut self) -> bool {
        false
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

#[cfg(test)]
mod tests;
