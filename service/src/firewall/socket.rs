//! NETLINK_NETFILTER sockets: one that lists, one that hears of changes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, sendto, socket_with};

use super::Chain;
use super::wire::{List, Message, Placed, Received, list_request, messages};

/// NFNLGRP_NFTABLES, as bind(2) wants it.
const NFTABLES_GROUP: u32 = 1 << 6;
const DATAGRAM_BYTES: usize = 64 << 10;
/// Notifications that are forgotten at once.
const DATAGRAMS_MAX: usize = 1_024;
/// Lists that were interrupted by changes are asked for again this often.
const ATTEMPTS: usize = 8;
/// Rules beyond these are not read: an interface behind so many is the kernel's.
const RULES_MAX: usize = 100_000;

/// Readable when rules have changed.
pub(crate) struct Watch(OwnedFd);

impl Watch {
    /// `None`: the kernel has no nf_tables, or does not tell this process.
    pub(crate) fn open() -> Option<Watch> {
        open(NFTABLES_GROUP).ok().map(Watch)
    }

    /// Forgets what was told until now.
    pub(crate) fn drain(&self) {
        let mut buffer = [0; 4096];
        // Lost messages (ENOBUFS) are told once; everything is read again anyway. What comes all the time waits for the next turn.
        for _ in 0..DATAGRAMS_MAX {
            if !matches!(recvfrom(&self.0, &mut buffer, RecvFlags::empty()), Ok(_) | Err(Errno::NOBUFS | Errno::INTR)) {
                break;
            }
        }
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

/// All chains with their rules.
///
/// # Errors
/// What the kernel says. A kernel that has no nf_tables has no chains.
pub(super) fn read() -> io::Result<Vec<Chain>> {
    let socket = match open(0) {
        Ok(socket) => socket,
        Err(error) if has_none(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    for attempt in 0..ATTEMPTS as u32 {
        match read_once(&socket, 2 * attempt) {
            Ok(Some(chains)) => return Ok(chains),
            Ok(None) => {}
            Err(error) if has_none(&error) => return Ok(Vec::new()),
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

/// `None`: interrupted by a change.
fn read_once(socket: &OwnedFd, sequence: u32) -> io::Result<Option<Vec<Chain>>> {
    let (mut chains, mut rules) = (Vec::new(), Vec::new());
    for (list, sequence) in [(List::Chains, sequence + 1), (List::Rules, sequence + 2)] {
        let Some(found) = dump(socket, list, sequence)? else { return Ok(None) };
        for message in found {
            match message {
                Message::Chain(chain) => chains.push(chain),
                Message::Rule(rule) => rules.push(rule),
                Message::Done(_) | Message::Error(_) => {}
            }
        }
    }
    for Placed { family, table, chain, rule } in rules {
        let place =
            chains.iter_mut().find(|known: &&mut Chain| (known.family, &known.table, &known.name) == (family, &table, &chain));
        // A chain that came between the two lists.
        let Some(place) = place else { return Ok(None) };
        place.rules.push(rule);
    }
    Ok(Some(chains))
}

fn dump(socket: &OwnedFd, list: List, sequence: u32) -> io::Result<Option<Vec<Message>>> {
    sendto(socket, &list_request(list, sequence), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let (mut found, mut consistent, mut buffer) = (Vec::new(), true, vec![0; DATAGRAM_BYTES]);
    loop {
        let len = match recvfrom(socket, buffer.as_mut_slice(), RecvFlags::empty()) {
            Ok((_, len, from)) => {
                let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
                if from.is_some_and(|from| from.pid() == 0) { len } else { 0 }
            }
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for Received { sequence: of, interrupted, message } in messages(&buffer[..len]) {
            if of != sequence {
                continue;
            }
            consistent &= !interrupted;
            match message {
                Message::Done(0) | Message::Error(0) => return Ok(consistent.then_some(found)),
                Message::Done(errno) | Message::Error(errno) => return Err(io::Error::from_raw_os_error(errno.saturating_neg())),
                message => found.push(message),
            }
        }
        if found.len() > RULES_MAX {
            return Err(io::Error::other(format!("there are more than {RULES_MAX}")));
        }
    }
}
