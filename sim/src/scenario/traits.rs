//! Traits of a scenario as texts, so that a test can check that each is drawn with each other.

use ringway_device::Medium;
use ringway_stack::{CongestionControl, Ecn, MtuProbing, SynCookies};

use super::Scenario;
use crate::path::hop::Manner;
use crate::path::liar::Lie;

impl Scenario {
    /// Returns all its traits.
    pub fn traits(&self) -> Vec<&'static str> {
        let wire = &self.faults.wire;
        let any = |of: &dyn Fn(&ringway_stack::TcpConfig) -> bool| self.configs.iter().any(|config| of(&config.tcp));
        let control = |one| self.options.congestion_control == one || self.server_control == one || self.mixed_control;
        let manner = |one| self.path.hop.is_some_and(|hop| hop.manner == one);
        let lie = |one| self.path.lies.contains(&Some(one));
        let accurate = [Ecn::AccurateRequest, Ecn::AccuratePassiveRequest, Ecn::AccuratePassive];
        let all = [
            ("IPv4", !self.ipv6),
            ("IPv6", self.ipv6),
            ("CUBIC", control(CongestionControl::Cubic)),
            ("NewReno", control(CongestionControl::NewReno)),
            ("BBR", control(CongestionControl::Bbr)),
            ("DCTCP", control(CongestionControl::Dctcp)),
            ("mixed control", self.mixed_control && self.at_once > 1),
            ("fragmenting router", manner(Manner::Cuts) && !self.ipv6),
            ("narrow path", manner(Manner::Tells)),
            ("black hole", manner(Manner::Swallows)),
            ("ACK division", lie(Lie::Division)),
            ("optimistic ACK", lie(Lie::Optimism)),
            ("duplicate ACKs", lie(Lie::Duplication)),
            ("SACK lies", lie(Lie::Sacks)),
            ("window games", lie(Lie::Windows)),
            ("ICMP lies", self.path.rumor_ppm > 0),
            ("blind attacks", self.faults.forged_ppm > 0),
            ("ECN", self.ecn.iter().any(|ecn| *ecn != Ecn::Off)),
            ("accurate ECN", self.ecn.iter().any(|ecn| accurate.contains(ecn))),
            ("random marks", wire.mark_ppm > 0),
            ("marking queue", wire.mark_above_bytes > 0),
            ("bottleneck", wire.rate_bits > 0 && self.at_once > 1),
            ("loss", wire.loss_ppm + wire.burst_start_ppm > 0),
            ("reordering", wire.reorder_ppm > 0),
            ("corruption", wire.corrupt_ppm > 0),
            ("nothing lost", self.faults.keeps_order()),
            ("datagrams", self.datagrams.is_some()),
            ("urgent data", self.plans.urgent_one_in > 0),
            ("tiny windows", self.options.receive_buffer_bytes.wrapping_sub(1) < TINY_BYTES),
            ("tiny segments", self.options.maximum_segment_size.wrapping_sub(1) < TINY_SEGMENT_BYTES),
            ("slow readers", self.plans.slow_readers),
            ("never readers", self.plans.never_reads_one_in > 0),
            ("silence", lie(Lie::Silence)),
            ("resets", self.plans.abort_one_in > 0),
            ("few frames", self.frames <= FEW_FRAMES),
            ("super-segments", self.link.segmentation_max_bytes > 0),
            ("frames not gathered", !self.link.gathers),
            ("raw IP", self.link.medium == Medium::Ip),
            ("Fast Open", self.options.fast_open),
            ("SYN cookies", any(&|tcp| tcp.syn_cookies == SynCookies::Always)),
            ("no timestamps", any(&|tcp| !tcp.timestamps)),
            ("no SACK", any(&|tcp| !tcp.sack)),
            ("no RACK", any(&|tcp| !tcp.rack)),
            ("path MTU search", any(&|tcp| tcp.mtu_probing == MtuProbing::Always)),
            ("pacing", any(&|tcp| tcp.pacing) || self.options.pacing_rate_max > 0),
        ];
        all.into_iter().filter(|(_, is_so)| *is_so).map(|(name, _)| name).collect()
    }
}

/// A receive buffer of a few segments.
const TINY_BYTES: u32 = 8_192;
/// A segment that is mostly header.
const TINY_SEGMENT_BYTES: u16 = 256;
/// Fewer frames than the buffers of one connection could hold.
const FEW_FRAMES: u32 = 512;
