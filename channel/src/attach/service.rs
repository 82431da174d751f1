//! The service's end of the control socket. All descriptors are non-blocking: wait with epoll.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use super::super::layout::{CONTEXTS, Shape};
use super::super::slot::SlotRef;
use super::super::{ContextIndex, ProcessIndex};
use super::{
    HELLO_MEMBERSHIP_AT, HELLO_PROGRAM_AT, KIND_CHILD, KIND_CLAIM, KIND_CONTEXT, KIND_DONE, KIND_HANDOVER, KIND_HELLO,
    KIND_SETTLE, KIND_WANT, KIND_WELCOME, MESSAGE_BYTES, Membership, Message, NONE, Peer, ProgramFile, Purpose,
    WELCOME_MEMBERSHIP_AT, WakeFdKey, WakeFdKind, Way, peer,
};
use crate::sys;

/// Waits for processes that want to attach.
pub struct ControlListener {
    socket: OwnedFd,
}

/// The process at the other end, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process number in the service's namespace (0: outside of it).
    pub pid: u32,
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
}

/// What a process may say.
#[derive(Debug)]
pub enum ClientMessage {
    /// I want to attach to the region of this group.
    Hello {
        /// The group.
        token: [u8; 16],
        /// The process number that was reserved for me.
        wanted: Option<ProcessIndex>,
        /// What an earlier service of this name has said of me.
        membership: Membership,
        /// By this name one may have been reserved for me in another PID namespace than the service's.
        name: u32,
        /// A socket of the process's network, as it says.
        socket: Option<OwnedFd>,
        /// I attach for a program that I am going to start; unchecked.
        program: Option<ProgramFile>,
    },
    /// A kernel socket of mine holds the port that this slot will serve.
    Claim {
        /// Unchecked.
        slot: SlotRef,
        /// What for.
        purpose: Purpose,
        /// The socket, as the process says. What is done to it may wait for the process, so it is nothing for a thread on
        /// which others depend.
        socket: OwnedFd,
    },
    /// The kernel is to go on with this slot's socket, or the slot with the kernel socket's connection.
    Handover {
        /// Unchecked.
        slot: SlotRef,
        /// Which of the two.
        way: Way,
        /// The kernel socket for it, as the process says; as careful as with that of a claim.
        socket: OwnedFd,
    },
    /// I have made a child, which has not attached; only from processes whose number of a child is not the service's.
    Child {
        /// The number that was reserved for it; unchecked.
        process: ProcessIndex,
        /// Its pidfd, as the process says.
        pidfd: OwnedFd,
    },
    /// Sockets are to go home to the kernel: which ones, in words that are unchecked.
    Want(String),
    /// Give back what was closed before.
    Settle,
    /// Wake this context with a wake descriptor.
    Context {
        /// Checked: there is such a context.
        context: ContextIndex,
        /// The wake descriptor that another worker has given; `None`: a new one is wanted.
        key: Option<WakeFdKey>,
        /// Of the new one.
        kind: WakeFdKind,
    },
    /// Not in the contract: answer with this text and close. Descriptors that came with it are the client's: closing them may block.
    Nonsense(&'static str, Vec<OwnedFd>),
    /// The process closed the connection.
    Gone,
}

/// One process's control connection.
pub struct ControlConnection {
    socket: OwnedFd,
    credentials: Credentials,
}

impl ControlListener {
    /// Listens at `path`, which must not exist. Set its mode before it is announced.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bind(path: &Path) -> io::Result<ControlListener> {
        Ok(ControlListener { socket: sys::listen_local(path)? })
    }

    /// The next connection.
    ///
    /// # Errors
    /// `WouldBlock` when there is none.
    pub fn accept(&self) -> io::Result<ControlConnection> {
        ControlConnection::new(sys::accept_local(self.socket.as_fd())?)
    }
}

/// A new wake descriptor: what rings it, which stays with the service, and what the application waits on.
///
/// # Errors
/// No descriptors are left.
pub fn make_wake_fd(kind: WakeFdKind) -> io::Result<(OwnedFd, OwnedFd)> {
    if kind == WakeFdKind::Socket {
        return sys::one_way_sockets();
    }
    let ringer = sys::event_descriptor()?;
    let wake_fd = sys::watch_edges(ringer.as_fd())?;
    Ok((ringer, wake_fd))
}

impl AsFd for ControlListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsFd for ControlConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl ControlConnection {
    /// Wraps a connected local message socket.
    ///
    /// # Errors
    /// If the kernel does not report the peer.
    pub fn new(socket: OwnedFd) -> io::Result<ControlConnection> {
        let (pid, uid, gid) = sys::peer_credentials(socket.as_fd())?;
        Ok(ControlConnection { socket, credentials: Credentials { pid, uid, gid } })
    }

    /// The process that connected.
    ///
    /// # Errors
    /// It cannot be named or watched; the text says why.
    pub fn peer(&self) -> io::Result<Peer> {
        peer::of_connection(self.socket.as_fd(), self.credentials.pid)
    }

    /// The supplementary groups of the process that connected, as they were then.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn groups(&self) -> io::Result<Vec<u32>> {
        sys::peer_groups(self.socket.as_fd())
    }

    /// The process that connected.
    pub fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// The next message.
    ///
    /// # Errors
    /// `WouldBlock` when there is none.
    pub fn receive(&self) -> io::Result<ClientMessage> {
        let mut message = Message([0; MESSAGE_BYTES]);
        let received = sys::receive_message(self.socket.as_fd(), &mut message.0)?;
        if received.bytes == 0 {
            return Ok(ClientMessage::Gone);
        }
        if let Err(text) = message.check(received.bytes) {
            return Ok(ClientMessage::Nonsense(text, received.fds));
        }
        if received.cut {
            return Ok(ClientMessage::Nonsense("too many descriptors", received.fds));
        }
        Ok(decode(&message, received.fds))
    }

    /// Answers a hello.
    ///
    /// # Errors
    /// What the kernel says; close the connection then.
    pub fn welcome(
        &self,
        shape: Shape,
        process: ProcessIndex,
        region: BorrowedFd<'_>,
        doorbell: BorrowedFd<'_>,
    ) -> io::Result<()> {
        self.welcome_as(&Membership::default(), shape, process, [region, doorbell])
    }

    /// The same with what a later service of this name is to know of the process.
    ///
    /// # Errors
    /// What the kernel says; close the connection then.
    pub fn welcome_as(
        &self,
        membership: &Membership,
        shape: Shape,
        process: ProcessIndex,
        [region, doorbell]: [BorrowedFd<'_>; 2],
    ) -> io::Result<()> {
        let copied = [shape.rx_large, shape.rx_small, shape.tx_large, shape.tx_small];
        let lent = [shape.tx_bulk, shape.rx_bulk, shape.rx_middle];
        let shape = [process, shape.slots].into_iter().chain(copied).chain(lent);
        let words: Vec<u32> = shape.chain([self.credentials.pid, sys::process_namespace()]).collect();
        let mut message = Message::new(KIND_WELCOME, &words);
        message.set_membership(WELCOME_MEMBERSHIP_AT, membership);
        sys::send_message(self.socket.as_fd(), &message.0, &[region, doorbell])
    }

    /// Answers a context that shares a wake descriptor, a claim, or a request to settle.
    ///
    /// # Errors
    /// What the kernel says; close the connection then.
    pub fn done(&self) -> io::Result<()> {
        sys::send_message(self.socket.as_fd(), &Message::new(KIND_DONE, &[]).0, &[])
    }

    /// Answers a wish for sockets with their number.
    ///
    /// # Errors
    /// What the kernel says; close the connection then.
    pub fn done_with(&self, count: u32) -> io::Result<()> {
        sys::send_message(self.socket.as_fd(), &Message::new(KIND_DONE, &[count]).0, &[])
    }

    /// Answers a context with its new wake descriptor.
    ///
    /// # Errors
    /// What the kernel says; close the connection then.
    pub fn give_wake_fd(&self, key: WakeFdKey, wake_fd: BorrowedFd<'_>) -> io::Result<()> {
        let mut message = Message::new(KIND_DONE, &[]);
        message.set_key(key);
        sys::send_message(self.socket.as_fd(), &message.0, &[wake_fd])
    }

    /// Refuses, with a text for people.
    ///
    /// # Errors
    /// What the kernel says; close the connection either way.
    pub fn refuse(&self, text: &str) -> io::Result<()> {
        sys::send_message(self.socket.as_fd(), &Message::refusal(text).0, &[])
    }

    /// Denies a process its sockets, with a text for people.
    ///
    /// # Errors
    /// What the kernel says; close the connection either way.
    pub fn deny(&self, text: &str) -> io::Result<()> {
        sys::send_message(self.socket.as_fd(), &Message::denial(text).0, &[])
    }
}

/// A message of the right length and version.
fn decode(message: &Message, mut fds: Vec<OwnedFd>) -> ClientMessage {
    let (kind, word) = (message.kind(), |at| message.word(at));
    let (purpose, kind_of_wake_fd) = (Purpose::from_word(word(5)), WakeFdKind::from_word(word(4)));
    let way = Way::from_word(word(5));
    match (kind, fds.len()) {
        (KIND_HELLO, 0 | 1) => {
            let wanted = (word(3) != NONE).then_some(word(3));
            let membership = message.membership(HELLO_MEMBERSHIP_AT);
            let program = message.program(HELLO_PROGRAM_AT);
            ClientMessage::Hello { token: message.key(), wanted, membership, name: word(4), socket: fds.pop(), program }
        }
        (KIND_CONTEXT, 0) if word(3) < CONTEXTS && kind_of_wake_fd.is_some() => {
            let (key, kind) = (message.key(), kind_of_wake_fd.expect("it has just been seen"));
            ClientMessage::Context { context: word(3), key: (key != WakeFdKey::default()).then_some(key), kind }
        }
        (KIND_CLAIM, 1) if purpose.is_some() => {
            let slot = SlotRef { index: word(3), generation: word(4) };
            let (purpose, socket) = purpose.zip(fds.pop()).expect("both have just been seen");
            ClientMessage::Claim { slot, purpose, socket }
        }
        (KIND_HANDOVER, 1) if way.is_some() => {
            let slot = SlotRef { index: word(3), generation: word(4) };
            let (way, socket) = way.zip(fds.pop()).expect("both have just been seen");
            ClientMessage::Handover { slot, way, socket }
        }
        (KIND_CHILD, 1) => ClientMessage::Child { process: word(3), pidfd: fds.pop().expect("it has just been seen") },
        (KIND_SETTLE, 0) => ClientMessage::Settle,
        (KIND_WANT, 0) => ClientMessage::Want(message.text()),
        (KIND_HELLO | KIND_CONTEXT | KIND_CLAIM | KIND_HANDOVER | KIND_CHILD | KIND_SETTLE | KIND_WANT, _) => {
            ClientMessage::Nonsense("a message with the wrong descriptors or numbers", fds)
        }
        _ => ClientMessage::Nonsense("a message of unknown kind", fds),
    }
}
