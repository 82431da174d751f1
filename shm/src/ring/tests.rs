//! Entries arrive once, in order, and a marked ring is never forgotten.

use super::*;

#[cfg(loom)]
#[test]
fn loom_an_entry_is_found_now_or_its_mark_is_still_there() {
    use loom::sync::Arc;
    use loom::thread;
    loom::model(|| {
        let head = Arc::new(AtomicU32::new(0));
        let tail = Arc::new(AtomicU32::new(0));
        let dirty = Arc::new(AtomicU64::new(0));
        let entries: Arc<[AtomicU32; 2]> = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let producer = {
            let (head, tail, dirty, entries) = (head.clone(), tail.clone(), dirty.clone(), entries.clone());
            thread::spawn(move || {
                for value in 1..=2u32 {
                    let old = tail.load(Ordering::Relaxed);
                    let place = vacancy(&head, old, 2).expect("two fit");
                    entries[place as usize].store(value, Ordering::Relaxed);
                    publish(&tail, old);
                    mark(&dirty, 5);
                }
            })
        };
        let mut got = Vec::new();
        let mut drain = || {
            if take_marks(&dirty) & 1 << 5 == 0 {
                return;
            }
            while waiting(&tail, got.len() as u32, 2).expect("an honest producer") > 0 {
                got.push(entries[got.len() % 2].load(Ordering::Relaxed));
                head.store(got.len() as u32, Ordering::Release);
            }
        };
        drain();
        producer.join().expect("ran");
        drain();
        assert_eq!(got, [1, 2]);
    });
}

#[cfg(not(loom))]
#[test]
fn a_ring_holds_its_capacity_and_cursors_wrap() {
    let head = AtomicU32::new(u32::MAX - 1);
    let tail = AtomicU32::new(u32::MAX - 1);
    for count in 0..4 {
        let old = tail.load(Ordering::Relaxed);
        assert!(vacancy(&head, old, 4).is_some());
        publish(&tail, old);
        assert_eq!(waiting(&tail, u32::MAX - 1, 4), Some(count + 1));
    }
    assert_eq!(vacancy(&head, tail.load(Ordering::Relaxed), 4), None);
    assert_eq!(waiting(&tail, 0, 4), Some(2));
    assert_eq!(waiting(&tail, 100, 4), None, "more than it can hold is a lie");
}
