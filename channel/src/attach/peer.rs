//! Which process is at the other end of a control connection, and in which groups: what the kernel noted when it connected.
//!
//! A process is held by a pidfd and named by a number. The number is the one in the service's PID namespace. A process outside of
//! that namespace has none there: its number is made of its pidfd's inode, which is one for each process (pidfs, Linux 6.9).
//! pidfd_open(2), unix(7). Promises: with Linux 6.5 the pidfd is that of the process that connected, also when its number has been
//! used again since. Does not do: deciding what the process may.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::sys;

/// In numbers of processes that have none in the service's namespace; the kernel's own end at 2^22.
pub(super) const FOREIGN: u32 = 1 << 31;

/// A process that has connected, or was shown.
#[derive(Debug)]
pub struct Peer {
    /// Names the process as long as it lives.
    pub number: u32,
    /// Readable when it is dead.
    pub pidfd: OwnedFd,
}

impl Peer {
    /// The process behind a descriptor that is said to be a pidfd.
    ///
    /// # Errors
    /// `NotFound`: the process has ended. `InvalidInput`: it is no pidfd; the descriptor is given back, as closing a
    /// another user's may block. `Unsupported`: it is of another PID namespace and the kernel has no pidfs.
    pub fn from_pidfd(pidfd: OwnedFd) -> Result<Peer, (io::Error, OwnedFd)> {
        match number_of(pidfd.as_fd()) {
            Ok(number) => Ok(Peer { number, pidfd }),
            Err(error) => Err((error, pidfd)),
        }
    }

    /// Whether the number is none of the service's PID namespace, so that /proc knows nothing of it.
    pub fn is_foreign(number: u32) -> bool {
        number & FOREIGN != 0
    }
}

/// The process that connected `socket`; `number`: as SO_PEERCRED says.
pub(super) fn of_connection(socket: BorrowedFd<'_>, number: u32) -> io::Result<Peer> {
    let pidfd = match sys::peer_pidfd(socket) {
        // Before Linux 6.5 the number is all there is.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            return if number == 0 { Err(no_number()) } else { Ok(Peer { number, pidfd: sys::open_process(number)? }) };
        }
        pidfd => pidfd?,
    };
    let number = if number == 0 { number_of(pidfd.as_fd())? } else { number };
    Ok(Peer { number, pidfd })
}

fn number_of(pidfd: BorrowedFd<'_>) -> io::Result<u32> {
    let described = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
    let number = described.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse::<i32>().ok());
    match number {
        Some(0) => sys::pidfs_inode(pidfd)?.map(foreign_number).ok_or_else(no_number),
        Some(-1) => Err(io::ErrorKind::NotFound.into()),
        Some(number) => u32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput.into()),
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn foreign_number(inode: u64) -> u32 {
    inode as u32 | FOREIGN
}

fn no_number() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "it is in another PID namespace, which takes Linux 6.9")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_by_its_pidfd_and_nothing_else_is() {
        let own = sys::process_number();
        let peer = Peer::from_pidfd(sys::open_process(own).expect("it runs")).expect("it is in this namespace");
        assert_eq!(peer.number, own);
        let (error, _) = Peer::from_pidfd(sys::event_descriptor().expect("descriptors are left")).expect_err("no pidfd");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_dead_process_has_no_number() {
        let mut child = std::process::Command::new("true").spawn().expect("there is a true");
        let pidfd = sys::open_process(child.id()).expect("it is not waited for yet");
        child.wait().expect("it ends");
        let (error, _) = Peer::from_pidfd(pidfd).expect_err("it is dead");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_foreign_number_is_none_of_the_kernels() {
        assert!(Peer::is_foreign(foreign_number(4711)) && !Peer::is_foreign(1 << 22));
    }

    #[test]
    fn processes_have_inodes_of_their_own_or_none() {
        let mut child = std::process::Command::new("true").spawn().expect("there is a true");
        let inode = |number| sys::pidfs_inode(sys::open_process(number).expect("it is there").as_fd()).expect("fstat(2)");
        let (own, other) = (inode(sys::process_number()), inode(child.id()));
        child.wait().expect("it ends");
        assert!(own.is_none() || own != other, "{own:?}");
        assert_eq!(own.is_none(), other.is_none());
    }
}
