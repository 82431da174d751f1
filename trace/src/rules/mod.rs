//! The rules, a file for each mechanism. Each looks at one segment in its place and objects, or updates what
//! only this mechanism needs to remember. What all share is updated in `flow`.

pub(crate) mod ack;
pub(crate) mod delay;
pub(crate) mod ecn;
pub(crate) mod form;
pub(crate) mod handshake;
pub(crate) mod sack;
pub(crate) mod sequence;
pub(crate) mod size;
pub(crate) mod timestamps;
pub(crate) mod timing;
pub(crate) mod window;

#[cfg(test)]
mod tests;
