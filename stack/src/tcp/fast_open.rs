//! Fast Open, shared by both sides: connection state, keys, cookies.
//!
//! Read RFC 7413 first. `fast_open_client` sends data in a SYN, `fast_open_server` takes it. Cookies equal those that Linux
//! computes with the same key (SipHash-2-4 of both addresses), so several machines behind one address may share a key.
//! Cookies of a backup key are valid too, so that keys can be changed in use.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::config::FastOpenKeys;
use crate::wire::tcp::FastOpen;

use super::demux::FlowKey;
use super::fast_open_client::Cache;
use super::isn::mix;
use super::siphash::{SIP_2_4, Sip};
use super::tcb::Tcb;

/// Linux's tcpi_fastopen_client_fail in tcp_info.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Failure {
    /// It did not fail, or was not tried.
    #[default]
    None,
    /// There was no cookie.
    NoCookie,
    /// The SYN-ACK did not acknowledge the data.
    NotAcknowledged,
    /// The SYN was retransmitted without data.
    Retransmitted,
}

/// Fast Open state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Early {
    /// Not in use.
    #[default]
    Off,
    /// Active open: the SYN waits for data to carry, at most `room` bytes.
    Waiting { option: Option<FastOpen>, room: u16 },
    /// Active open: the first SYN has (or will have) this option and at most `room` bytes.
    Sent { option: Option<FastOpen>, room: u16, failure: Failure },
    /// Passive open: serves data before the handshake is over.
    Passive { listener: u32, generation: u32, answer: Option<FastOpen>, mss_limit: u16, sent_at: u32, reset: bool },
    /// The handshake is over. `data`: the SYN's data was taken.
    Over { data: bool, failure: Failure },
}

/// A passive open that is over: its listener counts one fewer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) listener: u32,
    pub(crate) generation: u32,
    pub(crate) reset: bool,
}

/// Fast Open state of a stack.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) cache: Cache,
    pub(crate) keys: FastOpenKeys,
    pub(crate) finished: Vec<Finished>,
}

impl Shared {
    /// The configured keys, or those derived from `seed`; an empty cache.
    pub(crate) fn new(seed: u64, keys: Option<FastOpenKeys>) -> Shared {
        let half = |n: u64| mix(seed ^ 0x7413 ^ (n << 32)).to_le_bytes();
        let mut primary = [0; 16];
        primary[..8].copy_from_slice(&half(1));
        primary[8..].copy_from_slice(&half(2));
        let keys = keys.unwrap_or(FastOpenKeys { primary, backup: None });
        Shared { cache: Cache::default(), keys, finished: Vec::new() }
    }
}

/// RFC 7413 §4.1.2: the cookie for a client's address, computed as in Linux.
pub(crate) fn cookie(key: &[u8; 16], flow: &FlowKey) -> [u8; 8] {
    let (low, high) = (u128::from_le_bytes(*key) as u64, (u128::from_le_bytes(*key) >> 64) as u64);
    let mut bytes = Vec::with_capacity(32);
    for ip in [flow.remote, flow.local] {
        match ip {
            IpAddr::V4(ip) => bytes.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => bytes.extend_from_slice(&ip.octets()),
        }
    }
    Sip::of_bytes([low, high], SIP_2_4, &bytes).to_le_bytes()
}

impl Early {
    /// Returns true when dropping it loses nothing.
    pub(crate) fn is_off(&self) -> bool {
        *self == Early::Off
    }
}

impl Tcb {
    /// Returns true when queued data and a FIN may be sent: also before the handshake is over, when the peer has sent data
    /// with it.
    #[inline]
    pub(crate) fn sends_data(&self) -> bool {
        self.state().sends_data() || (self.is_early() && self.state() == super::State::SynReceived)
    }
}

#[cfg(test)]
mod tests;
