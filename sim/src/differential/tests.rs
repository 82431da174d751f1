use super::*;

/// The same seed draws the same calls, and many seeds draw all kinds; `--bin differential` makes the calls.
#[test]
fn a_seed_is_a_list_of_calls() {
    let all: Vec<Calls> = (0..200).map(Calls::random).collect();
    assert_eq!(all[7], Calls::random(7));
    let made = |word: &str| all.iter().flat_map(|calls| &calls.steps).filter(|step| step.call.starts_with(word)).count();
    for word in ["open", "listen", "accept", "connect", "send", "recv", "peek", "shutdown", "linger", "set", "get", "state"] {
        assert!(made(word) > 10, "{word}");
    }
    assert!(all.iter().any(|calls| calls.server == End::Subject) && all.iter().any(|calls| calls.server == End::Peer));
}
