//! The deterministic simulator: hosts, links and faults in virtual time, all from one seed.
//!
//! A host is a real stack on a memory wire with an impaired device in front; an application on it sends and checks bytes.
//! Checkers verify the streams, the wire, the memory and the clock. The same seed gives the same run to the last packet, so
//! that the seed alone replays a failure: `cargo run -p ringway-sim -- --seed N`.
#![forbid(unsafe_code)]

pub mod application;
pub mod check;
pub mod datagrams;
pub mod differential;
pub mod faults;
pub mod forge;
pub mod host;
pub mod hostile;
pub mod machine;
pub mod network;
pub mod path;
pub mod pattern;
pub mod random;
pub mod scenario;
pub mod script;
pub mod soak;
