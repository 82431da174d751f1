//! Faults of the wire: one options struct, drawn from a seed or made by hand.

use ringway_device::impair::Impairments;
use ringway_shm::Duration;

use crate::random::Random;

/// Faults of a wire, the same in both directions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Impairments of each packet.
    pub wire: Impairments,
    /// Probability that a blind attacker adds a forged segment after a burst, parts per million.
    pub forged_ppm: u32,
}

impl Faults {
    /// Returns a wire that only delays.
    pub fn none(delay: Duration) -> Faults {
        Faults { wire: Impairments { delay, ..Impairments::default() }, forged_ppm: 0 }
    }

    /// Returns true when each packet arrives once, in order, without loss and from its true sender.
    pub fn keeps_order(&self) -> bool {
        let Impairments { loss_ppm, burst_start_ppm, reorder_ppm, duplicate_ppm, corrupt_ppm, rate_bits, .. } = self.wire;
        loss_ppm + burst_start_ppm + reorder_ppm + duplicate_ppm + corrupt_ppm + self.forged_ppm == 0 && rate_bits == 0
    }

    /// Returns the standard test wire: 5 % loss, reordering, duplicates.
    pub fn bad_wire() -> Faults {
        Faults {
            wire: Impairments {
                loss_ppm: 50_000,
                delay: Duration::from_micros(500),
                jitter: Duration::from_micros(50),
                reorder_ppm: 20_000,
                reorder_by: Duration::from_micros(300),
                duplicate_ppm: 10_000,
                ..Impairments::default()
            },
            forged_ppm: 0,
        }
    }

    /// Draws any wire, from perfect to very bad.
    pub fn random(random: &mut Random) -> Faults {
        let mut ppm = |high: u64| if random.one_in(3) { 0 } else { random.magnitude(high) as u32 };
        let (loss_ppm, burst_start_ppm, reorder_ppm) = (ppm(100_000), ppm(5_000), ppm(100_000));
        let (duplicate_ppm, corrupt_ppm, forged_ppm) = (ppm(50_000), ppm(20_000), ppm(50_000));
        let micros = |random: &mut Random, high| Duration::from_micros(random.magnitude(high));
        Faults {
            wire: Impairments {
                loss_ppm,
                burst_start_ppm,
                burst_end_ppm: 600_000,
                delay: micros(random, 100_000),
                jitter: micros(random, 5_000),
                rate_bits: if random.one_in(3) { 1_000_000 << random.between(0, 10) } else { 0 },
                reorder_ppm,
                reorder_by: micros(random, 20_000),
                duplicate_ppm,
                corrupt_ppm,
                ..Impairments::default()
            },
            forged_ppm,
        }
    }
}
