//! Untrusted input on a control connection: messages that are cut, too long, of any content, with descriptors of any kind
//! and count.
//!
//! Input: messages; each says how many of its words are valid, how long it is and which descriptors it carries. At the end
//! no descriptor is left open: the broker's end has dropped all that it received, understood or not.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringway_channel::CONTEXTS;
use ringway_channel::attach::{ClientMessage, ControlConnection, MESSAGE_BYTES};
use ringway_channel::layout::VERSION;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg, socket_with,
    socketpair,
};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::input::Input;

/// Maximum number of messages of one input.
const MESSAGES_MAX: usize = 50;
/// Maximum number of descriptors of one message.
const DESCRIPTORS_MAX: usize = 12;
/// First word of a valid message.
const MAGIC: u32 = 0x5257_4348;
/// Upper bound of the kinds that the contract defines.
const KINDS: u32 = 20;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
            .expect("descriptors are left");
    let connection = ControlConnection::new(ours).expect("the kernel names the peer");
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("descriptors are left");
    let kinds = descriptors(writer);
    for _ in 0..MESSAGES_MAX {
        if input.is_empty() {
            break;
        }
        let message = message(&mut input);
        let count = usize::from(input.byte()) % (DESCRIPTORS_MAX + 1);
        let given: Vec<BorrowedFd<'_>> = (0..count).map(|_| kinds[usize::from(input.byte()) % kinds.len()].as_fd()).collect();
        if send(&theirs, &message, &given) {
            judge(connection.receive().expect("a message is there"), message.len(), count);
        }
    }
    drop(theirs);
    assert!(matches!(connection.receive(), Ok(ClientMessage::Gone)));
    drop(kinds);
    // The end of the pipe: no one holds its writer any more.
    assert_eq!(rustix::io::read(&reader, &mut [0; 1]), Ok(0), "a descriptor was kept");
}

/// Checks that the parsed message fits the length and the descriptor count that were sent.
fn judge(understood: ClientMessage, len: usize, count: usize) {
    let whole = len == MESSAGE_BYTES;
    match understood {
        ClientMessage::Hello { socket, .. } => assert!(whole && usize::from(socket.is_some()) == count),
        ClientMessage::Claim { .. } | ClientMessage::Handover { .. } | ClientMessage::Child { .. } => {
            assert!(whole && count == 1)
        }
        ClientMessage::Settle | ClientMessage::Want(_) => assert!(whole && count == 0),
        ClientMessage::Context { context, .. } => assert!(whole && count == 0 && context < CONTEXTS),
        ClientMessage::Nonsense(text, descriptors) => assert!(!text.is_empty() && descriptors.len() <= count),
        ClientMessage::Gone => assert_eq!(len, 0),
    }
}

/// Makes a message that is valid in some parts.
fn message(input: &mut Input<'_>) -> Vec<u8> {
    let honesty = input.byte();
    let mut message = vec![0; MESSAGE_BYTES];
    let len = usize::from(input.byte());
    let content = input.take(len);
    message[..content.len()].copy_from_slice(content);
    let mut set = |at: usize, word: u32| message[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
    if honesty & 1 == 0 {
        set(0, MAGIC);
    }
    if honesty & 2 == 0 {
        set(1, VERSION);
    }
    if honesty & 4 == 0 {
        set(2, u32::from(input.byte()) % KINDS);
    }
    match honesty >> 6 {
        1 => message.truncate(usize::from(input.byte())),
        2 => message.resize(MESSAGE_BYTES + usize::from(input.word()), 0xff),
        _ => {}
    }
    message
}

fn send(socket: &OwnedFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors)));
    sendmsg(socket, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL).is_ok()
}

/// Makes descriptors of many kinds, among them the writer of the pipe.
fn descriptors(writer: OwnedFd) -> Vec<OwnedFd> {
    let socket = |family, kind| socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("descriptors are left");
    vec![
        writer,
        eventfd(0, EventfdFlags::CLOEXEC).expect("descriptors are left"),
        memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("descriptors are left"),
        socket(AddressFamily::INET, SocketType::STREAM),
        socket(AddressFamily::INET6, SocketType::DGRAM),
        socket(AddressFamily::UNIX, SocketType::SEQPACKET),
    ]
}
