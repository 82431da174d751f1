//! What joins client and server.

pub mod veth;
