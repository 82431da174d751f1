//! A veth interface offers every candidate, AF_PACKET is chosen, and each one can be measured.
use super::*;
use crate::testing::{in_namespace, ip};
use ringway_shm::Instant;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn veth_offers_everything_and_packet_is_chosen() {
    in_namespace(|| {
        ip("link add left type veth peer name right");
        ip("link set left up");
        ip("link set right up");
        let quiet = probe("left").expect("it was made above");
        assert!(quiet.findings.iter().all(|found| found.candidate != Candidate::XdpNative), "not unasked");
        let found = probe_for("left", &[Candidate::Packet, Candidate::XdpNative, Candidate::XdpGeneric, Candidate::Tap])
            .expect("it was made above");
        assert_eq!(found.interface.driver, "veth");
        for finding in &found.findings {
            assert!(finding.outcome.is_ok(), "{}: {:?}", finding.candidate, finding.outcome);
        }
        assert_eq!(found.choice().expect("all work").0, Candidate::Packet);
    });
}

#[test]
fn what_does_not_work_is_not_chosen() {
    let interface = Interface {
        name: "x".into(),
        index: 1,
        mac: [0; 6],
        mtu: 1500,
        up: true,
        driver: "".into(),
        receive_queues: 1,
        udp_segmentation: false,
        tcp_segmentation: false,
        segmentation_max_bytes: 65_521,
        segmentation_max_segments: 65_535,
    };
    let finding =
        |candidate, works: bool| Finding { candidate, outcome: if works { Ok("zero-copy".into()) } else { Err("no".into()) } };
    let choice = |findings| Probe { interface: interface.clone(), findings }.choice().map(|(candidate, _)| candidate);
    assert_eq!(choice(vec![finding(Candidate::Packet, false), finding(Candidate::Tap, true)]), Some(Candidate::Tap));
    assert_eq!(choice(vec![finding(Candidate::Packet, true), finding(Candidate::XdpNative, true)]), Some(Candidate::Packet));
    assert_eq!(choice(vec![finding(Candidate::Packet, false)]), None);
}

#[test]
fn a_missing_interface_is_an_error() {
    assert!(probe("nosuchthing").is_err());
}

#[test]
fn every_candidate_can_be_measured() {
    in_namespace(|| {
        for candidate in [Candidate::Packet, Candidate::XdpNative, Candidate::XdpGeneric, Candidate::Tap] {
            let calls = AtomicU64::new(0);
            // A clock on which the whole run takes one second.
            let clock = move || Instant::from_millis(1000 * calls.fetch_add(1, Ordering::Relaxed));
            let measured = measure(candidate, 100, 300, clock).expect("root may measure");
            assert_eq!((measured.packets_per_second, measured.bytes_per_second), (300.0, 30_000.0), "{candidate}");
        }
    });
}
