use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;

use super::Fifo;

/// Any order of calls gives what the standard library's queue gives, item by item; each item is dropped once.
#[test]
fn is_a_queue() {
    let token = Rc::new(());
    for seed in 1..20_u64 {
        let (mut fifo, mut model, mut state) = (Fifo::new(), VecDeque::new(), seed);
        for number in 0..2_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            match state >> 60 {
                0..=6 => {
                    fifo.push_back((number, token.clone()));
                    model.push_back(number);
                }
                7 => {
                    fifo.push_front((number, token.clone()));
                    model.push_front(number);
                }
                8 => {
                    let mut other = Fifo::with_capacity(3);
                    (0..3).for_each(|item| other.push_back((item, token.clone())));
                    drop(other.pop_front());
                    fifo.append(&mut other);
                    model.extend([1, 2]);
                    assert!(other.is_empty());
                }
                9 if state >> 54 & 63 == 0 => {
                    fifo.clear();
                    model.clear();
                }
                _ => assert_eq!(fifo.pop_front().map(|item| item.0), model.pop_front(), "seed {seed}"),
            }
            assert_eq!((fifo.len(), fifo.is_empty()), (model.len(), model.is_empty()));
            assert_eq!((fifo.front().map(|item| &item.0), fifo.back().map(|item| &item.0)), (model.front(), model.back()));
        }
        assert_eq!(fifo.iter().map(|item| item.0).collect::<Vec<_>>(), Vec::from(model), "seed {seed}");
        assert_eq!(Rc::strong_count(&token), 1 + fifo.len());
    }
    assert_eq!(Rc::strong_count(&token), 1);
}

/// A queue that always holds a few keeps to the memory that it has.
#[test]
fn does_not_grow_while_it_is_used() {
    let mut fifo = Fifo::with_capacity(16);
    (0..5).for_each(|item| fifo.push_back(item));
    let capacity = fifo.items.capacity();
    for item in 5..10_000 {
        fifo.push_back(item);
        assert_eq!(fifo.pop_front(), Some(item - 5));
    }
    assert_eq!(fifo.items.capacity(), capacity);
}
