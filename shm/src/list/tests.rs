//! The lists under loom (all interleavings) and, in small, on the machine.

use super::*;

#[cfg(loom)]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    struct Nodes {
        head: AtomicU32,
        links: [AtomicU32; 3],
        payload: [AtomicU32; 3],
    }

    fn nodes() -> Arc<Nodes> {
        let zeros = || std::array::from_fn(|_| AtomicU32::new(0));
        Arc::new(Nodes { head: AtomicU32::new(EMPTY), links: zeros(), payload: zeros() })
    }

    fn push(nodes: &Nodes, index: u32) -> bool {
        nodes.payload[index as usize].store(index + 100, Ordering::Relaxed);
        push_chain(&nodes.head, index, &nodes.links[index as usize], 100).expect("few rivals")
    }

    fn take(nodes: &Nodes) -> Vec<u32> {
        let mut at = take_all(&nodes.head);
        let mut taken = Vec::new();
        while let Some(index) = node(at, 3) {
            assert_eq!(nodes.payload[index as usize].load(Ordering::Relaxed), index + 100, "payload comes with its node");
            taken.push(index);
            at = nodes.links[index as usize].load(Ordering::Relaxed);
        }
        taken
    }

    #[test]
    fn loom_everything_pushed_is_taken_once_and_announced_when_needed() {
        loom::model(|| {
            let shared = nodes();
            let pusher = |index| {
                let nodes = shared.clone();
                thread::spawn(move || push(&nodes, index))
            };
            let (first, second) = (pusher(0), pusher(1));
            let mut all = take(&shared);
            let announced = u32::from(first.join().expect("ran")) + u32::from(second.join().expect("ran"));
            let rest = take(&shared);
            assert!(rest.is_empty() || announced > 0, "a chain that nobody announced");
            all.extend(rest);
            all.sort_unstable();
            assert_eq!(all, [0, 1]);
        });
    }

    #[test]
    fn loom_one_pusher_keeps_its_order() {
        loom::model(|| {
            let shared = nodes();
            let nodes = shared.clone();
            let pusher = thread::spawn(move || {
                for index in 0..3 {
                    push(&nodes, index);
                }
            });
            let mut order = take(&shared);
            order.reverse();
            pusher.join().expect("ran");
            let mut rest = take(&shared);
            rest.reverse();
            order.extend(rest);
            assert_eq!(order, [0, 1, 2]);
        });
    }

    #[test]
    fn loom_the_free_list_gives_nothing_twice() {
        loom::model(|| {
            let head = Arc::new(AtomicU64::new(0));
            let links: Arc<[AtomicU32; 2]> = Arc::new(std::array::from_fn(|_| AtomicU32::new(0)));
            for index in 0..2 {
                push_free(&head, index, &links[index as usize], 10);
            }
            // Pop, push back, pop again: the pattern that ABA breaks.
            let worker = {
                let (head, links) = (head.clone(), links.clone());
                thread::spawn(move || {
                    let (first, _) = pop_free(&head, 1, 2, |index| &links[index as usize], 10)?;
                    push_free(&head, first, &links[first as usize], 10);
                    pop_free(&head, 1, 2, |index| &links[index as usize], 10)
                })
            };
            let mine = pop_free(&head, 1, 2, |index| &links[index as usize], 10);
            let theirs = worker.join().expect("ran");
            if let (Some((mine, _)), Some((theirs, _))) = (mine, theirs) {
                assert_ne!(mine, theirs);
            }
        });
    }
}

#[cfg(not(loom))]
mod plain {
    use super::*;

    #[test]
    fn chains_are_popped_whole_and_bad_indices_end_them() {
        let head = AtomicU64::new(0);
        let links: [AtomicU32; 4] = std::array::from_fn(|_| AtomicU32::new(0));
        for index in 0..4 {
            assert!(push_free(&head, index, &links[index as usize], u32::MAX));
        }
        let pop = |count, limit| pop_free(&head, count, limit, |index| &links[index as usize], u32::MAX);
        assert_eq!(pop(2, 4), Some((3, 2)));
        assert_eq!(pop(9, 4), Some((1, 2)));
        assert_eq!(pop(1, 4), None);
        head.store(200, Ordering::Relaxed);
        assert_eq!(pop(1, 4), None, "an index past the limit is no node");
    }

    #[test]
    fn a_push_says_whether_it_was_the_first() {
        let head = AtomicU32::new(EMPTY);
        let links: [AtomicU32; 2] = std::array::from_fn(|_| AtomicU32::new(0));
        assert_eq!(push_chain(&head, 0, &links[0], u32::MAX), Some(true));
        assert_eq!(push_chain(&head, 1, &links[1], u32::MAX), Some(false));
        assert_eq!(take_all(&head), word(1));
        assert_eq!(take_all(&head), EMPTY);
    }
}
