//! Opening /dev/net/tun and asking for virtio headers and offloads.

use std::fs::OpenOptions;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::sys::check;

/// Partial checksums and TCP's super-segments.
pub(super) const ALL_OFFLOADS: u32 = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

/// Opens the interface, with these offloads (TUN_F_…); returns the name that the kernel gave it.
pub(super) fn open(name: &str, offloads: u32) -> io::Result<(OwnedFd, String)> {
    let options = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new().read(true).write(true).custom_flags(options).open("/dev/net/tun").map_err(explain)?;
    let fd = OwnedFd::from(file);
    // SAFETY: an ifreq is plain bytes, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("interface name {name:?} has more than 15 bytes")));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
    // SAFETY: TUNSETIFF reads and writes one ifreq.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF as libc::Ioctl, &raw mut request) }).map_err(explain)?;
    // SAFETY: TUNSETOFFLOAD takes a number.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD as libc::Ioctl, libc::c_ulong::from(offloads)) })?;
    let name = request.ifr_name.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8).collect();
    Ok((fd, String::from_utf8(name).map_err(io::Error::other)?))
}

/// Says what would help.
fn explain(error: io::Error) -> io::Error {
    let help = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "a TAP interface needs CAP_NET_ADMIN (run as root)",
        Some(libc::ENOENT | libc::ENODEV) => "the kernel has no TUN/TAP support here (module tun)",
        Some(libc::EBUSY) => "the interface name is in use",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{help}: {error}"))
}
