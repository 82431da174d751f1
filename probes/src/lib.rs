//! Static probes (USDT): points of the stack that bpftrace, perf and SystemTap attach to while it runs.
//!
//! The table of docs/probes.md names the kernel's tracepoint that each is like. Promises: a point to which nothing is attached
//! costs a load and a jump: the report is not made. Does not do: anything outside Linux.
//!
//! The first argument of each is the address of an [`Ends`]; numbers follow.
#![no_std]

use core::net::IpAddr;

/// The ends of a connection. Addresses have 16 bytes, those of IPv4 as `::ffff:a.b.c.d`; ports are in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ends {
    /// Our address.
    pub local: [u8; 16],
    /// The peer's.
    pub remote: [u8; 16],
    /// Our port.
    pub local_port: u16,
    /// The peer's.
    pub remote_port: u16,
}

impl Ends {
    /// The ends in the form of probes.
    pub fn of((local, local_port): (IpAddr, u16), (remote, remote_port): (IpAddr, u16)) -> Ends {
        let bytes = |ip| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        Ends { local: bytes(local), remote: bytes(remote), local_port, remote_port }
    }
}

macro_rules! points {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*);)*) => {
        /// Names of all points.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        $($(#[$doc])*
        #[inline]
        pub fn $name(report: impl FnOnce() -> (Ends, $($kind),*)) {
            let storage: Ends;
            $(let $argument: $kind;)*
            probe::probe_lazy!(
                ringway,
                $name,
                {
                    (storage, $($argument),*) = report();
                    &raw const storage
                },
                $($argument),*
            );
        })*
    };
}

points! {
    /// The state changes; Linux's numbers of the old and the new one.
    tcp_set_state(old: u8, new: u8);
    /// The state of congestion control changes; Linux's numbers (0 open, 3 recovery, 4 loss) of the old and the new one.
    tcp_set_congestion_state(old: u8, new: u8);
    /// A segment is sent again: its sequence number, its bytes, and the state of congestion control.
    tcp_retransmit(sequence: u32, bytes: u32, congestion_state: u8);
    /// A SYN-ACK is sent again, for the given time.
    tcp_retransmit_synack(times: u8);
    /// A retransmission timeout, so many in a row.
    tcp_timeout(backoff: u8);
    /// A tail loss probe is sent: its sequence number.
    tcp_tail_loss_probe(sequence: u32);
    /// A RST is sent.
    tcp_send_reset();
    /// A RST of the peer ends the connection.
    tcp_receive_reset();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_ipv4_are_mapped() {
        let ends = Ends::of(([192, 0, 2, 1].into(), 80), ("2001:db8::1".parse().expect("an address"), 4000));
        assert_eq!(ends.local, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 192, 0, 2, 1]);
        assert_eq!((ends.remote[0], ends.remote[15], ends.local_port, ends.remote_port), (0x20, 1, 80, 4000));
    }

    /// Nothing is attached in a test: no report is made.
    #[test]
    fn what_is_not_attached_costs_no_report() {
        tcp_set_state(|| unreachable!("nothing is attached"));
        tcp_send_reset(|| unreachable!("nothing is attached"));
    }
}
