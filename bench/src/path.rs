//! A long, lossy or slow path between client and server, from `--rtt`, `--loss` and `--bandwidth`.
//!
//! In each direction, packets are delayed by half the round-trip time, lost at the same rate, and pass a bottleneck with a
//! bounded queue. Promises: a path always has a bandwidth, so that all losses are its own and none are caused by a slow
//! process. Does not do: jitter, reordering.

use ringway_device::impair::Impairments;
use ringway_shm::Duration;
use serde::{Deserialize, Serialize};

/// A path; the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Round-trip time without queues, microseconds.
    pub rtt_us: u32,
    /// Packet loss.
    pub loss: Loss,
    /// Bits per second of the bottleneck.
    pub bits_per_second: u64,
    /// Queue length of the bottleneck, in packets of 1500 bytes.
    pub queue_packets: u32,
}

/// Packet loss of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each packet with this probability, parts per million; from a seed.
    Random(u32),
    /// One of this number of packets.
    Every(u32),
}

/// Bytes of the largest packet with its link header.
const PACKET_BYTES: u64 = 1514;
/// Smallest default queue; otherwise it holds the bandwidth-delay product.
const QUEUE_PACKETS_MIN: u64 = 100;
/// Largest queue, in packets.
pub const QUEUE_PACKETS_MAX: u32 = 20_000;
/// Default bandwidth, which the process in the middle carries without losses of its own.
const BITS_PER_SECOND: u64 = 1_000_000_000;

impl Path {
    /// Creates a path; the default queue holds the bandwidth-delay product.
    pub fn new(rtt_us: u32, loss: Loss, bits_per_second: Option<u64>, queue_packets: Option<u32>) -> Path {
        let bits_per_second = bits_per_second.unwrap_or(BITS_PER_SECOND);
        let product_bytes = u128::from(bits_per_second) * u128::from(rtt_us) / 8_000_000;
        let product =
            (product_bytes.div_ceil(u128::from(PACKET_BYTES)) as u64).clamp(QUEUE_PACKETS_MIN, u64::from(QUEUE_PACKETS_MAX));
        Path { rtt_us, loss, bits_per_second, queue_packets: queue_packets.unwrap_or(product as u32) }
    }

    /// Name for display.
    pub fn label(&self) -> String {
        let rtt = if self.rtt_us == 0 { String::new() } else { format!(", rtt {} ms", f64::from(self.rtt_us) / 1e3) };
        format!("loss {}{rtt}", self.loss.label())
    }

    /// The path as numeric parameters of a point.
    pub fn numbers(&self) -> [(&'static str, f64); 4] {
        [
            ("loss", self.loss.share()),
            ("rtt_ms", f64::from(self.rtt_us) / 1e3),
            ("bandwidth_gbit", self.bits_per_second as f64 / 1e9),
            ("queue", f64::from(self.queue_packets)),
        ]
    }

    /// The impairments of one direction.
    pub fn impairments(&self) -> Impairments {
        let (loss_ppm, loss_every) = match self.loss {
            Loss::None => (0, 0),
            Loss::Random(ppm) => (ppm, 0),
            Loss::Every(count) => (0, count),
        };
        Impairments {
            loss_ppm,
            loss_every,
            delay: Duration::from_micros(u64::from(self.rtt_us) / 2),
            rate_bits: self.bits_per_second,
            rate_queue_bytes: u64::from(self.queue_packets) * PACKET_BYTES,
            packets_max: self.packets_max(),
            ..Impairments::default()
        }
    }

    /// Largest number of packets in flight in one direction; with small packets, more than the queue's length.
    pub fn packets_max(&self) -> usize {
        2 * self.queue_packets as usize + UNDER_WAY_MIN
    }
}

/// Small packets in flight on the shortest path.
const UNDER_WAY_MIN: usize = 8_192;

impl Loss {
    /// Share of packets.
    pub fn share(self) -> f64 {
        match self {
            Loss::None => 0.0,
            Loss::Random(ppm) => f64::from(ppm) / 1e6,
            Loss::Every(count) => 1.0 / f64::from(count),
        }
    }

    fn label(self) -> String {
        match self {
            Loss::None => "0".into(),
            Loss::Random(ppm) => format!("{} %", f64::from(ppm) / 1e4),
            Loss::Every(count) => format!("1/{count}"),
        }
    }
}

/// Parses `0`, `1%`, `0.015`, or `1/100` for every hundredth packet.
pub fn loss(text: &str) -> Result<Loss, String> {
    if let Some(count) = text.strip_prefix("1/") {
        return match count.parse() {
            Ok(count @ 2..=1_000_000) => Ok(Loss::Every(count)),
            _ => Err("expected one of 2 to 1000000 packets, such as 1/100".into()),
        };
    }
    let (number, scale) = text.strip_suffix('%').map_or((text, 1e6), |number| (number, 1e4));
    match number.trim().parse::<f64>() {
        Ok(share) if (0.0..=0.5).contains(&(share * scale / 1e6)) => match (share * scale).round() as u32 {
            0 if share > 0.0 => Err("expected 0 or at least one of a million packets".into()),
            0 => Ok(Loss::None),
            ppm => Ok(Loss::Random(ppm)),
        },
        _ => Err("expected a share of packets up to a half: 1%, 0.015, or 1/100 for every hundredth".into()),
    }
}

/// Parses a time with its unit, `20ms`, `300us` or `0.1s`, into microseconds.
pub fn time_us(text: &str) -> Result<u32, String> {
    let found =
        [("us", 1.0), ("ms", 1e3), ("s", 1e6)].into_iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)));
    match found.map(|(number, scale)| (number.trim().parse::<f64>(), scale)) {
        Some((Ok(number), scale)) if (0.0..=2e6).contains(&(number * scale)) => Ok((number * scale).round() as u32),
        _ => Err("expected a time of at most 2 s with its unit: 300us, 20ms, 0.1s".into()),
    }
}

/// Parses bits per second: `100mbit`, `1gbit`.
pub fn bandwidth(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let found = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)]
        .into_iter()
        .find_map(|(unit, scale)| Some((lower.strip_suffix(unit)?, scale)));
    match found.map(|(number, scale)| (number.trim().parse::<f64>(), scale)) {
        Some((Ok(number), scale)) if (1e5..=1e11).contains(&(number * scale)) => Ok((number * scale) as u64),
        _ => Err("expected 100kbit to 100gbit, such as 1gbit".into()),
    }
}

#[cfg(test)]
mod tests;
