//! Whose kernel sockets listen on a port: the lines of /proc/net/tcp and tcp6, udp and udp6 (proc(5)).
//!
//! Promises: of TCP reads no further than the listeners, which the kernel lists first. Does not do: sockets
//! of TCP that are only bound; the kernel does not tell of them. Of UDP all that are bound are told of.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ringway::Transport;

/// Linux's number of the state LISTEN.
const LISTEN: &str = "0A";

/// A kernel socket that listens on the port in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listener {
    /// IPv4-mapped ones as IPv4.
    ip: IpAddr,
    user: u32,
}

/// Users whose kernel sockets serve `ip`:`port`.
pub(super) fn users(transport: Transport, ip: IpAddr, port: u16) -> io::Result<Vec<u32>> {
    let (v4, v6) = match transport {
        Transport::Tcp => ("/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"),
        Transport::Udp => ("/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"),
    };
    Ok(serving(ip, &listeners(transport, v4, port)?, &listeners(transport, v6, port)?))
}

/// The table does not say whether a socket on `::` serves IPv4 too. Where an IPv4 socket listens on the port it does
/// not: the kernel would have refused the second of them.
fn serving(ip: IpAddr, v4: &[Listener], v6: &[Listener]) -> Vec<u32> {
    let speaks = |listener: &&Listener| match ip {
        IpAddr::V6(_) => listener.ip.is_ipv6(),
        IpAddr::V4(_) => listener.ip.is_ipv4() || v4.is_empty(),
    };
    let serves = |listener: &&Listener| listener.ip == ip || listener.ip.is_unspecified();
    v4.iter().chain(v6).filter(speaks).filter(serves).map(|listener| listener.user).collect()
}

fn listeners(transport: Transport, table: &str, port: u16) -> io::Result<Vec<Listener>> {
    match File::open(table) {
        Ok(file) => read(transport, BufReader::new(file), port),
        // No IPv6 in this kernel.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The listeners on `port` of one table.
fn read(transport: Transport, table: impl BufRead, port: u16) -> io::Result<Vec<Listener>> {
    let mut found = Vec::new();
    for line in table.lines().skip(1) {
        let line = line?;
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (Some(local), Some(state), Some(user)) = (fields.next(), fields.nth(1), fields.nth(3)) else { continue };
        if transport == Transport::Tcp && state != LISTEN {
            break;
        }
        if let (Some((ip, on)), Ok(user)) = (endpoint(local), user.parse())
            && on == port
        {
            found.push(Listener { ip, user });
        }
    }
    Ok(found)
}

/// `0100007F:0050`: words of the address in the machine's order, then the port.
fn endpoint(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, place) in bytes.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&word(at)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some((ip, port))
}

#[cfg(test)]
mod tests;
