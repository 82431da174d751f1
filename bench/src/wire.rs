//! What joins client and server.

pub mod memory;
pub mod veth;
