//! The link layer: Ethernet framing, ARP, and the neighbor table.

pub(crate) mod arp;
pub(crate) mod ethernet;
pub(crate) mod neighbor;
