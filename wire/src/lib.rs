//! Headers on the wire: checked views over bytes, and plain values to write.
//!
//! Parsers take the bytes as they came and return a value or `None`; no parser panics, none
//! believes a length that it has not compared with the bytes. Writers fill exactly the bytes given.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
pub mod arp;
pub mod checksum;
pub mod classify;
pub mod ethernet;
pub mod icmpv4;
pub mod icmpv6;
pub mod igmp;
pub mod ipv4;
pub mod ipv6;
pub mod ndp;
pub mod sequence;
pub mod tcp;
pub mod udp;

pub use address::MacAddress;
