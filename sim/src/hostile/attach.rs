//! Lies in the attach protocol: messages of any length and kind, with any descriptors.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use ringway_channel::attach::MESSAGE_BYTES;
use ringway_channel::layout::VERSION;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with, sockopt,
};
use rustix::pipe::pipe;

use super::Round;

const MAGIC: u32 = 0x5257_4348;
/// Kind of a process's first message.
const HELLO: u32 = 1;
/// Offset of the token in a hello.
const TOKEN_AT: usize = 48;
/// Kinds that a service knows, and some that it does not.
const KINDS: u64 = 24;
/// More descriptors than any valid message has.
const DESCRIPTORS: usize = 8;

/// A connection to the service that takes any bytes.
pub(super) struct Raw(OwnedFd);

impl Raw {
    pub(super) fn connect(path: &Path) -> io::Result<Raw> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(std::time::Duration::from_secs(2)))?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Raw(socket))
    }

    pub(super) fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Sends a hello for a group, with a socket that identifies this process's network namespace.
    pub(super) fn greet(&self, token: [u8; 16]) -> io::Result<()> {
        let shown = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        self.send(&hello(token), &[shown.as_fd()])
    }

    /// Returns the descriptors of the service's answer; none at the end of the connection.
    pub(super) fn receive(&self) -> io::Result<Vec<OwnedFd>> {
        let mut bytes = [0; MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        Ok(descriptors)
    }
}

/// Makes a well-formed hello for a group.
fn hello(token: [u8; 16]) -> [u8; MESSAGE_BYTES] {
    let mut message = [0; MESSAGE_BYTES];
    for (at, word) in [MAGIC, VERSION, HELLO, u32::MAX].into_iter().enumerate() {
        message[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
    }
    message[TOKEN_AT..TOKEN_AT + 16].copy_from_slice(&token);
    message
}

pub(super) fn play(round: &mut Round) -> io::Result<()> {
    let descriptors = descriptors()?;
    while round.goes_on() {
        let connection = Raw::connect(&round.socket)?;
        if round.random.number().is_multiple_of(2) {
            let token = round.token();
            connection.greet(token)?;
            connection.receive()?;
        }
        for _ in 0..round.random.number() % 6 {
            let message = lie(round);
            let count = (round.random.number() % (DESCRIPTORS as u64 + 1)) as usize;
            let chosen: Vec<BorrowedFd<'_>> =
                (0..count).map(|_| descriptors[(round.random.number() % descriptors.len() as u64) as usize].as_fd()).collect();
            // The service ends a connection whose message is invalid.
            if connection.send(&message, &chosen).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// Makes a message that is valid in some parts.
fn lie(round: &mut Round) -> Vec<u8> {
    let mut message = vec![0; MESSAGE_BYTES];
    for word in message.chunks_exact_mut(8) {
        word.copy_from_slice(&round.word().to_le_bytes());
    }
    let mut set = |at: usize, word: u32| message[at * 4..at * 4 + 4].copy_from_slice(&word.to_le_bytes());
    let chance = round.random.number();
    if !chance.is_multiple_of(8) {
        set(0, MAGIC);
    }
    if !(chance >> 8).is_multiple_of(8) {
        set(1, VERSION);
    }
    set(2, ((chance >> 16) % KINDS) as u32);
    if (chance >> 24).is_multiple_of(4) {
        message.truncate((chance >> 32) as usize % (MESSAGE_BYTES + 1));
    } else if (chance >> 24) % 16 == 1 {
        message.resize(MESSAGE_BYTES * 3, 0xff);
    }
    message
}

/// Makes descriptors that a service must not wait on, write to or map: each blocks or fails in its own way.
fn descriptors() -> io::Result<Vec<OwnedFd>> {
    let (read, write) = pipe()?;
    let full = eventfd(0, EventfdFlags::empty())?;
    // One less than the largest: the next write of 1 succeeds, the one after it blocks.
    rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes())?;
    let memory = memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let stream = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let datagram = socket_with(AddressFamily::INET6, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let local = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok(vec![read, write, full, memory, stream, datagram, local, File::open("/dev/null")?.into(), File::open("/")?.into()])
}
