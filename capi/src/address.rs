//! Reads and writes `struct sockaddr`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ptr;

use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::answer::{Answer, Errno};

/// Reads an address; EINVAL when it is too short, EAFNOSUPPORT for other families.
pub(crate) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Answer<SocketAddr> {
    if address.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    if (len as usize) < size_of::<libc::sa_family_t>() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: `len` says that the family is there; it need not be aligned.
    let family = unsafe { ptr::read_unaligned(address.cast::<libc::sa_family_t>()) };
    match i32::from(family) {
        libc::AF_INET if len as usize >= size_of::<sockaddr_in>() => {
            // SAFETY: `len` says that all of it is there.
            let v4 = unsafe { ptr::read_unaligned(address.cast::<sockaddr_in>()) };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 if len as usize >= size_of::<sockaddr_in6>() => {
            // SAFETY: `len` says that all of it is there.
            let v6 = unsafe { ptr::read_unaligned(address.cast::<sockaddr_in6>()) };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Ok(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        libc::AF_INET | libc::AF_INET6 => Err(Errno(libc::EINVAL)),
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// Writes an address, truncated to `*len`, and its full length to `*len`, as accept(2). Does nothing when `address` is null.
pub(crate) unsafe fn write(from: SocketAddr, address: *mut sockaddr, len: *mut socklen_t) -> Answer<()> {
    if address.is_null() {
        return Ok(());
    }
    if len.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    match from {
        SocketAddr::V4(v4) => {
            let whole = sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: as this function's caller.
            unsafe { put(&whole, address, len) };
        }
        SocketAddr::V6(v6) => {
            let whole = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as this function's caller.
            unsafe { put(&whole, address, len) };
        }
    }
    Ok(())
}

unsafe fn put<T>(whole: &T, address: *mut sockaddr, len: *mut socklen_t) {
    let bytes = size_of::<T>();
    // SAFETY: `len` says how many bytes fit at `address`; `whole` is plain data of `bytes` bytes.
    unsafe {
        let room = (*len as usize).min(bytes);
        ptr::copy_nonoverlapping(ptr::from_ref(whole).cast::<u8>(), address.cast::<u8>(), room);
        *len = bytes as socklen_t;
    }
}
