//! Link headers: Ethernet with VLAN tags, Linux cooked captures, BSD loopback, raw IP.
//!
//! Promises: finds where the IP header starts, or says that there is none. Does not do: look at addresses.

const NULL: u32 = 0;
const ETHERNET: u32 = 1;
const RAW_OPENBSD: u32 = 14;
const RAW_BSD: u32 = 12;
const RAW: u32 = 101;
const LOOP: u32 = 108;
const LINUX_SLL: u32 = 113;
const IPV4: u32 = 228;
const IPV6: u32 = 229;
const LINUX_SLL2: u32 = 276;

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad and the number used before it.
const TYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Tags in a row that are looked through.
const TAGS_MAX: usize = 4;

/// What a link header leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The IP header starts this many bytes into the packet.
    Ip(usize),
    /// ARP and the like: nothing that is checked here.
    Other,
    /// A link type that is not known.
    UnknownLink,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// Finds the IP header of a packet of this LINKTYPE.
pub fn content(link_type: u32, bytes: &[u8]) -> Content {
    match link_type {
        ETHERNET => typed(bytes, 12),
        LINUX_SLL => typed(bytes, 14),
        LINUX_SLL2 => match word(bytes, 0) {
            Some(kind) if kind == TYPE_IPV4 || kind == TYPE_IPV6 => Content::Ip(20),
            _ => Content::Other,
        },
        // The word is in the byte order of the machine that captured; the version nibble decides.
        NULL | LOOP => raw(bytes, 4),
        RAW | RAW_BSD | RAW_OPENBSD | IPV4 | IPV6 => raw(bytes, 0),
        _ => Content::UnknownLink,
    }
}

/// An EtherType at `at`, perhaps of a VLAN tag.
fn typed(bytes: &[u8], mut at: usize) -> Content {
    for _ in 0..=TAGS_MAX {
        match word(bytes, at) {
            Some(TYPE_IPV4 | TYPE_IPV6) => return Content::Ip(at + 2),
            Some(kind) if TYPES_VLAN.contains(&kind) => at += 4,
            _ => return Content::Other,
        }
    }
    Content::Other
}

fn raw(bytes: &[u8], at: usize) -> Content {
    match bytes.get(at).map(|byte| byte >> 4) {
        Some(4 | 6) => Content::Ip(at),
        _ => Content::Other,
    }
}

#[cfg(test)]
mod tests;
