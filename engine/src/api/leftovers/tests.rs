use ringway_shm::{Arena, ArenaConfig};

use super::*;

/// Each socket gets its own frame back, once, and places are used again.
#[test]
fn everybody_gets_his_own() {
    let arena = Arena::new(ArenaConfig { large: 4, small: 4 });
    let frame = |bytes: &[u8]| arena.alloc_from(bytes).expect("the arena is large enough");
    let (mut leftovers, mut one, mut other) = (Leftovers::default(), Place::NONE, Place::NONE);
    assert!(leftovers.take(&mut one).is_none());
    assert_eq!(leftovers.len(one), 0);
    leftovers.keep(&mut one, frame(b"one"));
    leftovers.keep(&mut other, frame(b"other"));
    assert_eq!((leftovers.len(one), leftovers.len(other)), (3, 5));
    assert_eq!(leftovers.take(&mut one).expect("it was kept").bytes(), b"one");
    assert!(!one.is_taken() && leftovers.take(&mut one).is_none());
    leftovers.keep(&mut one, frame(b"again"));
    assert_eq!(leftovers.take(&mut other).expect("it was kept").bytes(), b"other");
    assert_eq!(leftovers.take(&mut one).expect("it was kept").bytes(), b"again");
    assert_eq!(leftovers.frames.len(), 2);
}
