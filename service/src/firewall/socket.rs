//! NETLINK_NETFILTER sockets: one that lists, one that hears of changes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringway_device::netlink::{DONE, ERROR, Messages, forget, u32_at};
use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, sendto, socket_with};

use super::wire::{List, Message, Received, list_request, messages};
use super::{Listed, Ruleset};

/// NFNLGRP_NFTABLES, as bind(2) wants it.
const NFTABLES_GROUP: u32 = 1 << 6;
const DATAGRAM_BYTES: usize = 64 << 10;
/// Lists that were interrupted by changes are asked for again this often.
const ATTEMPTS: usize = 8;
/// Rules beyond these are not read: an interface behind so many is the kernel's.
const RULES_MAX: usize = 100_000;
/// Elements of one set that are kept, and of all sets.
const SET_MAX: usize = 4_096;
const ELEMENTS_MAX: usize = 100_000;

/// Readable when rules have changed.
pub(crate) struct Watch(OwnedFd);

impl Watch {
    /// `None`: the kernel has no nf_tables, or does not tell this process.
    pub(crate) fn open() -> Option<Watch> {
        open(NFTABLES_GROUP).ok().map(Watch)
    }

    /// Forgets what was told until now.
    pub(crate) fn drain(&self) {
        forget(self);
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open(groups: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | if groups == 0 { SocketFlags::empty() } else { SocketFlags::NONBLOCK };
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(NETFILTER))?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// All that the kernel has.
///
/// # Errors
/// An error of the kernel. A kernel that has no nf_tables has no chains.
pub(super) fn read() -> io::Result<Ruleset> {
    let mut lister = match open(0) {
        Ok(socket) => Lister { socket, sequence: 0 },
        Err(error) if has_none(&error) => return Ok(Ruleset::default()),
        Err(error) => return Err(error),
    };
    for _ in 0..ATTEMPTS {
        match lister.read_once() {
            Ok(Some(listed)) => return listed.assemble().ok_or_else(|| io::Error::other("they do not fit together")),
            // What is asked for may have gone meanwhile.
            Ok(None) => {}
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {}
            Err(error) if has_none(&error) => return Ok(Ruleset::default()),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("they change too fast"))
}

/// nfnetlink answers EINVAL for a subsystem that is neither built in nor to be loaded.
fn has_none(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::INVAL | Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT | Errno::OPNOTSUPP))
}

/// Hands each message of the answer to a request for a list to `take`: its kind and its body.
///
/// # Errors
/// An error of the kernel, also that it does not have such a list.
pub(super) fn list(request: &dyn Fn(u32) -> Vec<u8>, take: &mut dyn FnMut(u16, &[u8])) -> io::Result<()> {
    const SEQUENCE: u32 = 1;
    let socket = open(0)?;
    sendto(&socket, &request(SEQUENCE), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let datagram = receive(&socket, &mut buffer)?;
        for one in Messages(datagram).filter(|one| one.sequence == SEQUENCE) {
            match (one.kind, u32_at(one.body, 0).map(u32::cast_signed)) {
                (DONE | ERROR, None | Some(0)) => return Ok(()),
                (DONE | ERROR, Some(errno)) => return Err(io::Error::from_raw_os_error(errno.saturating_neg())),
                (kind, _) => take(kind, one.body),
            }
        }
    }
}

/// The next datagram of the kernel; empty: it is another sender's, or a signal came.
fn receive<'a>(socket: &OwnedFd, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let len = match recvfrom(socket, &mut *buffer, RecvFlags::empty()) {
        Ok((_, len, from)) => {
            let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
            if from.is_some_and(|from| from.pid() == 0) { len } else { 0 }
        }
        Err(Errno::INTR) => 0,
        Err(error) => return Err(error.into()),
    };
    Ok(&buffer[..len])
}

/// Asks and waits for answers.
struct Lister {
    socket: OwnedFd,
    sequence: u32,
}

impl Lister {
    /// `None`: interrupted by a change.
    fn read_once(&mut self) -> io::Result<Option<Listed>> {
        let Some(before) = self.generation()? else { return Ok(None) };
        let mut listed = Listed::default();
        for list in [List::Chains, List::Rules, List::Sets] {
            let Some(found) = self.dump(list)? else { return Ok(None) };
            found.into_iter().for_each(|message| listed.take(message));
        }
        let mut room = ELEMENTS_MAX;
        for place in listed.wanted_sets() {
            if room == 0 {
                // They stay without elements: large sets.
                break;
            }
            let Some(found) = self.dump(List::Elements(&listed.sets[place].0))? else { return Ok(None) };
            let elements: Vec<_> = found
                .into_iter()
                .filter_map(|message| if let Message::Elements(_, found) = message { Some(found) } else { None })
                .flatten()
                .collect();
            if elements.len() <= SET_MAX.min(room) {
                room -= elements.len();
                listed.sets[place].1 = Some(elements);
            }
        }
        Ok((self.generation()? == Some(before)).then_some(listed))
    }

    fn generation(&mut self) -> io::Result<Option<u32>> {
        let found = self.dump(List::Generation)?;
        Ok(found
            .into_iter()
            .flatten()
            .find_map(|message| if let Message::Generation(number) = message { Some(number) } else { None }))
    }

    fn dump(&mut self, list: List<'_>) -> io::Result<Option<Vec<Message>>> {
        self.sequence += 1;
        sendto(&self.socket, &list_request(list, self.sequence), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let (mut found, mut consistent, mut buffer) = (Vec::new(), true, vec![0; DATAGRAM_BYTES]);
        loop {
            let datagram = receive(&self.socket, &mut buffer)?;
            for Received { sequence: of, interrupted, message } in messages(datagram) {
                if of != self.sequence {
                    continue;
                }
                consistent &= !interrupted;
                match message {
                    Message::Done(0) | Message::Error(0) => return Ok(consistent.then_some(found)),
                    Message::Done(errno) | Message::Error(errno) => {
                        return Err(io::Error::from_raw_os_error(errno.saturating_neg()));
                    }
                    // The only answer that is no list.
                    message @ Message::Generation(_) => return Ok(Some(vec![message])),
                    message => found.push(message),
                }
            }
            if found.len() > RULES_MAX {
                return Err(io::Error::other(format!("there are more than {RULES_MAX}")));
            }
        }
    }
}
