//! The round-trip estimate and the retransmission timeout.
//!
//! Read RFC 6298 §2 first. As Linux does, the variance term is at least `rto_min`, so that a peer's
//! delayed ACK does not cause a timeout.

use crate::config::TcpConfig;

/// Takes a measurement into (srtt, rttvar), all in microseconds. `srtt` 0: no measurement yet.
#[inline]
pub(crate) fn measure(srtt_us: u32, rttvar_us: u32, sample_us: u32) -> (u32, u32) {
    let sample = sample_us.clamp(1, 1 << 28);
    if srtt_us == 0 {
        return (sample, sample / 2);
    }
    // RFC 6298 (2.3): alpha = 1/8, beta = 1/4; the variance first.
    let deviation = srtt_us.abs_diff(sample);
    let rttvar = rttvar_us - rttvar_us / 4 + deviation / 4;
    let srtt = srtt_us - srtt_us / 8 + sample / 8;
    (srtt.max(1), rttvar)
}

/// The timeout before backoff, microseconds.
#[inline]
pub(crate) fn timeout_us(config: &TcpConfig, srtt_us: u32, rttvar_us: u32) -> u64 {
    if srtt_us == 0 {
        return config.rto_initial.as_micros();
    }
    let variance = (4 * rttvar_us as u64).max(config.rto_min.as_micros());
    (srtt_us as u64 + variance).min(config.rto_max.as_micros())
}

/// The timeout after `backoffs` doublings, microseconds.
#[inline]
pub(crate) fn backed_off_us(config: &TcpConfig, srtt_us: u32, rttvar_us: u32, backoffs: u8) -> u64 {
    // RFC 6298 (5.5)
    (timeout_us(config, srtt_us, rttvar_us) << backoffs.min(20)).min(config.rto_max.as_micros())
}

#[cfg(test)]
mod tests;
