//! SYN cookies: half-open connections without state on this side.
//!
//! Read RFC 4987 §3.6 and appendix A first; the layout is Linux's. The ISN of the SYN-ACK is the cookie:
//!
//! ```text
//! cookie = F(4-tuple) + peer's ISN + (minute << 24) + ((F(4-tuple, minute, peer's ISN) + index of MSS) mod 2^24)
//! ```
//!
//! An ACK with a matching SEG.ACK shows that its sender has received the SYN-ACK. A cookie is valid for two minutes: the
//! second F changes each minute. Unlike Linux's it depends on the peer's ISN. Otherwise SEG.ACK and SEG.SEQ of an ended
//! connection that has carried equal amounts each way would differ by as much as a cookie's, and a late segment would open
//! it again. The other options are in the low six bits of the timestamp that we send and the peer echoes; without timestamps
//! there is neither window scaling nor SACK. Cookies are sent when the SYN queue is full (or always), and accepted only by
//! listeners that have sent some lately.

use ringway_shm::Instant;

use crate::config::{CongestionControl, Ecn, SynCookies, TcpConfig};
use crate::env::Env;
use crate::stats::Counter;
use crate::wire::tcp::SYN;

use super::Tcp;
use super::connect::{Agreed, agree, window_shift};
use super::demux::FlowKey;
use super::ecn::{self, EcnMode};
use super::isn::Secrets;
use super::segment::Segment;
use super::syn_queue::HalfOpen;
use crate::wire::sequence::SeqNum;

/// Minutes for which a cookie is valid; Linux: MAX_SYNCOOKIE_AGE.
const AGE_MAX: u32 = 2;
/// MSS values that a cookie can encode, ascending; the peer's is rounded down. Linux: msstab.
const MSS_V4: [u16; 4] = [536, 1_300, 1_440, 1_460];
const MSS_V6: [u16; 4] = [1_220, 1_420, 1_440, 8_940];
/// Low bits of the timestamp that encode the options.
const OPTION_BITS: u32 = 6;
/// In those bits: no window scaling.
const NO_SCALING: u32 = 15;
const SACK_BIT: u32 = 1 << 4;
const ECN_BIT: u32 = 1 << 5;
/// Purposes of keyed hashes, so that none reveals another; above the second are a minute and an ISN.
const STATIC: u64 = 0x4987_0001;
const ROTATING: u64 = 0x4987;
const MASK: u32 = (1 << 24) - 1;

/// The minute number that cookies made at `now` use.
fn minute(now: Instant) -> u32 {
    (now.as_millis() / 60_000) as u32
}

fn sizes(key: &FlowKey) -> &'static [u16; 4] {
    if key.local.is_ipv4() { &MSS_V4 } else { &MSS_V6 }
}

/// The part of a cookie that changes with each minute and with the peer's ISN.
fn rotating(secrets: &Secrets, key: &FlowKey, minute: u32, irs: SeqNum) -> u32 {
    secrets.keyed(key, u64::from(irs.0) << 32 | u64::from(minute as u16) << 16 | ROTATING) as u32
}

/// The ISN that answers a SYN with ISN `irs` from a peer with an MSS of `mss` bytes.
fn make(secrets: &Secrets, now: Instant, key: &FlowKey, irs: SeqNum, mss: u16) -> SeqNum {
    let index = sizes(key).iter().rposition(|&size| size <= mss).unwrap_or(0) as u32;
    let minute = minute(now);
    let rotating = rotating(secrets, key, minute, irs);
    let fixed = secrets.keyed(key, STATIC) as u32;
    SeqNum(fixed.wrapping_add(irs.0).wrapping_add(minute << 24).wrapping_add(rotating.wrapping_add(index) & MASK))
}

/// The MSS encoded in `cookie`; `None` when we have not made it for this flow, or it is too old.
fn check(secrets: &Secrets, now: Instant, key: &FlowKey, irs: SeqNum, cookie: SeqNum) -> Option<u16> {
    let fixed = secrets.keyed(key, STATIC) as u32;
    let rest = cookie.0.wrapping_sub(fixed).wrapping_sub(irs.0);
    let minute = minute(now);
    let age = minute.wrapping_sub(rest >> 24) & 0xff;
    if age >= AGE_MAX {
        return None;
    }
    let made = minute.wrapping_sub(age);
    let rotating = rotating(secrets, key, made, irs);
    sizes(key).get((rest.wrapping_sub(rotating) & MASK) as usize).copied()
}

/// Reduces `agreed` to what a cookie can encode: without timestamps only the MSS.
fn restrict(agreed: Agreed) -> Agreed {
    if agreed.timestamps {
        return agreed;
    }
    Agreed { mss: agreed.mss, ..Agreed::default() }
}

/// The TSval of a cookie's SYN-ACK: less than 2^6 ms before `timestamp`, never after it.
fn timestamp(timestamp: u32, agreed: &Agreed) -> u32 {
    let scale = if agreed.scales { agreed.send_scale as u32 } else { NO_SCALING };
    let ecn = if agreed.ecn == EcnMode::Off { 0 } else { ECN_BIT };
    let bits = scale | ecn | if agreed.sack { SACK_BIT } else { 0 };
    let value = (timestamp >> OPTION_BITS << OPTION_BITS) | bits;
    if value.wrapping_sub(timestamp).cast_signed() > 0 { value.wrapping_sub(1 << OPTION_BITS) } else { value }
}

/// Decodes a TSecr, as far as `config` still allows it; `None` when we have not sent it. `receive_scale` is our own shift,
/// `ts_recent` the peer's TSval.
fn agreed(config: &TcpConfig, mss: u16, echo: Option<u32>, ts_recent: u32, receive_scale: u8) -> Option<Agreed> {
    let Some(echo) = echo else { return Some(Agreed { mss, ..Agreed::default() }) };
    let scale = echo & NO_SCALING;
    let scales = scale != NO_SCALING;
    let sack = echo & SACK_BIT != 0;
    let ecn = echo & ECN_BIT != 0;
    if !config.timestamps || (scales && !config.window_scaling) || (sack && !config.sack) {
        return None;
    }
    Some(Agreed {
        mss,
        send_scale: if scales { scale as u8 } else { 0 },
        receive_scale: if scales { receive_scale } else { 0 },
        scales,
        timestamps: true,
        sack,
        ts_recent,
        syn_field: 0,
        ecn: if ecn { EcnMode::Classic } else { EcnMode::Off },
    })
}

fn record_of_cookie(listener: u32, key: FlowKey, irs: SeqNum, iss: SeqNum, agreed: Agreed) -> HalfOpen {
    HalfOpen { key, irs, iss, agreed, listener, retries: 0, acknowledged: false, from_cookie: true, deadline: 0, sent_at: 0 }
}

impl Tcp {
    /// Returns true when a SYN for the listener is answered with a cookie instead of an entry in the queue.
    pub(super) fn wants_cookie(&mut self, env: &mut Env, listener: u32) -> bool {
        match self.shared.config.syn_cookies {
            SynCookies::Off => false,
            SynCookies::Always => true,
            SynCookies::WhenFull => {
                let full = self.is_syn_queue_full(listener);
                if full {
                    env.counters.count(Counter::TcpReqQFullDoCookies);
                }
                full
            }
        }
    }

    /// Answers a SYN without keeping state.
    pub(super) fn send_cookie(&mut self, env: &mut Env, listener: u32, segment: &Segment) {
        let receive_buffer = self.receive_buffer_of(listener);
        let offer = agree(&self.shared.config, &segment.header.options, receive_buffer);
        let ecn = ecn::answer(&self.shared.config, self.listener_options(listener).congestion_control, segment);
        // Accurate feedback needs state that a cookie does not keep.
        let ecn = if ecn == EcnMode::Off { ecn } else { EcnMode::Classic };
        let agreed = restrict(Agreed { ecn, ..offer });
        let iss = make(&self.shared.secrets, self.now, &segment.key, segment.sequence, agreed.mss);
        let Some(entry) = self.listeners.get_mut(listener) else { return };
        entry.cookies_at = Some(minute(self.now));
        env.counters.count(Counter::SyncookiesSent);
        let record = record_of_cookie(listener, segment.key, segment.sequence, iss, agreed);
        let value = timestamp(self.shared.secrets.timestamp(self.now), &agreed);
        self.push_syn_ack(env, &record, value, None);
    }

    /// Takes an ACK for a listener: with a valid cookie it completes a handshake, otherwise it is reset.
    pub(super) fn receive_cookie(&mut self, env: &mut Env, listener: u32, segment: &mut Segment) {
        let sent_at = self.listeners.get(listener).and_then(|listener| listener.cookies_at);
        let believed = sent_at.is_some_and(|at| minute(self.now).wrapping_sub(at) <= AGE_MAX)
            && !segment.has(SYN)
            && self.shared.config.syn_cookies != SynCookies::Off;
        let record = if believed { self.read_cookie(env, listener, segment) } else { None };
        match record {
            Some(record) => self.complete(env, None, &record, segment),
            None => self.shared.replies.reset(self.now, env, segment),
        }
    }

    fn read_cookie(&mut self, env: &mut Env, listener: u32, segment: &Segment) -> Option<HalfOpen> {
        let (irs, iss) = (segment.sequence - 1, segment.acknowledgment() - 1);
        let Some(mss) = check(&self.shared.secrets, self.now, &segment.key, irs, iss) else {
            env.counters.count(Counter::SyncookiesFailed);
            return None;
        };
        env.counters.count(Counter::SyncookiesRecv);
        let times = segment.header.options.timestamps;
        let shift = window_shift(self.receive_buffer_of(listener));
        // A listener under DCTCP answers ECN whatever the configuration says (RFC 8257 §3.5).
        let config = &self.shared.config;
        let dctcp = self.listener_options(listener).congestion_control == CongestionControl::Dctcp;
        let speaks_ecn = dctcp || config.ecn != Ecn::Off;
        let (echo, ts_recent) = (times.map(|times| times.echo), times.map_or(0, |times| times.value));
        let agreed = agreed(config, mss, echo, ts_recent, shift)?;
        if agreed.ecn != EcnMode::Off && !speaks_ecn {
            return None;
        }
        Some(record_of_cookie(listener, segment.key, irs, iss, agreed))
    }
}

#[cfg(test)]
mod tests;
