//! No wake-up is lost and none is sent twice.

use super::*;

#[cfg(loom)]
#[test]
fn loom_a_sleeper_is_woken() {
    use loom::sync::Arc;
    use loom::thread;
    loom::model(|| {
        let word = Arc::new(AtomicU32::new(0));
        let work = Arc::new(AtomicU32::new(0));
        let ringers: Vec<_> = (0..2)
            .map(|_| {
                let (word, work) = (word.clone(), work.clone());
                thread::spawn(move || {
                    work.fetch_add(1, Ordering::Relaxed);
                    must_ring(&word)
                })
            })
            .collect();
        arm(&word);
        let sleeps = work.load(Ordering::Relaxed) < 2;
        if !sleeps {
            disarm(&word);
        }
        let rings = ringers.into_iter().map(|ringer| u32::from(ringer.join().expect("ran"))).sum::<u32>();
        assert!(rings <= 1, "one wake-up per sleep");
        assert!(!sleeps || rings == 1, "slept on work");
    });
}

#[cfg(not(loom))]
#[test]
fn only_an_armed_word_is_rung_and_only_once() {
    let word = AtomicU32::new(0);
    assert!(!must_ring(&word));
    arm(&word);
    assert!(is_armed(&word));
    assert!(must_ring(&word));
    assert!(!is_armed(&word) && !must_ring(&word));
    arm(&word);
    disarm(&word);
    assert!(!must_ring(&word));
}
