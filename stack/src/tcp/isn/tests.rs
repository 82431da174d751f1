use super::*;

fn key(port: u16) -> FlowKey {
    FlowKey { local: [10, 0, 0, 1].into(), remote: [10, 0, 0, 2].into(), local_port: port, remote_port: 80 }
}

/// RFC 9293 MUST-8: within one flow the number advances by one every four microseconds.
#[test]
fn numbers_follow_the_clock() {
    let secrets = Secrets::new(1);
    let first = secrets.initial_sequence(Instant::from_millis(1), &key(1));
    assert_eq!(secrets.initial_sequence(Instant::from_millis(5), &key(1)) - first, 1_000);
}

/// RFC 9293 MUST-9, SHLD-1: flows and secrets have starts of their own; neither follows from the other's.
#[test]
fn starts_differ() {
    let (secrets, others) = (Secrets::new(1), Secrets::new(2));
    let start = |secrets: &Secrets, port| secrets.initial_sequence(Instant::ZERO, &key(port)).0;
    let steps: alloc::collections::BTreeSet<u32> =
        (0..1_000).map(|port| start(&secrets, port + 1).wrapping_sub(start(&secrets, port))).collect();
    assert!(steps.len() > 990, "no pattern from port to port");
    assert!((0..1_000).all(|port| start(&secrets, port) != start(&others, port)));
}
