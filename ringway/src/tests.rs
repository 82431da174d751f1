#[cfg(feature = "futures-io")]
pub(crate) mod async_io;
mod futures;
mod harness;
mod hooks;
mod loops;
mod nets;
mod owned;
mod random;
mod tcp;
mod timers;
mod udp;
mod zero_copy;
