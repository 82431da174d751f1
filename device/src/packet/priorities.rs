//! Priorities of packets in the queueing discipline of an interface, by the DSCP of their IP header (RFC 2474).
//!
//! The discipline makes bands of them: tc-prio(8), pfifo_fast, and tc-mqprio(8) by its map, the tag of a VLAN interface by `egress-qos-map`. A
//! kernel socket gets its priority from IP_TOS; this table is the same one (`ip_tos2prio`) unless the operator has another. It holds for IPv6
//! too, where the kernel leaves the priority to SO_PRIORITY alone. A packet socket
//! has one priority for what it sends (SO_PRIORITY, socket(7)), so packets of another one go in a call of their own. Promises: packets keep
//! their order. Does not do: priorities above 6, which take CAP_NET_ADMIN at each change.

use ringway_shm::Payload;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// The first byte behind the two of the link's addresses, and the bytes from there to the traffic class's last one.
const ETHERTYPE: usize = 12;
const HEAD: usize = 4;
/// The largest DSCP, and the largest priority that an ordinary user may give.
const DSCP_MAX: u8 = 63;
const PRIORITY_MAX: u8 = 6;

/// The priority of each DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priorities([u8; DSCP_MAX as usize + 1]);

impl Default for Priorities {
    /// As Linux gives them for IP_TOS, of which it looks at the bits that RFC 1349 had for the type of service.
    fn default() -> Priorities {
        const OF_TYPE: [u8; 4] = [0, 2, 6, 4];
        Priorities(std::array::from_fn(|dscp| OF_TYPE[dscp % 8 / 2]))
    }
}

impl Priorities {
    /// Linux's own, but for what `texts` say: `DSCP=PRIORITY` each, with the DSCP as a number or by name.
    ///
    /// # Errors
    /// The text that is wrong, and the right form.
    pub fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Priorities, String> {
        let mut priorities = Priorities::default();
        for text in texts {
            let (dscp, priority) = text.split_once('=').unwrap_or((text, ""));
            let Some(dscp) = read_dscp(dscp.trim()) else {
                return Err(format!("{text:?} names no DSCP: 0 to {DSCP_MAX}, EF, VA, LE, CS0 to CS7, AF11 to AF43"));
            };
            match priority.trim().parse() {
                Ok(priority @ 0..=PRIORITY_MAX) => priorities.0[usize::from(dscp)] = priority,
                _ => return Err(format!("{text:?} has no priority from 0 to {PRIORITY_MAX}; write DSCP=PRIORITY, as \"EF=6\"")),
            }
        }
        Ok(priorities)
    }

    /// The priority of a packet that begins with its Ethernet header.
    #[inline]
    pub(super) fn of(&self, packet: Payload<'_>) -> u8 {
        if packet.len() < ETHERTYPE + HEAD {
            return 0;
        }
        let mut head = [0; HEAD];
        packet.slice(ETHERTYPE..ETHERTYPE + HEAD).copy_to(&mut head);
        let class = match u16::from_be_bytes([head[0], head[1]]) {
            ETHERTYPE_IPV4 => head[3],
            ETHERTYPE_IPV6 => head[2] << 4 | head[3] >> 4,
            _ => return 0,
        };
        self.0[usize::from(class >> 2)]
    }
}

/// A number, or a name of the registry of code points: RFC 2474, 2597, 3246, 5865 and 8622.
fn read_dscp(text: &str) -> Option<u8> {
    if let Ok(number) = text.parse() {
        return (number <= DSCP_MAX).then_some(number);
    }
    let digits = |of: &str| -> Option<Vec<u8>> { of.chars().map(|digit| digit.to_digit(10).map(|digit| digit as u8)).collect() };
    let name = text.to_ascii_uppercase();
    match (name.as_str(), name.get(..2), digits(name.get(2..)?).as_deref()) {
        ("EF", ..) => Some(46),
        ("VA", ..) => Some(44),
        ("LE", ..) => Some(1),
        (_, Some("CS"), Some(&[class @ 0..=7])) => Some(class * 8),
        (_, Some("AF"), Some(&[class @ 1..=4, precedence @ 1..=3])) => Some(class * 8 + precedence * 2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Packet;

    #[test]
    fn a_dscp_has_linuxs_priority_unless_another_is_given() {
        let linuxs = Priorities::default();
        // From the kernel's own table: best effort, CS1, AF11, AF12, EF, and the low delay of ssh (RFC 1349).
        let expected = [(0, 0), (8, 0), (10, 2), (12, 6), (46, 4), (4, 6)];
        expected.into_iter().for_each(|(dscp, priority)| assert_eq!(linuxs.0[dscp], priority, "{dscp}"));
        let own = Priorities::read(["EF=6", "cs1 = 1", "AF41=5", "34=3", "0=2"]).expect("they are right");
        assert_eq!([46, 8, 34, 0, 10].map(|dscp: usize| own.0[dscp]), [6, 1, 3, 2, 2]);
        assert_eq!(Priorities::read([]), Ok(linuxs));
    }

    #[test]
    fn a_wrong_text_is_named() {
        for wrong in ["EF", "EF=7", "EF=", "AF44=1", "AF4=1", "CS8=1", "64=1", "-1=1", "=1", "XY=1", "C=1", "AFé=1"] {
            let said = Priorities::read([wrong]).expect_err(wrong);
            assert!(said.contains(wrong), "{said}");
        }
    }

    #[test]
    fn a_packet_is_read_in_both_families() {
        let priorities = Priorities::read(["EF=6"]).expect("it is right");
        let of = |bytes: &[u8]| priorities.of(Payload::from(bytes));
        let (mut v4, mut v6) = (Packet::default().bytes(), Packet { ipv6: true, ..Packet::default() }.bytes());
        assert_eq!((of(&v4), of(&v6)), (0, 0));
        // The two lowest bits are for congestion (RFC 3168).
        v4[15] = 46 << 2 | 3;
        let class: u8 = 46 << 2 | 1;
        (v6[14], v6[15]) = (0x60 | class >> 4, class << 4 | 0xf);
        assert_eq!((of(&v4), of(&v6)), (6, 6));
        v4[12..14].copy_from_slice(&[0x08, 0x06]);
        assert_eq!((of(&v4), of(&v4[..15]), of(&[])), (0, 0, 0));
    }
}
