//! What F-Stack does with its own interfaces, on those of the machine: routes, traffic, packets.

use std::fs;
use std::net::IpAddr;
use std::sync::Once;

use libc::{c_int, c_void, sockaddr, sockaddr_in};
use ringway_cabi::{Answer, Errno, call, checked, give};

use crate::config;

/// `enum FF_ROUTE_CTL`
const ADD: c_int = 0;
const DELETE: c_int = 1;
const CHANGE: c_int = 2;
/// `enum FF_ROUTE_FLAG`
const HOST: c_int = 0;

/// Changes the kernel's table of routes, which Ringway follows. Takes CAP_NET_ADMIN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_route_ctl(
    request: c_int,
    flag: c_int,
    to: *const sockaddr,
    gateway: *const sockaddr,
    mask: *const sockaddr,
) -> c_int {
    // SAFETY: as the crate says.
    give(unsafe { route(flag, to, gateway, mask) }.and_then(|route| match request {
        ADD => change_routes(libc::SIOCADDRT, &route),
        DELETE => change_routes(libc::SIOCDELRT, &route),
        CHANGE => {
            let without_gateway = libc::rtentry { rt_gateway: inet(0), rt_flags: route.rt_flags & !libc::RTF_GATEWAY, ..route };
            change_routes(libc::SIOCDELRT, &without_gateway)?;
            change_routes(libc::SIOCADDRT, &route)
        }
        _ => Err(Errno(libc::EINVAL)),
    }))
}

/// # Safety
/// As the crate says.
unsafe fn route(flag: c_int, to: *const sockaddr, gateway: *const sockaddr, mask: *const sockaddr) -> Answer<libc::rtentry> {
    // SAFETY: a structure of all zeros is one; addresses are null or the caller's.
    unsafe {
        let mut route: libc::rtentry = std::mem::zeroed();
        route.rt_dst = address(to)?.ok_or(Errno(libc::EINVAL))?;
        route.rt_flags = libc::RTF_UP;
        match address(mask)? {
            Some(mask) if flag != HOST => route.rt_genmask = mask,
            None if flag != HOST => route.rt_genmask = inet(0),
            _ => {
                route.rt_flags |= libc::RTF_HOST;
                route.rt_genmask = inet(u32::MAX);
            }
        }
        if let Some(gateway) = address(gateway)? {
            route.rt_flags |= libc::RTF_GATEWAY;
            route.rt_gateway = gateway;
        }
        Ok(route)
    }
}

/// # Safety
/// As the crate says.
unsafe fn address(given: *const sockaddr) -> Answer<Option<sockaddr>> {
    // SAFETY: it is null or the caller's.
    match unsafe { given.as_ref() } {
        Some(address) if c_int::from(address.sa_family) != libc::AF_INET => Err(Errno(libc::EAFNOSUPPORT)),
        given => Ok(given.copied()),
    }
}

fn inet(address: u32) -> sockaddr {
    let address = sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: address },
        sin_zero: [0; 8],
    };
    // SAFETY: both have sixteen bytes.
    unsafe { std::mem::transmute(address) }
}

fn change_routes(request: libc::c_ulong, route: &libc::rtentry) -> Answer<c_int> {
    // SAFETY: the entry lives until the call returns; the socket is closed.
    unsafe {
        let fd = checked(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        let done = checked(libc::ioctl(fd, request as _, std::ptr::from_ref(route)));
        libc::close(fd);
        done.map(|_| 0)
    }
}

/// FreeBSD's routing messages are not translated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_rtioctl(_: c_int, _: *mut c_void, _: *mut u32, _: u32) -> c_int {
    give(Err(Errno(libc::EOPNOTSUPP)))
}

/// `struct ff_traffic_args`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Traffic {
    rx_packets: u64,
    rx_bytes: u64,
    tx_packets: u64,
    tx_bytes: u64,
}

/// The machine's interfaces together, without `lo`.
fn traffic(table: &str) -> Traffic {
    let mut sum = Traffic::default();
    for (name, counts) in table.lines().filter_map(|line| line.split_once(':')) {
        let counts: Vec<u64> = counts.split_whitespace().map_while(|count| count.parse().ok()).collect();
        if let (false, [rx_bytes, rx_packets, _, _, _, _, _, _, tx_bytes, tx_packets, ..]) = (name.trim() == "lo", &counts[..]) {
            sum.rx_packets += rx_packets;
            sum.rx_bytes += rx_bytes;
            sum.tx_packets += tx_packets;
            sum.tx_bytes += tx_bytes;
        }
    }
    sum
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_get_traffic(to: *mut c_void) {
    let counted = fs::read_to_string("/proc/self/net/dev").map_or(Traffic::default(), |table| traffic(&table));
    call!(to.cast::<Traffic>().write_unaligned(counted));
}

/// Sends a frame as it is, from the interface of `[portN]` in config.ini. Takes CAP_NET_RAW.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_dpdk_raw_packet_send(frame: *const c_void, len: c_int, port: u16) -> c_int {
    give(interface_of(port).and_then(|interface| {
        let len = usize::try_from(len).map_err(|_| Errno(libc::EINVAL))?;
        // SAFETY: a structure of all zeros is one; it and the frame live until the calls return; the socket is closed.
        unsafe {
            let mut to: libc::sockaddr_ll = std::mem::zeroed();
            to.sll_family = libc::AF_PACKET as u16;
            to.sll_ifindex = interface;
            let fd = checked(libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0))?;
            let size = size_of_val(&to) as libc::socklen_t;
            let sent = checked(libc::sendto(fd, frame, len, 0, (&raw const to).cast(), size));
            libc::close(fd);
            sent.map(|_| 0)
        }
    }))
}

/// The number of the interface that has the address of a port.
fn interface_of(port: u16) -> Answer<c_int> {
    let wanted = config::address_of(port).ok_or(Errno(libc::ENODEV))?;
    let mut list = std::ptr::null_mut();
    checked(call!(libc::getifaddrs(&raw mut list)))?;
    let (mut entry, mut found) = (list, 0);
    // SAFETY: the list is libc's, and is given back behind the loop.
    unsafe {
        while let Some(interface) = entry.as_ref() {
            if ip_of(interface.ifa_addr) == Some(wanted) {
                found = libc::if_nametoindex(interface.ifa_name) as c_int;
                break;
            }
            entry = interface.ifa_next;
        }
        libc::freeifaddrs(list);
    }
    if found > 0 { Ok(found) } else { Err(Errno(libc::ENODEV)) }
}

/// # Safety
/// The address is null or one of its family's.
unsafe fn ip_of(address: *const sockaddr) -> Option<IpAddr> {
    // SAFETY: as the function says.
    unsafe {
        match c_int::from(address.as_ref()?.sa_family) {
            libc::AF_INET => {
                let address = address.cast::<sockaddr_in>().read_unaligned();
                Some(IpAddr::V4(u32::from_be(address.sin_addr.s_addr).into()))
            }
            libc::AF_INET6 => Some(IpAddr::V6(address.cast::<libc::sockaddr_in6>().read_unaligned().sin6_addr.s6_addr.into())),
            _ => None,
        }
    }
}

/// Packets come to the service, which knows no functions of programs.
fn say_no_dispatcher() {
    static SAID: Once = Once::new();
    SAID.call_once(|| eprintln!("f-stack: packets are the service's: the program's packet dispatcher is never called"));
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_regist_packet_dispatcher(_: *const c_void) {
    say_no_dispatcher();
}

#[unsafe(no_mangle)]
pub extern "C" fn ff_regist_packet_dispatcher_context(_: *const c_void) {
    say_no_dispatcher();
}

#[cfg(test)]
mod tests;
