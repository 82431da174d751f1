//! Whose kernel sockets use a port: the lines of /proc/net/tcp and tcp6, udp and udp6 (proc(5)).
//!
//! The whole table is read, which takes time in proportion to the machine's connections: not for a thread that serves others.
//! Does not do: sockets of TCP that are only bound; the kernel does not tell of them, and they get no packets.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ringway_engine::Transport;

/// Linux's number of the state TIME-WAIT, in which a connection has no user any more.
const TIME_WAIT: &str = "06";
const LISTEN: &str = "0A";

/// A kernel socket that has the port in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    /// IPv4-mapped ones as IPv4.
    ip: IpAddr,
    user: u32,
    inode: u64,
}

/// Returns true if a user other than `uid` has a kernel socket, other than the one with `inode`, whose packets come to `local` too.
pub(crate) fn others(transport: Transport, local: SocketAddr, dual_stack: bool, (uid, inode): (u32, u64)) -> io::Result<bool> {
    let tables = match transport {
        Transport::Tcp => ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"],
        Transport::Udp => ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"],
    };
    for table in tables {
        let holders = match File::open(table) {
            Ok(file) => read(BufReader::new(file), local.port())?,
            // No IPv6 in this kernel.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let foreign = |holder: &Holder| holder.user != uid && holder.inode != inode;
        if holders.iter().any(|holder| foreign(holder) && meets(holder.ip, local.ip(), dual_stack)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if packets to one address can be for a socket on the other. A wildcard of IPv6 may serve IPv4; the table does not say.
fn meets(holder: IpAddr, ip: IpAddr, dual_stack: bool) -> bool {
    let wild = |one: IpAddr, other: IpAddr| one.is_unspecified() && (one.is_ipv4() == other.is_ipv4() || one.is_ipv6());
    holder == ip || wild(holder, ip) || (ip.is_unspecified() && (ip.is_ipv4() == holder.is_ipv4() || dual_stack))
}

/// The ports of TCP on which the kernel listens, for more than loopback.
pub(crate) fn listening() -> BTreeSet<u16> {
    let mut ports = BTreeSet::new();
    // No IPv6 in this kernel, or no table at all: no ports.
    for file in ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"].iter().filter_map(|table| File::open(table).ok()) {
        for line in BufReader::new(file).lines().skip(1).map_while(Result::ok) {
            let mut fields = line.split_ascii_whitespace().skip(1);
            if let (Some(local), Some(state)) = (fields.next(), fields.nth(1))
                && let Some((_, port)) = endpoint(local).filter(|(ip, _)| state == LISTEN && !ip.is_loopback())
            {
                ports.insert(port);
            }
        }
    }
    ports
}

/// The sockets of one table that have `port`.
fn read(table: impl BufRead, port: u16) -> io::Result<Vec<Holder>> {
    let mut found = Vec::new();
    for line in table.lines().skip(1) {
        let line = line?;
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (Some(local), Some(state), Some(user), Some(inode)) = (fields.next(), fields.nth(1), fields.nth(3), fields.nth(1))
        else {
            continue;
        };
        if let (Some((ip, on)), Ok(user), Ok(inode)) = (endpoint(local), user.parse(), inode.parse())
            && on == port
            && state != TIME_WAIT
        {
            found.push(Holder { ip, user, inode });
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
