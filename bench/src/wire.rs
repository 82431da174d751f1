//! The links between client and server.

pub mod memory;
pub mod path;
pub mod veth;
