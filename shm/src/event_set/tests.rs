//! What is put in comes out once, whatever the interleaving.

use super::*;

#[cfg(loom)]
#[test]
fn loom_what_is_put_in_comes_out_once() {
    use loom::sync::Arc;
    use loom::thread;
    loom::model(|| {
        let words: Arc<[AtomicU64; 2]> = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let putter = {
            let words = words.clone();
            thread::spawn(move || {
                let set = EventSet { words: &words[..1], summary: &words[1..] };
                set.put(3);
                set.put(7);
            })
        };
        let set = EventSet { words: &words[..1], summary: &words[1..] };
        let mut taken: Vec<u32> = set.take().into_iter().collect();
        taken.extend(set.take());
        putter.join().expect("ran");
        while let Some(number) = set.take() {
            taken.push(number);
        }
        taken.sort_unstable();
        assert_eq!(taken, [3, 7]);
    });
}

/// Two threads share a context: what one of them has not found the other has, or it is still there.
#[cfg(loom)]
#[test]
fn loom_two_takers_leave_nothing_that_cannot_be_found() {
    use loom::sync::Arc;
    use loom::thread;
    loom::model(|| {
        let words: Arc<[AtomicU64; 2]> = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        EventSet { words: &words[..1], summary: &words[1..] }.put(1);
        let taker = {
            let words = words.clone();
            thread::spawn(move || {
                let set = EventSet { words: &words[..1], summary: &words[1..] };
                set.take().into_iter().chain(set.take()).count()
            })
        };
        let set = EventSet { words: &words[..1], summary: &words[1..] };
        let mut count = set.take().into_iter().count();
        set.put(5);
        count += taker.join().expect("ran");
        while set.take().is_some() {
            count += 1;
        }
        assert_eq!(count, 2);
    });
}

#[cfg(not(loom))]
#[test]
fn numbers_come_out_in_order_and_once() {
    let (words, summary): (Vec<AtomicU64>, [AtomicU64; 2]) =
        ((0..128).map(|_| AtomicU64::new(0)).collect(), [AtomicU64::new(0), AtomicU64::new(0)]);
    let set = EventSet { words: &words, summary: &summary };
    for number in [8191, 0, 64, 63, 4096, 0] {
        set.put(number);
    }
    assert_eq!(std::iter::from_fn(|| set.take()).collect::<Vec<_>>(), [0, 63, 64, 4096, 8191]);
    assert!(summary.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    // What the other side writes into the summary is looked at and no more.
    summary[1].store(u64::MAX, Ordering::Relaxed);
    assert_eq!(set.take(), None);
}
