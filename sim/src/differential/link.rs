//! The link between the ends: a veth pair, or TAP interfaces.
//!
//! A stack of ours that has a TAP interface is alone with the kernel on its other side. The kernel's stack has no such
//! neighbor, so the reference joins two TAP interfaces, one in each namespace, by a thread that copies packets unchanged,
//! with their virtio headers. Promises: the interfaces are removed when the thread closes their descriptors, and the thread
//! ends with the [`Forwarder`]. Does not do: queues; a packet that does not fit is lost.

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{JoinHandle, spawn};

use ringway_device::Device;
use ringway_device::tap::Tap;
use ringway_engine::clock;
use ringway_shm::{Arena, ArenaConfig, Burst};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::check::{Failure, failure};

/// The kind of wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Link {
    /// A veth pair that our stack shares with the kernel's, over packet sockets.
    Veth,
    /// TAP interfaces: our stack has its own alone.
    Tap,
}

/// Name of the interface in every namespace but Ringway's own.
pub(super) const INTERFACE: &str = "wire0";
/// Name of the interfaces until they are in their namespaces.
const UNPLACED: &str = "rw-diff%d";
const FRAMES: u32 = 1_024;
/// Interval at which the thread checks whether it must stop.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Puts a veth pair into the namespaces of two processes.
pub(super) fn join_by_veth(first: u32, second: u32) -> Result<(), Failure> {
    let (first, second) = (first.to_string(), second.to_string());
    let peer = ["peer", "name", INTERFACE, "netns", &second];
    command(&[&["ip", "link", "add", INTERFACE, "netns", &first, "type", "veth"][..], &peer].concat())
}

/// Puts two TAP interfaces into the namespaces of two processes and carries packets between them.
pub(super) fn join_by_tap(first: u32, second: u32) -> Result<Forwarder, Failure> {
    let (forwarder, names) = Forwarder::start();
    let names = names.recv().map_err(|_| Failure("TAP interfaces cannot be made".to_owned()))?;
    for (name, pid) in names.iter().zip([first, second]) {
        command(&["ip", "link", "set", name, "netns", &pid.to_string(), "name", INTERFACE])?;
    }
    Ok(forwarder)
}

/// Sets an interface's addresses in the namespace of a process and brings it up.
pub(super) fn set_up(pid: u32, interface: &str, addresses: &[String]) -> Result<(), Failure> {
    let pid = pid.to_string();
    let inside = |words: &[&str]| command(&[&["nsenter", "-t", &pid, "-n", "ip"], words].concat());
    for address in addresses {
        let no_waiting: &[&str] = if address.contains(':') { &["nodad"] } else { &[] };
        inside(&[&["address", "add", address, "dev", interface], no_waiting].concat())?;
    }
    inside(&["link", "set", interface, "up"])
}

/// A thread that forwards between two TAP interfaces.
pub(super) struct Forwarder {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Forwarder {
    /// Starts the thread and returns the receiver of the interface names. Frames stay in one thread, so the thread makes the
    /// interfaces itself.
    fn start() -> (Forwarder, Receiver<[String; 2]>) {
        let ends = Arc::new(AtomicBool::new(false));
        let (sender, names) = channel();
        let thread = spawn({
            let ends = Arc::clone(&ends);
            move || {
                let arena = Arena::new(ArenaConfig { large: FRAMES, small: FRAMES });
                let taps = [Tap::open(UNPLACED, &arena)?, Tap::open(UNPLACED, &arena)?];
                match sender.send(taps.each_ref().map(|tap| tap.interface().name.clone())) {
                    Ok(()) => forward(taps, &ends),
                    Err(_) => Ok(()),
                }
            }
        });
        (Forwarder { ends, thread: Some(thread) }, names)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Ok(()))) | None => {}
            Some(Ok(Err(error))) => eprintln!("forwarder between two TAP interfaces: {error}"),
            Some(Err(_)) => eprintln!("the forwarder between two TAP interfaces panicked"),
        }
    }
}

fn forward(mut taps: [Tap; 2], ends: &AtomicBool) -> io::Result<()> {
    let mut burst = Burst::default();
    while !ends.load(Ordering::Relaxed) {
        let mut moved = 0;
        for from in 0..2 {
            moved += taps[from].receive(clock::now(), &mut burst)?;
            // An interface that is not up yet refuses packets: they are lost, as on any wire.
            taps[1 - from].transmit(clock::now(), &mut burst).ok();
            burst.clear();
        }
        if moved == 0 {
            let mut fds = Vec::new();
            taps.iter().for_each(|tap| tap.wait_fds(&mut fds));
            let mut fds: Vec<PollFd> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            match poll(&mut fds, Some(&LOOK)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn command(words: &[&str]) -> Result<(), Failure> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => failure(format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr))),
        Err(error) => failure(format!("{}: {error}", words.join(" "))),
    }
}
