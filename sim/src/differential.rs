//! Differential runs: the same socket calls on Ringway and on this machine's kernel, answer by answer.
//!
//! A seed is a list of calls for two ends, the *subject* and the *peer*. They are made twice over the same kind of wire
//! ([`Link`]): first with the kernel's stack at both ends, then with the subject on `ringway run`. The peer is the kernel's
//! both times. The answers must be equal: bytes, errno, readiness, and the TCP_INFO states at both ends.
//!
//! Promises: real time decides nothing; an answer that takes time is asked again until it equals the kernel's, or a generous
//! limit has passed. The namespaces have no name and end with the processes in them, even when this process crashes. Does
//! not do: time, windows, anything on the wire (`sim::scenario` and the captures of the system tests do).

mod agent;
mod calls;
mod link;
mod world;

pub use calls::{Calls, End, Step};
pub use link::Link;
pub use world::{Reference, World};

use ringway_shm::Duration;

use crate::check::Failure;

/// A step whose answers differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The call.
    pub step: Step,
    /// Its index among the seed's steps.
    pub at: usize,
    /// The kernel's answer.
    pub kernel: String,
    /// Ringway's answer.
    pub ringway: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "step {} {}: the kernel says {}, Ringway {}", self.at, self.step, self.kernel, self.ringway)
    }
}

/// Result of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Calls that were compared, in order.
    pub steps: Vec<Step>,
    /// Steps whose answers differ.
    pub differences: Vec<Difference>,
}

/// Address family of the calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Family {
    /// The family that the seed draws.
    #[default]
    Drawn,
    /// IPv4.
    #[value(name = "4")]
    Ipv4,
    /// IPv6.
    #[value(name = "6")]
    Ipv6,
}

/// Makes the calls of `seed` on both and compares. A difference counts only if it remains when the kernel gets more time to
/// settle, for instance for a delayed ACK.
///
/// # Errors
/// When an end does not answer.
pub fn compare(world: &mut World, seed: u64, family: Family) -> Result<Compared, Failure> {
    let mut calls = Calls::random(seed);
    calls.ipv6 = match family {
        Family::Drawn => calls.ipv6,
        Family::Ipv4 => false,
        Family::Ipv6 => true,
    };
    let mut compared = Compared { steps: calls.steps.clone(), differences: Vec::new() };
    for patience in PATIENCE_MS.map(Duration::from_millis) {
        let kernel = world.play(&calls, Reference::Make { patience })?;
        let ringway = world.play(&calls, Reference::Is(&kernel))?;
        let pairs = calls.steps.iter().zip(kernel.into_iter().zip(ringway)).enumerate();
        compared.differences = pairs
            .filter(|(_, (_, (kernel, ringway)))| kernel != ringway)
            .map(|(at, (step, (kernel, ringway)))| Difference { step: step.clone(), at, kernel, ringway })
            .collect();
        if compared.differences.is_empty() {
            break;
        }
    }
    Ok(compared)
}

/// Time that the kernel's answers must stay unchanged, by attempt; it delays ACKs for 40 to 200 ms.
const PATIENCE_MS: [u64; 3] = [3, 250, 500];

#[cfg(test)]
mod tests;
