//! Handing a region over: a local message socket, fixed-size messages, descriptors beside them.
//!
//! ```text
//!   application                           service
//!   Hello { version, token, wanted }  ->        (SO_PEERCRED: which process; a socket shows its network namespace)
//!                                     <-  Welcome { shape, process, pid, PID namespace } + region, doorbell
//!                                     <-  or Refused { text }
//!   Context { index, key }            ->
//!                                     <-  Done { key } + wake descriptor, or Refused { text }
//! ```
//! Three more are answered with `Done` or `Refused`, after which the connection goes on: `Claim { slot, purpose } + socket` shows
//! the kernel socket that holds a port, `Handover { slot, way } + socket` the one that a socket of the stack is to be put into, or whose connection is to go on in the slot, and
//! `Settle` asks that what was closed before be given back to the kernel.
//! One has no answer: `Child { process } + pidfd`, from a process whose PID namespace is not the service's, tells of a child by its pidfd,
//! as the numbers of the two differ.
//! A tool of root's or of the service's user says no hello: `Want { text }` asks for sockets to go home to the kernel, or to end, and is answered
//! with `Done { number of them }` or `Refused`.
//! Every message is [`MESSAGE_BYTES`] long. Short, long and unknown ones are refused with text;
//! descriptors that a message should not have are closed. The connection stays open for as long as
//! the process image lives; its hang-up tells either side that the other is gone.

mod allow_list;
mod door;
mod peer;
mod service;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use super::layout::{Layout, Map, PROCESSES, Shape, VERSION};
use super::slot::SlotRef;
use crate::sys;
use ringway_shm::region::Region;

pub use allow_list::{LIST, LIST_BYTES, LISTED_SERVICE, entries, listed};
pub use door::{
    DEFAULT_DIRECTORY, DIRECTORY_VARIABLE, Door, NETWORKS, network_inode, network_named, path_of_worker, split_stem, stem,
};
pub use peer::Peer;
pub use service::{ClientMessage, ControlConnection, ControlListener, Credentials, make_wake_fd};

/// Bytes of every message.
pub const MESSAGE_BYTES: usize = 256;
const MAGIC: u32 = 0x5257_4348;
const TEXT_AT: usize = 48;
const KIND_HELLO: u32 = 1;
const KIND_CONTEXT: u32 = 2;
const KIND_WELCOME: u32 = 3;
const KIND_DONE: u32 = 4;
const KIND_REFUSED: u32 = 5;
/// First word of a refusal that denies the process its sockets.
const DENIED: u32 = 1;
const KIND_CLAIM: u32 = 16;
const KIND_SETTLE: u32 = 17;
const KIND_CHILD: u32 = 18;
const KIND_HANDOVER: u32 = 19;
const KIND_WANT: u32 = 20;
const NONE: u32 = u32::MAX;
const HELLO_MEMBERSHIP_AT: usize = 5;
const WELCOME_MEMBERSHIP_AT: usize = 14;
/// Behind the token.
const HELLO_PROGRAM_AT: usize = 16;

/// Workers of a service at most: a process keeps descriptors and a mapping for each.
pub const WORKERS_MAX: u32 = 8;

/// That a process belongs to a group, in the words of the service that has admitted it. A later service of the same name takes it for
/// the process itself: one that has given up its rights would not be admitted again. Forked children have it, other programs do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The user that the group belongs to.
    pub owner: u32,
    /// The service's seal under group and owner; zeros: none.
    pub seal: [u8; 16],
}

/// Words of a membership in a message.
const MEMBERSHIP_WORDS: usize = 5;

/// A file that a process is going to run in a child, by its numbers in stat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramFile {
    /// The device of its file system.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// Why attaching failed.
#[derive(Debug)]
pub enum AttachError {
    /// What the kernel said: no such service, no permission.
    System(io::Error),
    /// The service refused, in its own words.
    Refused(String),
    /// A rule denies the process its sockets, in the service's words.
    Denied(String),
    /// The service said something that is not in the contract.
    Protocol(&'static str),
    /// All wait contexts are in use.
    NoContext,
    /// The service is gone.
    ServiceGone,
}

impl std::fmt::Display for AttachError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AttachError::System(error) => write!(f, "{error}"),
            AttachError::Refused(text) => write!(f, "the service refused: {text}"),
            AttachError::Denied(text) => write!(f, "the service denies it: {text}"),
            AttachError::Protocol(text) => write!(f, "the service does not keep to the protocol: {text}"),
            AttachError::NoContext => write!(f, "all wait contexts are in use"),
            AttachError::ServiceGone => write!(f, "the service is gone"),
        }
    }
}

impl std::error::Error for AttachError {}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> AttachError {
        AttachError::System(error)
    }
}

/// A message of fixed size: magic, version, kind and up to eleven words more; a token or a text stands from the thirteenth word on.
struct Message([u8; MESSAGE_BYTES]);

impl Message {
    fn new(kind: u32, words: &[u32]) -> Message {
        let mut message = Message([0; MESSAGE_BYTES]);
        message.set(0, MAGIC);
        message.set(1, VERSION);
        message.set(2, kind);
        for (at, &word) in words.iter().enumerate() {
            message.set(3 + at, word);
        }
        message
    }

    fn refusal(text: &str) -> Message {
        Message::with_text(KIND_REFUSED, text)
    }

    /// A refusal that leaves nothing to the kernel.
    fn denial(text: &str) -> Message {
        let mut message = Message::refusal(text);
        message.set(3, DENIED);
        message
    }

    /// A text that is too long is cut.
    fn with_text(kind: u32, text: &str) -> Message {
        let mut message = Message::new(kind, &[]);
        let mut end = text.len().min(MESSAGE_BYTES - TEXT_AT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        message.0[TEXT_AT..TEXT_AT + end].copy_from_slice(&text.as_bytes()[..end]);
        message
    }

    fn set(&mut self, word: usize, value: u32) {
        self.0[word * 4..word * 4 + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn word(&self, word: usize) -> u32 {
        let bytes = &self.0[word * 4..word * 4 + 4];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }

    /// A token or a key stands where texts stand.
    fn set_key(&mut self, key: [u8; 16]) {
        self.0[TEXT_AT..TEXT_AT + 16].copy_from_slice(&key);
    }

    fn key(&self) -> [u8; 16] {
        let mut key = [0; 16];
        key.copy_from_slice(&self.0[TEXT_AT..TEXT_AT + 16]);
        key
    }

    fn set_membership(&mut self, at: usize, membership: &Membership) {
        self.set(at, membership.owner);
        self.0[(at + 1) * 4..(at + MEMBERSHIP_WORDS) * 4].copy_from_slice(&membership.seal);
    }

    fn membership(&self, at: usize) -> Membership {
        let mut seal = [0; 16];
        seal.copy_from_slice(&self.0[(at + 1) * 4..(at + MEMBERSHIP_WORDS) * 4]);
        Membership { owner: self.word(at), seal }
    }

    fn set_program(&mut self, at: usize, program: Option<ProgramFile>) {
        let numbers = program.map_or([0; 2], |program| [program.device, program.inode]);
        for (word, number) in numbers.into_iter().flat_map(|number| [number as u32, (number >> 32) as u32]).enumerate() {
            self.set(at + word, number);
        }
    }

    /// A file has an inode.
    fn program(&self, at: usize) -> Option<ProgramFile> {
        let number = |at| u64::from(self.word(at)) | u64::from(self.word(at + 1)) << 32;
        Some(ProgramFile { device: number(at), inode: number(at + 2) }).filter(|program| program.inode != 0)
    }

    fn kind(&self) -> u32 {
        self.word(2)
    }

    fn text(&self) -> String {
        let text = &self.0[TEXT_AT..];
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).chars().filter(|c| !c.is_control()).collect()
    }

    /// Checks length, magic and version of what came in.
    fn check(&self, bytes: usize) -> Result<(), &'static str> {
        if bytes < MESSAGE_BYTES {
            return Err("a message is too short");
        }
        if bytes > MESSAGE_BYTES {
            return Err("a message is too long");
        }
        if self.word(0) != MAGIC {
            return Err("this is not a Ringway message");
        }
        if self.word(1) != VERSION {
            return Err("the versions differ: restart the service and the program with the same Ringway");
        }
        Ok(())
    }
}

/// Receives one checked message of the service.
fn receive_answer(socket: BorrowedFd<'_>) -> Result<(Message, Vec<OwnedFd>), AttachError> {
    let mut message = Message([0; MESSAGE_BYTES]);
    let received = match sys::receive_message(socket, &mut message.0) {
        // unix(7): the service has closed its end with our message unread. What it said before that comes next.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => sys::receive_message(socket, &mut message.0)?,
        received => received?,
    };
    if received.bytes == 0 {
        return Err(AttachError::ServiceGone);
    }
    message.check(received.bytes).map_err(AttachError::Protocol)?;
    if received.cut {
        return Err(AttachError::Protocol("too many descriptors"));
    }
    match (message.kind(), message.word(3)) {
        (KIND_REFUSED, DENIED) => Err(AttachError::Denied(message.text())),
        (KIND_REFUSED, _) => Err(AttachError::Refused(message.text())),
        _ => Ok((message, received.fds)),
    }
}

/// What a new process gets.
pub(super) struct Welcome {
    pub(super) map: Map,
    pub(super) process: u32,
    /// The number of this process where the service is; 0: it has none there.
    pub(super) known_as: u32,
    /// The service is in another PID namespace.
    pub(super) is_foreign: bool,
    /// The inode of this process's.
    pub(super) namespace: u32,
    /// The inode of the region's memory file.
    pub(super) region: u64,
    pub(super) membership: Membership,
    pub(super) wake_fd: OwnedFd,
    pub(super) control: OwnedFd,
}

/// What a process says of itself as it attaches.
#[derive(Clone, Copy, Default)]
pub(super) struct Applicant {
    pub(super) token: [u8; 16],
    pub(super) membership: Membership,
    /// The number that is reserved for it.
    pub(super) wanted: Option<u32>,
    /// It attaches for a program that it is going to start.
    pub(super) program: Option<ProgramFile>,
}

/// Connects, says hello, maps the region.
pub(super) fn request_attach(path: &Path, applicant: Applicant, fd_floor: RawFd) -> Result<Welcome, AttachError> {
    let socket = sys::connect_local(path)?;
    greet(socket, applicant, fd_floor)
}

fn greet(socket: OwnedFd, applicant: Applicant, fd_floor: RawFd) -> Result<Welcome, AttachError> {
    let ours = sys::process_namespace();
    let mut hello = Message::new(KIND_HELLO, &[applicant.wanted.unwrap_or(NONE), name_inside(ours, sys::process_number())]);
    hello.set_membership(HELLO_MEMBERSHIP_AT, &applicant.membership);
    hello.set_key(applicant.token);
    hello.set_program(HELLO_PROGRAM_AT, applicant.program);
    // Without a network there is no namespace to show; the service then refuses.
    let shown = sys::inet_socket().ok();
    let shown: Vec<BorrowedFd<'_>> = shown.iter().map(AsFd::as_fd).collect();
    if let Err(error) = sys::send_message(socket.as_fd(), &hello.0, &shown) {
        // The service may have refused the connection before it heard anything.
        let refusal = if error.kind() == io::ErrorKind::BrokenPipe { receive_answer(socket.as_fd()).err() } else { None };
        return Err(refusal
            .filter(|refusal| matches!(refusal, AttachError::Refused(_) | AttachError::Denied(_)))
            .unwrap_or(AttachError::System(error)));
    }
    let (message, fds) = receive_answer(socket.as_fd())?;
    let Ok([region, wake_fd]) = <[OwnedFd; 2]>::try_from(fds) else {
        return Err(AttachError::Protocol("a welcome needs exactly two descriptors"));
    };
    let shape = Shape {
        slots: message.word(4),
        rx_large: message.word(5),
        rx_small: message.word(6),
        tx_large: message.word(7),
        tx_small: message.word(8),
        tx_bulk: message.word(9),
        rx_bulk: message.word(10),
        rx_middle: message.word(11),
    };
    let process = message.word(3);
    if message.kind() != KIND_WELCOME || !shape.is_valid() || process >= PROCESSES {
        return Err(AttachError::Protocol("a welcome that makes no sense"));
    }
    let layout = Layout::of(shape);
    let map = Map::new(Region::attach(region.as_fd(), layout.total)?, layout);
    let inode = sys::inode_of(region.as_fd())?;
    let (known_as, theirs) = (message.word(12), message.word(13));
    let is_foreign = known_as != sys::process_number() || (theirs != 0 && ours != 0 && theirs != ours);
    Ok(Welcome {
        map,
        process,
        known_as,
        is_foreign,
        namespace: ours,
        region: inode,
        membership: message.membership(WELCOME_MEMBERSHIP_AT),
        wake_fd: place(wake_fd, fd_floor),
        control: place(socket, fd_floor),
    })
}

/// How processes of a group in one PID namespace, which is not the service's, name each other: never as the kernel numbers any.
pub(super) fn name_inside(namespace: u32, pid: u32) -> u32 {
    peer::FOREIGN | (namespace.wrapping_mul(0x9E37_79B1) ^ pid)
}

/// Moves a descriptor to the top of the table, out of the way of programs that count on numbers; when that is full, to its
/// upper half, or it stays.
fn place(fd: OwnedFd, floor: RawFd) -> OwnedFd {
    let floors = [floor, floor / 2].into_iter().filter(|&floor| floor > 0);
    floors.into_iter().find_map(|floor| sys::duplicate_above(fd.as_fd(), floor).ok()).unwrap_or(fd)
}

/// What a program wants of a port that a kernel socket of its own holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// Accept connections: the kernel socket listens.
    Listen = 1,
    /// Open one connection from it: the kernel socket is bound.
    Connect = 2,
    /// Send and receive datagrams: the kernel socket is bound.
    Datagrams = 3,
    /// Accept connections again, as at an earlier service: the kernel socket listens.
    ListenAgain = 4,
}

impl Purpose {
    fn from_word(word: u32) -> Option<Purpose> {
        let all = [Purpose::Listen, Purpose::Connect, Purpose::Datagrams, Purpose::ListenAgain];
        all.into_iter().find(|&purpose| purpose as u32 == word)
    }
}

/// Shows the kernel socket that holds the port which `slot` will serve.
pub(super) fn show_socket(
    control: BorrowedFd<'_>,
    slot: SlotRef,
    purpose: Purpose,
    socket: BorrowedFd<'_>,
) -> Result<(), AttachError> {
    let message = Message::new(KIND_CLAIM, &[slot.index, slot.generation, purpose as u32]);
    sys::send_message(control, &message.0, &[socket])?;
    expect_done(control)
}

/// Which way a connection goes between a slot and a kernel socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Way {
    /// The kernel goes on.
    Home = 0,
    /// The stack goes on: the kernel socket has the connection, which an earlier service has handed over, and the slot is fresh.
    Back = 1,
    /// The same, and this very service has handed it over.
    Recalled = 2,
}

impl Way {
    fn from_word(word: u32) -> Option<Way> {
        [Way::Home, Way::Back, Way::Recalled].into_iter().find(|&way| way as u32 == word)
    }
}

/// Has the service put the socket of `slot` into the kernel socket `socket`.
pub(super) fn hand_over(control: BorrowedFd<'_>, slot: SlotRef, socket: BorrowedFd<'_>) -> Result<(), AttachError> {
    let message = Message::new(KIND_HANDOVER, &[slot.index, slot.generation, Way::Home as u32]);
    sys::send_message(control, &message.0, &[socket])?;
    expect_done(control)
}

/// Has the connections of these kernel sockets go on in these slots; adds to `answers` what becomes of each. Returns false if the service wants none.
pub(super) fn adopt(
    control: BorrowedFd<'_>,
    (way, offers): (Way, &[(SlotRef, RawFd)]),
    answers: &mut Vec<bool>,
) -> Result<bool, AttachError> {
    for &(slot, socket) in offers {
        let message = Message::new(KIND_HANDOVER, &[slot.index, slot.generation, way as u32]);
        sys::with_fd(socket, |socket| sys::send_message(control, &message.0, &[socket]))?;
    }
    let mut wants = true;
    for _ in offers {
        match expect_done(control) {
            Err(error @ (AttachError::Refused(_) | AttachError::Denied(_))) => {
                wants &= !matches!(error, AttachError::Denied(_));
                answers.push(false);
            }
            answer => answers.push(answer.map(|()| true)?),
        }
    }
    Ok(wants)
}

/// Asks the service whose door is at `path` to have the kernel go on with the sockets that `what` names: `all`, `pid N`, `port N`, or
/// `flow ADDRESS ADDRESS`; with `kill ` before it, to reset them; with `back `, to have back what it has handed over. Returns how many sockets of one
/// worker these are; of those that are to come back that is not known.
///
/// # Errors
/// The service's refusal, or what stands in the way of asking.
///
/// # Blocking
/// Until the programs are told; they hand over at their next call or wake-up.
pub fn want_sockets(path: &Path, what: &str) -> Result<u32, AttachError> {
    let socket = sys::connect_local(path)?;
    sys::send_message(socket.as_fd(), &Message::with_text(KIND_WANT, what).0, &[])?;
    let (answer, _) = receive_answer(socket.as_fd())?;
    if answer.kind() == KIND_DONE { Ok(answer.word(3)) } else { Err(AttachError::Protocol("an answer that was not asked for")) }
}

/// The process that listens at a control socket.
///
/// # Errors
/// None listens (ECONNREFUSED, ENOENT), or the system says no more of it.
pub fn process_behind(path: &Path) -> io::Result<Peer> {
    let socket = sys::connect_local(path)?;
    let (number, ..) = sys::peer_credentials(socket.as_fd())?;
    peer::of_connection(socket.as_fd(), number)
}

/// Tells of a child that has not attached. No answer comes, and nothing is allocated: the caller may have just forked.
pub(super) fn show_child(control: BorrowedFd<'_>, process: u32, pidfd: BorrowedFd<'_>) -> io::Result<()> {
    sys::send_message(control, &Message::new(KIND_CHILD, &[process]).0, &[pidfd])
}

/// Waits until ports of sockets that were closed before are the kernel's again.
pub(super) fn settle(control: BorrowedFd<'_>) -> Result<(), AttachError> {
    sys::send_message(control, &Message::new(KIND_SETTLE, &[]).0, &[])?;
    expect_done(control)
}

fn expect_done(control: BorrowedFd<'_>) -> Result<(), AttachError> {
    let (answer, _) = receive_answer(control)?;
    if answer.kind() == KIND_DONE { Ok(()) } else { Err(AttachError::Protocol("an answer that was not asked for")) }
}

/// Names a wake descriptor to the other workers of the service; zero names none.
pub type WakeFdKey = [u8; 16];

/// How a wake descriptor is made silent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WakeFdKind {
    /// By epoll_wait(2): an epoll instance that watches an eventfd of the service. What the application does to it cannot
    /// make the service's write wait: flags and counter of the eventfd are out of reach, and an epoll instance is signalled
    /// without its mutex.
    Epoll = 0,
    /// By read(2): one end of a pair of sockets. Flags and queue of the service's end are out of reach, and a write to it
    /// takes no lock that a reader holds while it copies. It costs more, for processes that may make few system calls.
    Socket = 1,
}

impl WakeFdKind {
    fn from_word(word: u32) -> Option<WakeFdKind> {
        [WakeFdKind::Epoll, WakeFdKind::Socket].into_iter().find(|&kind| kind as u32 == word)
    }
}

/// What rings when something happens in a context: made by the service, which alone can ring it. The descriptor is readable
/// after a ring until it is made silent.
#[derive(Debug)]
pub struct WakeFd {
    /// [`sys::silence_wake_fd`] makes one of [`WakeFdKind::Epoll`] silent again, [`sys::silence_socket`] the other.
    pub fd: OwnedFd,
    /// Shown to the other workers, it has them ring the same wake descriptor.
    pub key: WakeFdKey,
}

/// Has a context ring a new wake descriptor.
pub(super) fn request_wake_fd(
    control: BorrowedFd<'_>,
    context: u32,
    kind: WakeFdKind,
    fd_floor: RawFd,
) -> Result<WakeFd, AttachError> {
    let (message, fds) = exchange_context(control, &[context, kind as u32], WakeFdKey::default())?;
    let Ok([fd]) = <[OwnedFd; 1]>::try_from(fds) else {
        return Err(AttachError::Protocol("a wake_fd needs exactly one descriptor"));
    };
    Ok(WakeFd { fd: place(fd, fd_floor), key: message.key() })
}

/// Has a context ring the wake descriptor that another worker has given.
pub(super) fn share_wake_fd(control: BorrowedFd<'_>, context: u32, key: WakeFdKey) -> Result<(), AttachError> {
    exchange_context(control, &[context], key).map(drop)
}

fn exchange_context(control: BorrowedFd<'_>, words: &[u32], key: WakeFdKey) -> Result<(Message, Vec<OwnedFd>), AttachError> {
    let mut message = Message::new(KIND_CONTEXT, words);
    message.set_key(key);
    sys::send_message(control, &message.0, &[])?;
    let (answer, fds) = receive_answer(control)?;
    if answer.kind() != KIND_DONE {
        return Err(AttachError::Protocol("an answer that was not asked for"));
    }
    Ok((answer, fds))
}

#[cfg(test)]
mod tests;
