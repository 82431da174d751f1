//! The round-trip estimate and the retransmission timeout.
//!
//! Read RFC 6298 §2 first. As in Linux, the variance term is at least `rto_min`, so that a peer's delayed ACK does not cause
//! a timeout.

use crate::config::TcpConfig;

/// Bounds to which a sample is clamped, microseconds.
pub(crate) const SAMPLE_MIN_US: u32 = 1;
pub(crate) const SAMPLE_MAX_US: u32 = (1 << 28) - 2;

/// Takes a sample within its bounds into (srtt, rttvar), all in microseconds. `srtt` 0: no sample yet.
#[inline(always)]
pub(crate) fn measure(srtt_us: u32, rttvar_us: u32, sample: u32) -> (u32, u32) {
    if srtt_us == 0 {
        return (sample, sample / 2);
    }
    // RFC 6298 (2.3): alpha = 1/8, beta = 1/4; the variance first.
    let deviation = srtt_us.abs_diff(sample);
    let rttvar = rttvar_us - rttvar_us / 4 + deviation / 4;
    // Never 0: values below eight are not reduced.
    (srtt_us - srtt_us / 8 + sample / 8, rttvar)
}

/// Times of the configuration, in the units in which the segment code needs them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    rto_initial_us: u64,
    rto_min_us: u64,
    rto_max_us: u64,
    /// Whole milliseconds of `rto_min_us`.
    rto_min_ms: u32,
    /// True when tail loss probes (RFC 8985 §7) are sent with SACK.
    pub(crate) probes: bool,
    /// Bounds of an ACK's delay.
    pub(crate) ack_delay_min_us: u64,
    pub(crate) ack_delay_max_us: u64,
}

impl Timing {
    pub(crate) fn of(config: &TcpConfig) -> Timing {
        Timing {
            rto_initial_us: config.rto_initial.as_micros(),
            rto_min_us: config.rto_min.as_micros(),
            rto_max_us: config.rto_max.as_micros(),
            probes: config.rack && config.tail_loss_probe,
            rto_min_ms: u32::try_from(config.rto_min.as_millis()).unwrap_or(u32::MAX),
            ack_delay_min_us: config.delayed_ack_min.as_micros().min(config.delayed_ack.as_micros()),
            ack_delay_max_us: config.delayed_ack.as_micros(),
        }
    }

    /// Returns true when a silence of `idle_ms` is longer than the shortest timeout.
    #[inline]
    pub(crate) fn is_idle(&self, idle_ms: u32) -> bool {
        idle_ms > self.rto_min_ms
    }
}

/// The timeout before backoff, microseconds.
#[inline]
pub(crate) fn timeout_us(timing: &Timing, srtt_us: u32, rttvar_us: u32) -> u64 {
    if srtt_us == 0 {
        return timing.rto_initial_us;
    }
    let variance = (4 * rttvar_us as u64).max(timing.rto_min_us);
    (srtt_us as u64 + variance).min(timing.rto_max_us)
}

/// The timeout after `backoffs` doublings, microseconds.
#[inline]
pub(crate) fn backed_off_us(timing: &Timing, srtt_us: u32, rttvar_us: u32, backoffs: u8) -> u64 {
    // RFC 6298 (5.5)
    (timeout_us(timing, srtt_us, rttvar_us) << backoffs.min(20)).min(timing.rto_max_us)
}

#[cfg(test)]
mod tests;
