//! Converts C's structures to values and back. Every pointer is the tool's: C's own contract of the call guarantees it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::{iovec, msghdr, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

/// Returns the address that a `sockaddr` names; a v4-mapped address becomes an IPv4 address.
///
/// # Safety
/// `address` is null or has `len` bytes.
pub(crate) unsafe fn read_address(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr, i32> {
    if (len as usize) < size_of::<sockaddr_in>() {
        return Err(libc::EINVAL);
    }
    if address.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: at least the bytes of a `sockaddr_in` are there, by the length.
    let plain = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
    let port = u16::from_be(plain.sin_port);
    match i32::from(plain.sin_family) {
        libc::AF_INET => Ok(SocketAddr::new(Ipv4Addr::from_bits(u32::from_be(plain.sin_addr.s_addr)).into(), port)),
        libc::AF_INET6 if len as usize >= size_of::<sockaddr_in6>() => {
            // SAFETY: the length says that a `sockaddr_in6` is there.
            let wide = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(wide.sin6_addr.s6_addr);
            Ok(SocketAddr::new(ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4), port))
        }
        _ => Err(libc::EAFNOSUPPORT),
    }
}

/// Returns true when the address family is AF_UNSPEC, with which connect(2) dissolves a connection.
///
/// # Safety
/// `address` is null or has `len` bytes.
pub(crate) unsafe fn is_unspecified_family(address: *const sockaddr, len: socklen_t) -> bool {
    // SAFETY: the length says that the family is there.
    !address.is_null() && len as usize >= 2 && i32::from(unsafe { (*address).sa_family }) == libc::AF_UNSPEC
}

/// Writes one control message with an int as the only content of `message`'s control buffer; none when it does not fit.
///
/// # Safety
/// `message` is valid, and its control buffer has the length that it says.
pub(crate) unsafe fn put_control(message: *mut msghdr, level: i32, kind: i32, value: i32) {
    let len = size_of::<i32>() as u32;
    // SAFETY: the buffer has room for the header and the value when it is as long as CMSG_SPACE says; CMSG_FIRSTHDR names
    // its beginning.
    unsafe {
        let room = (*message).msg_controllen;
        (*message).msg_controllen = 0;
        if (*message).msg_control.is_null() || room < libc::CMSG_SPACE(len) as usize {
            return;
        }
        (*message).msg_controllen = libc::CMSG_SPACE(len) as usize;
        let header = libc::CMSG_FIRSTHDR(message);
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(len) as usize;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(value);
    }
}

/// Writes an address in the socket's family, cut to the size of `out`.
///
/// # Safety
/// `out` is null or has `*len` bytes; `len` is null or valid.
pub(crate) unsafe fn write_address(address: SocketAddr, inet6: bool, out: *mut sockaddr, len: *mut socklen_t) {
    if out.is_null() || len.is_null() {
        return;
    }
    let family = if inet6 { libc::AF_INET6 } else { libc::AF_INET };
    let mut bytes = vec![0; if inet6 { size_of::<sockaddr_in6>() } else { size_of::<sockaddr_in>() }];
    bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) if inet6 => bytes[8..24].copy_from_slice(&ip.to_ipv6_mapped().octets()),
        IpAddr::V4(ip) => bytes[4..8].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) if inet6 => bytes[8..24].copy_from_slice(&ip.octets()),
        IpAddr::V6(_) => {}
    }
    // SAFETY: `len` is valid, and `out` has as many bytes as it says.
    unsafe {
        let room = (*len as usize).min(bytes.len());
        out.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), room);
        *len = bytes.len() as socklen_t;
    }
}

/// Returns the bytes of `count` pieces, concatenated.
///
/// # Safety
/// `pieces` has `count` entries, each of which names readable memory.
pub(crate) unsafe fn gather(pieces: *const iovec, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in 0..count {
        // SAFETY: the entry is one of `count`; its memory is readable.
        unsafe {
            let piece = pieces.add(index).read();
            bytes.extend_from_slice(&copy_in(piece.iov_base, piece.iov_len));
        }
    }
    bytes
}

/// Returns the total size of the pieces, bytes.
///
/// # Safety
/// `pieces` has `count` entries.
pub(crate) unsafe fn room(pieces: *const iovec, count: usize) -> usize {
    // SAFETY: the entry is one of `count`.
    (0..count).map(|index| unsafe { pieces.add(index).read() }.iov_len).fold(0, usize::saturating_add)
}

/// Distributes `bytes` over the pieces.
///
/// # Safety
/// `pieces` has `count` entries, each of which names writable memory.
pub(crate) unsafe fn scatter(mut bytes: &[u8], pieces: *const iovec, count: usize) {
    for index in 0..count {
        // SAFETY: the entry is one of `count`; no more than its length is written.
        unsafe {
            let piece = pieces.add(index).read();
            let (now, later) = bytes.split_at(bytes.len().min(piece.iov_len));
            copy_out(now, piece.iov_base.cast());
            bytes = later;
        }
    }
}

/// Copies `len` bytes at `from`; returns zeros when it is null.
///
/// # Safety
/// `from` is null or has `len` readable bytes.
pub(crate) unsafe fn copy_in(from: *const core::ffi::c_void, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    if !from.is_null() {
        // SAFETY: `from` has `len` bytes, and the vector was made with as many.
        unsafe { from.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
    }
    bytes
}

/// Writes `bytes` to `to`, unless `to` is null.
///
/// # Safety
/// `to` is null or has room for them.
pub(crate) unsafe fn copy_out(bytes: &[u8], to: *mut u8) {
    if !to.is_null() {
        // SAFETY: there is room for all of them.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

#[cfg(test)]
mod tests;
