//! What a card may lose stands in the journal before the card loses it, until it has it again.
use std::sync::Mutex;

use super::*;

const LRO: u32 = 1 << 15;
const GRO: u32 = 1 << 14;
const TSO: u32 = 1 << 16;

/// A card whose program takes LRO and GRO.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    wanted: u32,
    refuses: bool,
    is_gone: bool,
}

impl Fake {
    fn new(wanted: u32) -> Fake {
        let fake = Fake::default();
        fake.0.lock().expect("one thread").wanted = wanted;
        fake
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().expect("one thread"));
    }

    fn wants(&self) -> u32 {
        self.0.lock().expect("one thread").wanted
    }

    fn before(&self, journal: &Arc<Notes>) -> io::Result<Offloads> {
        Offloads::of(Box::new(self.clone()), ("eth0".to_owned(), 7), Some(journal.clone()))
    }
}

impl Card for Fake {
    fn features(&self) -> io::Result<Features> {
        let state = self.0.lock().expect("one thread");
        if state.is_gone { Err(io::ErrorKind::NotFound.into()) } else { Ok(Features::of(&[state.wanted, 0])) }
    }

    fn want(&self, more: &Features) -> io::Result<()> {
        let mut state = self.0.lock().expect("one thread");
        if state.refuses || state.is_gone {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        state.wanted |= more.words()[0];
        Ok(())
    }
}

/// All that was noted.
#[derive(Debug, Default)]
struct Notes {
    notes: Mutex<Vec<LostOffloads>>,
    is_full: bool,
}

impl Journal for Notes {
    fn note(&self, lost: &LostOffloads) -> io::Result<()> {
        self.notes.lock().expect("one thread").push(lost.clone());
        if self.is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Notes {
    /// The features that the last note names.
    fn lost(&self) -> Vec<u32> {
        let notes = self.notes.lock().expect("one thread");
        let last = notes.last().expect("something was noted");
        assert_eq!((last.interface.as_str(), last.index), ("eth0", 7));
        last.features.clone()
    }
}

#[test]
fn what_the_program_takes_is_noted_before_and_restored_after() {
    let (card, journal) = (Fake::new(LRO | TSO), Arc::<Notes>::default());
    let mut offloads = card.before(&journal).expect("room");
    assert_eq!(journal.lost(), [LRO | TSO, 0], "before anything is lost: the process may be killed from now on");
    card.change(|state| state.wanted &= !(LRO | GRO));
    offloads.attached();
    assert_eq!(journal.lost(), [LRO, 0], "what the operator changes from now on is not noted");
    card.change(|state| state.wanted &= !TSO);
    offloads.restore();
    assert_eq!((card.wants(), journal.lost()), (LRO, vec![]));
}

#[test]
fn a_program_that_takes_nothing_or_is_refused_leaves_no_note() {
    let (card, journal) = (Fake::new(TSO), Arc::<Notes>::default());
    let mut offloads = card.before(&journal).expect("room");
    offloads.attached();
    assert_eq!(journal.lost(), []);
    let mut refused = card.before(&journal).expect("room");
    refused.restore();
    assert_eq!((card.wants(), journal.lost()), (TSO, vec![]));
}

#[test]
fn what_cannot_be_restored_stays_noted_unless_the_card_is_gone() {
    for (is_gone, lost) in [(false, vec![LRO, 0]), (true, vec![])] {
        let (card, journal) = (Fake::new(LRO), Arc::<Notes>::default());
        let mut offloads = card.before(&journal).expect("room");
        card.change(|state| state.wanted = 0);
        offloads.attached();
        card.change(|state| (state.refuses, state.is_gone) = (true, is_gone));
        offloads.restore();
        assert_eq!(journal.lost(), lost);
    }
}

#[test]
fn without_a_note_nothing_is_attached() {
    let journal = Arc::new(Notes { is_full: true, ..Notes::default() });
    assert!(Fake::new(LRO).before(&journal).is_err());
}
