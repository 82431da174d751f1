use super::*;
use crate::config::keys::KEYS;

fn config(text: &str) -> Config {
    Config::parse("ringway.toml", text, Vec::new()).expect("it is right")
}

#[test]
fn what_can_change_does_and_the_rest_is_named() {
    let mut running = config("tcp.retries = 8\nmemory.slots = 4096\n");
    let new = config("tcp.retries = 5\ntcp.time_wait_ms = 1000\nservice.handover_s = 30\nmemory.slots = 8192\n");
    let reloaded = running.reload(&new).expect("it is right");
    assert_eq!(reloaded.applied, ["tcp.retries", "service.handover_s"]);
    assert_eq!(reloaded.restart, ["memory.slots", "tcp.time_wait_ms"]);
    assert_eq!(running.stack.tcp.retries, 5);
    assert_eq!(running.handover, ringway_shm::Duration::from_secs(30));
    assert_eq!(running.region.slots, 4096, "what holds is shown");
    assert_ne!(running.stack.tcp.time_wait, ringway_shm::Duration::from_secs(1));
    assert_eq!(running.reload(&running.clone()), Ok(Reloaded::default()));
    // The key that is not in the file any more has its default again.
    assert_eq!(running.reload(&config("")).expect("it is right").applied, ["tcp.retries", "service.handover_s"]);
    assert_eq!(running.stack.tcp.retries, config("").stack.tcp.retries);
}

#[test]
fn rules_change_while_the_service_runs() {
    let mut running = config("");
    let new = config("[[rule]]\naction = \"kernel\"\nport = 80\n");
    assert_eq!(running.reload(&new), Ok(Reloaded { applied: vec![SECTION], restart: vec![] }));
    assert_eq!(running.rules().iter().count(), 1);
}

#[test]
fn values_that_contradict_those_that_stay_change_nothing() {
    let mut running = config("tcp.rto_min_ms = 250\n");
    let before = running.effective();
    let new = Config::parse("ringway.toml", "tcp.rto_min_ms = 4000\n", Vec::new());
    assert!(new.is_err(), "the initial timeout is below the least one");
    assert_eq!(running.reload(&config("")), Ok(Reloaded { applied: vec!["tcp.rto_min_ms"], restart: vec![] }));
    assert_eq!(running.effective() == before, config("").effective() == before);
}

#[test]
fn every_key_that_needs_a_restart_is_a_key() {
    let is_key = |key: &&str| KEYS.iter().any(|known| known.path == *key);
    assert!(AT_START.iter().all(is_key));
    assert!(OTHERS.iter().filter(|key| **key != SECTION).all(is_key));
    let is_limit = |key: &str| key.starts_with("limits.");
    let restart: Vec<&str> = KEYS.iter().map(|key| key.path).filter(|key| is_limit(key) && !is_live(key)).collect();
    assert_eq!(restart, ["limits.ports", "limits.memory_per_group_mib"]);
}
