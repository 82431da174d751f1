//! Processes that attach to a service and misbehave; `bin/hostile.rs` runs rounds of them.
//!
//! Promises: a seed decides all that a round does; a round ends by itself. Does not do: checking the effect on the service.

mod attach;
mod region;
mod requests;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::random::Random;

/// Maximum number of bursts (writes, requests or connections) in a round.
const BURSTS_MAX: u64 = 200;

/// Kind of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Random words over the region.
    Region,
    /// Random requests in the contract's format.
    Requests,
    /// Lies in control messages and descriptors.
    Attach,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 3] = [Form::Region, Form::Requests, Form::Attach];

    /// Returns its name in arguments.
    pub fn name(self) -> &'static str {
        match self {
            Form::Region => "region",
            Form::Requests => "requests",
            Form::Attach => "attach",
        }
    }
}

/// State of a round.
pub struct Round {
    socket: PathBuf,
    peer: IpAddr,
    random: Random,
    /// Bursts still to be made.
    bursts: u64,
}

impl Round {
    /// Makes a round against the service at `socket`, whose requests mostly lead to `peer`.
    pub fn new(socket: &Path, peer: IpAddr, mut random: Random) -> Round {
        let bursts = random.between(0, BURSTS_MAX);
        Round { socket: socket.to_path_buf(), peer, random, bursts }
    }

    /// Runs the round.
    ///
    /// # Errors
    /// When the service refuses, or has ended.
    pub fn play(mut self, form: Form) -> io::Result<()> {
        match form {
            Form::Region => region::play(&mut self),
            Form::Requests => requests::play(&mut self),
            Form::Attach => attach::play(&mut self),
        }
    }

    /// Counts one burst; returns `false` when the round is over.
    fn goes_on(&mut self) -> bool {
        let more = self.bursts > 0;
        self.bursts = self.bursts.saturating_sub(1);
        more
    }

    /// Returns the token of a new group.
    fn token(&mut self) -> [u8; 16] {
        let mut token = [0; 16];
        token[..8].copy_from_slice(&self.random.number().to_le_bytes());
        token[8..].copy_from_slice(&u64::from(std::process::id()).to_le_bytes());
        token
    }

    /// Draws a word that is likely to break a contract: bounds, bits, small numbers, any value.
    fn word(&mut self) -> u64 {
        let word = self.random.number();
        match word % 8 {
            0 => 0,
            1 => u64::MAX,
            2 => word >> 56,
            3 => 1 << (word >> 58),
            4 => 0x7fff_ffff,
            5 => (word >> 20) % 70_000,
            6 => 0x8000_0000_8000_0000,
            _ => word,
        }
    }
}
