//! The link layer: Ethernet framing, ARP, and who is where on the link.

pub(crate) mod arp;
pub(crate) mod ethernet;
pub(crate) mod neighbor;
