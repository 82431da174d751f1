//! The self-test: does this card, attached in this way, carry packets that a neighbor understands, and the kernel's too?
//!
//! ```text
//!   find_neighbor   the kernel asks neighbors for echoes of the largest and of a small size: one that answers both takes part
//!   open_tested     attaches in the first way; sends the same by AF_XDP, whose answers alone are redirected to it, and by the
//!                   kernel; a byte that differs, a wrong checksum, or no answer: detaches, the next way
//!   Xdp::take       what was tested serves
//! ```
//! A host answers an echo request only when its checksum is right, so an answer shows what the receiver saw. Promises: ends
//! after a second for each way (and four more for a card that has lost its link by the attachment); a way that has failed is
//! detached, and the card's offloads are as before. Does not do: other receive queues than the one that the answers come to.

mod echo;

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use ringway_shm::{Arena, Burst, Checksum, Duration, Frame, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{AttachMode, Xdp, XdpOptions};
use crate::Device;
use crate::interface::{Interface, Trouble, health};
use crate::run::{give_packet, packet_len, take_packet};
use crate::steering::Redirect;
use echo::{Answer, CHECKSUM, KernelEcho};

/// The time that neighbors have to answer the kernel.
const FIND: Duration = Duration::from_millis(500);
/// The time that packets have to come back in one way.
const TEST: Duration = Duration::from_secs(1);
/// The time that a card may take to find its link again.
const LINK: Duration = Duration::from_secs(4);
/// The interval at which unanswered packets are sent again.
const AGAIN: Duration = Duration::from_millis(100);
/// A small packet has so many bytes.
const SMALL: usize = 64;
/// A packet of the test lies in frames of so many bytes.
const PIECE: usize = 1_900;

/// Both ends of the test.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Our address on the interface.
    pub own: IpAddr,
    /// The answering host; of the same family.
    pub neighbor: IpAddr,
    /// Our link address.
    pub own_mac: [u8; 6],
    /// The neighbor's.
    pub neighbor_mac: [u8; 6],
}

/// The facts that a test needs.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Both ends.
    pub ends: Ends,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// A random number, by which answers are told from those to others.
    pub identifier: u16,
    /// Where time comes from.
    pub clock: fn() -> Instant,
}

/// The result of one way.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Which.
    pub attach_mode: AttachMode,
    /// The fault, if there was one.
    pub outcome: Result<(), Wrong>,
}

/// Why a way does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It cannot be opened.
    Closed(String),
    /// It was opened, and packets did not pass.
    Failed(String),
}

/// The first of `candidates`, our address and a neighbor's each, that answers the kernel's echo requests of both sizes.
///
/// # Errors
/// None does; the text says so.
pub fn find_neighbor(
    index: u32,
    candidates: &[(IpAddr, IpAddr)],
    mtu: u16,
    identifier: u16,
    clock: fn() -> Instant,
) -> Result<(IpAddr, IpAddr), String> {
    if candidates.is_empty() {
        return Err("no neighbor is known".to_owned());
    }
    let open = |ends: &(IpAddr, IpAddr)| Some((*ends, KernelEcho::open(index, ends.0, ends.1, identifier).ok()?, [false; 2]));
    let mut asked: Vec<_> = candidates.iter().filter_map(open).collect();
    let mut rounds = Rounds::new(FIND, clock);
    while rounds.goes_on() {
        for (ends, echo, answered) in &mut asked {
            if rounds.is_due {
                send_by_kernel(echo, mtu, *answered);
            }
            mark(answered, echo.answered());
            if answered.iter().all(|answered| *answered) {
                return Ok(*ends);
            }
        }
        let sockets: Vec<_> = asked.iter().filter_map(|(_, echo, _)| echo.wait_fd()).collect();
        rounds.wait(&sockets);
    }
    let small = asked.iter().find(|(_, _, answered)| answered[0]);
    Err(match small {
        Some((ends, _, _)) => format!("{} answers the kernel no echo request of {mtu} bytes", ends.1),
        None => format!("no neighbor answers the kernel an echo request ({})", names(candidates)),
    })
}

fn names(candidates: &[(IpAddr, IpAddr)]) -> String {
    candidates.iter().map(|(_, neighbor)| neighbor.to_string()).collect::<Vec<_>>().join(", ")
}

/// Opens `interface` in the first of `ways` in which packets pass, for what it is to take later; says how each fared that was tried. The device receives
/// nothing before [`Xdp::take`], and the kernel gets nothing of owned ports.
pub fn open_tested(
    interface: &Interface,
    attach_modes: &[AttachMode],
    options: &XdpOptions,
    test: &Test,
    (redirect, arena): (Redirect<'_>, &Arena),
) -> (Option<Xdp>, Vec<Tried>) {
    let mut tried = Vec::new();
    // Frames of zero-copy ways that have failed: the driver has let them go when another socket has its queue.
    let mut lent = Vec::new();
    for &attach_mode in attach_modes {
        let before = health(interface.index).map(|(_, trouble)| trouble).unwrap_or_default();
        let mut device = match Xdp::open_as(interface, redirect.tested(test.identifier), attach_mode, options, arena) {
            Ok(device) => device,
            Err(error) => {
                tried.push(Tried { attach_mode, outcome: Err(Wrong::Closed(error.to_string())) });
                continue;
            }
        };
        lent.drain(..).for_each(|mut accounting: super::FrameAccounting| accounting.take_back_all());
        let result = passes(&mut device, interface, test, arena);
        let outcome = result.map_err(|text| Wrong::Failed(text + &trouble_since(interface.index, before)));
        let has_passed = outcome.is_ok();
        tried.push(Tried { attach_mode, outcome });
        if has_passed {
            return (Some(device), tried);
        }
        lent.extend(device.retire());
    }
    (None, tried)
}

/// Describes what the interface has counted meanwhile, for an operator.
fn trouble_since(index: u32, before: Trouble) -> String {
    let now = health(index).map(|(_, trouble)| trouble).unwrap_or_default();
    let counts = [
        ("receive errors", now.receive_errors, before.receive_errors),
        ("transmit errors", now.transmit_errors, before.transmit_errors),
        ("packets dropped on arrival", now.receive_dropped, before.receive_dropped),
        ("packets dropped on sending", now.transmit_dropped, before.transmit_dropped),
    ];
    let more = counts.iter().filter(|(_, now, before)| now > before);
    more.map(|(what, now, before)| format!("; {} {what}", now - before)).collect()
}

/// Sends both sizes by both ways until all have come back.
fn passes(device: &mut Xdp, interface: &Interface, test: &Test, arena: &Arena) -> Result<(), String> {
    wait_for_link(interface.index, test.clock)?;
    let kernel = KernelEcho::open(interface.index, test.ends.own, test.ends.neighbor, test.identifier ^ 1);
    let kernel = kernel.map_err(|error| format!("the kernel cannot send an echo request: {error}"))?;
    exchange(device, &kernel, test, arena)
}

/// The kernel's way to the neighbor.
trait Echo {
    /// Sends request number `number`, an IP packet of `len` bytes.
    fn send(&self, number: u16, len: usize) -> io::Result<()>;

    /// The numbers of the requests whose answers have come.
    fn answered(&self) -> Vec<u16>;

    /// The descriptor that is readable when an answer has come.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>>;
}

/// As [`passes`], on a link that is there.
fn exchange(device: &mut dyn Device, kernel: &dyn Echo, test: &Test, arena: &Arena) -> Result<(), String> {
    let Test { mtu, clock, .. } = *test;
    let (mut by_xdp, mut by_kernel) = ([false; 2], [false; 2]);
    let mut rounds = Rounds::new(TEST, clock);
    while rounds.goes_on() {
        if rounds.is_due {
            send_by_xdp(device, test, by_xdp, arena).map_err(|error| format!("packets cannot be sent: {error}"))?;
            send_by_kernel(kernel, mtu, by_kernel);
        }
        mark(&mut by_xdp, receive(device, test)?);
        mark(&mut by_kernel, kernel.answered());
        if by_xdp.iter().chain(&by_kernel).all(|answered| *answered) {
            return Ok(());
        }
        let mut fds: Vec<_> = kernel.wait_fd().into_iter().collect();
        device.wait_fds(&mut fds);
        rounds.wait(&fds);
    }
    let lost = |by: [bool; 2], whose: &str| {
        let sizes = sizes(mtu).into_iter().zip(by).filter(|(_, answered)| !answered);
        sizes.map(|(size, _)| format!("no answer to {whose} echo request of {size} bytes")).collect::<Vec<_>>()
    };
    Err([lost(by_xdp, "an"), lost(by_kernel, "the kernel's own")].concat().join(", "))
}

/// Request number 0 and request number 1.
fn sizes(mtu: u16) -> [usize; 2] {
    [SMALL, usize::from(mtu)]
}

fn mark(answered: &mut [bool; 2], numbers: Vec<u16>) {
    for number in numbers {
        if let Some(answered) = answered.get_mut(usize::from(number)) {
            *answered = true;
        }
    }
}

fn send_by_kernel(echo: &dyn Echo, mtu: u16, answered: [bool; 2]) {
    for (number, len) in sizes(mtu).into_iter().enumerate().filter(|(number, _)| !answered[*number]) {
        // `Err`: the neighbor is not resolved, or a packet filter refuses it; then nothing is answered.
        echo.send(number as u16, len).ok();
    }
}

fn send_by_xdp(device: &mut dyn Device, test: &Test, answered: [bool; 2], arena: &Arena) -> io::Result<()> {
    let mut burst = Burst::default();
    let sums = device.capabilities().sends_partial_checksums;
    for (number, len) in sizes(test.mtu).into_iter().enumerate().filter(|(number, _)| !answered[*number]) {
        let (mut bytes, start) = echo::request(&test.ends, (test.identifier, number as u16), len);
        if !sums {
            echo::sum(&mut bytes, start);
        }
        let pieces: Option<Vec<Frame>> = bytes.chunks(PIECE).map(|piece| arena.alloc_from(piece)).collect();
        let mut packet = pieces.ok_or_else(|| io::Error::other("the packet memory is used up"))?;
        if sums {
            packet[0].set_checksum(Checksum::Partial { start: start as u16, offset: CHECKSUM as u16 });
        }
        give_packet(&mut burst, &mut packet);
    }
    device.transmit((test.clock)(), &mut burst)?;
    Ok(())
}

/// The numbers of the requests whose answers have come by AF_XDP.
fn receive(device: &mut dyn Device, test: &Test) -> Result<Vec<u16>, String> {
    let (mut burst, mut packet, mut numbers) = (Burst::default(), Vec::new(), Vec::new());
    device.receive((test.clock)(), &mut burst).map_err(|error| format!("packets cannot be received: {error}"))?;
    while take_packet(&mut burst, &mut packet) {
        let mut bytes = Vec::with_capacity(packet_len(&packet));
        packet.iter().for_each(|frame| bytes.extend(frame.bytes()));
        match echo::judge(&bytes, &test.ends, test.identifier, &sizes(test.mtu)) {
            Answer::Other => {}
            Answer::Right(number) => numbers.push(number),
            Answer::Wrong(text) => return Err(text),
        }
    }
    Ok(numbers)
}

fn wait_for_link(index: u32, clock: fn() -> Instant) -> Result<(), String> {
    let mut rounds = Rounds::new(LINK, clock);
    while rounds.goes_on() {
        match health(index) {
            Ok((true, _)) => return Ok(()),
            Ok((false, _)) => rounds.wait(&[]),
            Err(error) => return Err(format!("the interface is gone: {error}")),
        }
    }
    Err("the card has lost its link and does not find it again".to_owned())
}

/// Turns of a test, until its time is over.
struct Rounds {
    clock: fn() -> Instant,
    now: Instant,
    end: Instant,
    again: Instant,
    /// It is time to send what has not been answered.
    is_due: bool,
}

impl Rounds {
    fn new(limit: Duration, clock: fn() -> Instant) -> Rounds {
        let now = clock();
        Rounds { clock, now, end: now + limit, again: now, is_due: false }
    }

    fn goes_on(&mut self) -> bool {
        self.now = (self.clock)();
        self.is_due = self.now >= self.again;
        if self.is_due {
            self.again = self.now + AGAIN;
        }
        self.now < self.end
    }

    /// Until one of `fds` is readable, it is time to send again, or the time is over.
    fn wait(&self, fds: &[BorrowedFd<'_>]) {
        let mut fds: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let left = self.again.min(self.end).since((self.clock)());
        let limit = Timespec { tv_sec: 0, tv_nsec: left.as_nanos().min(AGAIN.as_nanos()) as i64 };
        // `Err`: a signal; the next turn looks at the clock.
        poll(&mut fds, Some(&limit)).ok();
    }
}

#[cfg(test)]
mod tests;
