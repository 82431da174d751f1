//! Whose kernel sockets listen on a port: the lines of /proc/net/tcp and tcp6 (proc(5)).
//!
//! Promises: reads no further than the listeners, which the kernel lists first. Does not do: sockets
//! that are only bound; the kernel does not tell of them.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Linux's number of the state LISTEN.
const LISTEN: &str = "0A";

/// Users whose kernel sockets listen on `ip`:`port`, or on all addresses.
pub(super) fn users(ip: IpAddr, port: u16) -> io::Result<Vec<u32>> {
    let mut users = Vec::new();
    for table in ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"] {
        match File::open(table) {
            Ok(file) => collect(BufReader::new(file), ip, port, &mut users)?,
            // No IPv6 in this kernel.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(users)
}

/// Adds the users of the listeners of one table.
fn collect(table: impl BufRead, ip: IpAddr, port: u16, users: &mut Vec<u32>) -> io::Result<()> {
    for line in table.lines().skip(1) {
        let line = line?;
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (Some(local), Some(state), Some(user)) = (fields.next(), fields.nth(1), fields.nth(3)) else { continue };
        if state != LISTEN {
            break;
        }
        let serves = endpoint(local).is_some_and(|(at, on)| on == port && (at == ip || at.is_unspecified()));
        if let (true, Ok(user)) = (serves, user.parse()) {
            users.push(user);
        }
    }
    Ok(())
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
