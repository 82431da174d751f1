//! UDP through the façade: one stack at 10.0.0.1, and a peer at 10.0.0.2 whose packets the test writes.

mod errors;
mod loopback;
mod multicast;
mod pair;
mod receive;
mod rig;
mod send;
