//! Tells that settings of some interface have changed: ethtool's notifications. Read Documentation/networking/ethtool-netlink first.
//!
//! The number of queues changes without a message of rtnetlink. Promises: what is changed after [`SettingsWatch::open`] makes the
//! watch readable. Does not do: say what has changed; its reader compares.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, sendto, socket_with};

use super::sys;
use crate::netlink::{Attributes, Messages, REQUEST, attribute, forget, message, put, text, u32_at};

/// GENL_ID_CTRL: the family that knows the others.
const CONTROL: u16 = 0x10;
/// `struct genlmsghdr` of CTRL_CMD_GETFAMILY, version 1.
const GET_FAMILY: [u8; 4] = [3, 1, 0, 0];
const FAMILY_NAME: u16 = 2;
const GROUPS: u16 = 7;
const GROUP_NAME: u16 = 1;
const GROUP_NUMBER: u16 = 2;

/// Readable when settings have changed.
#[derive(Debug)]
pub struct SettingsWatch(OwnedFd);

impl SettingsWatch {
    /// Hears of interfaces of the calling thread's namespace from now on.
    ///
    /// # Errors
    /// The kernel has no netlink for ethtool (it came with Linux 5.6), or does not tell this process.
    pub fn open() -> io::Result<SettingsWatch> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(GENERIC))?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        sys::join(&socket, monitor_group(&socket)?)?;
        Ok(SettingsWatch(socket))
    }

    /// Forgets what was told until now.
    pub fn drain(&self) {
        forget(self);
    }
}

impl AsFd for SettingsWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The number of ethtool's group `monitor`. The kernel answers before it takes the next call.
fn monitor_group(socket: &OwnedFd) -> io::Result<u32> {
    let mut body = GET_FAMILY.to_vec();
    put(&mut body, FAMILY_NAME, b"ethtool\0");
    sendto(socket, &message(CONTROL, REQUEST, 1, &body), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut buffer = vec![0; 64 << 10];
    let (_, len, _) = recvfrom(socket, buffer.as_mut_slice(), RecvFlags::empty())?;
    let answer = Messages(&buffer[..len]).find(|message| message.kind == CONTROL).map(|message| message.body);
    let attributes = answer.and_then(|body| body.get(GET_FAMILY.len()..)).unwrap_or(&[]);
    let mut groups = Attributes(attribute(attributes, GROUPS).unwrap_or(&[])).map(|(_, group)| group);
    let monitor = groups.find(|group| attribute(group, GROUP_NAME).is_some_and(|name| text(name) == "monitor"));
    let number = monitor.and_then(|group| u32_at(attribute(group, GROUP_NUMBER)?, 0));
    number.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "the kernel has no notifications of ethtool"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::interface::Interface;
    use crate::testing::{in_namespace, ip};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(watch: &SettingsWatch) -> bool {
        poll(&mut [PollFd::new(watch, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("a valid descriptor") > 0
    }

    #[test]
    fn it_tells_what_changes_and_forgets_it() {
        in_namespace(|| {
            ip("link add one numtxqueues 2 numrxqueues 2 type veth peer name other");
            let few = Command::new("ethtool").args(["-L", "one", "rx", "1"]).status().expect("ethtool is installed");
            assert!(few.success());
            let watch = SettingsWatch::open().expect("Linux 5.6 and later");
            assert!(!is_readable(&watch));
            let change = Command::new("ethtool").args(["-L", "one", "rx", "2"]).status().expect("ethtool is installed");
            assert!(change.success());
            assert_eq!(Interface::open("one").expect("it was made above").receive_queues, 2);
            assert!(is_readable(&watch));
            watch.drain();
            assert!(!is_readable(&watch));
        });
    }
}
