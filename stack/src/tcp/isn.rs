//! Numbers that no remote host may guess: initial sequence numbers and the timestamp offset.
//!
//! Read RFC 6528 and RFC 7323 §5.4 first. ISN = M + F(4-tuple, secret); M counts 4-microsecond steps.

use core::net::IpAddr;

use ringway_shm::Instant;

use super::demux::FlowKey;
use super::siphash::{SIP_1_3, Sip};
use crate::timer::tick_at;
use crate::wire::sequence::SeqNum;

/// See [`Secrets::keyed`]: RFC 6528's F.
const INITIAL_SEQUENCE: u64 = 0x6528;

/// Keys of a stack's secrets; all come from its seed.
pub(crate) struct Secrets {
    keys: [u64; 2],
    timestamp_offset: u32,
    random: u64,
}

/// A bijective mix of 64 bits (the finaliser of SplitMix64).
pub(crate) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Secrets {
    /// Secrets derived from `seed`.
    pub(crate) fn new(seed: u64) -> Secrets {
        let keys = [mix(seed ^ 0x0001_6528_0000_0001), mix(seed ^ 0x0002_6528_0000_0002)];
        Secrets { keys, timestamp_offset: mix(seed ^ 0x7323) as u32, random: mix(seed ^ 0x6056) }
    }

    /// RFC 6528 §3: the initial sequence number of a flow opened now.
    pub(crate) fn initial_sequence(&self, now: Instant, key: &FlowKey) -> SeqNum {
        let clock = (now.as_micros() / 4) as u32;
        SeqNum(clock.wrapping_add(self.keyed(key, INITIAL_SEQUENCE) as u32))
    }

    /// TSval at `now`: milliseconds from a random start.
    #[inline]
    pub(crate) fn timestamp(&self, now: Instant) -> u32 {
        self.timestamp_of(tick_at(now))
    }

    /// Like [`timestamp`](Secrets::timestamp), of a tick.
    #[inline]
    pub(crate) fn timestamp_of(&self, tick: u32) -> u32 {
        tick.wrapping_add(self.timestamp_offset)
    }

    /// SipHash-1-3 of the 4-tuple and a purpose: unlike the flow table's hash its output is visible to remote hosts.
    pub(crate) fn keyed(&self, key: &FlowKey, purpose: u64) -> u64 {
        let mut state = Sip::new(self.keys, SIP_1_3);
        state.word(purpose);
        for ip in [key.local, key.remote] {
            match ip {
                IpAddr::V4(ip) => state.word(ip.to_bits() as u64),
                IpAddr::V6(ip) => {
                    state.word((ip.to_bits() >> 64) as u64);
                    state.word(ip.to_bits() as u64);
                }
            }
        }
        state.word(((key.local_port as u64) << 16) | key.remote_port as u64);
        state.finish()
    }

    /// The next pseudo-random number of the stack.
    pub(crate) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.random)
    }
}
