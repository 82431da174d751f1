//! A slot written by a worker, played by the test, and the program's view of it.
use crate::channel::{Channel, Failure, Place, State};
use crate::client::Attached;
use crate::mock::two_workers;
use ringway_channel as shm;

/// A failed attempt ends with its failure: no view has the failure and a socket that still connects.
#[test]
fn an_attempt_is_over_as_soon_as_its_failure_is_told() {
    let house = two_workers();
    let channel = Attached::new(house.clients(), 0);
    let socket = channel.open(Place::First).expect("slots are free");
    let mut worker = house.workers().0;
    let slot = socket.index >> 1;
    worker.set_state(slot, shm::State::Connecting);
    assert_eq!(channel.view(socket).map(|view| (view.state, view.failure)), Some((State::Connecting, None)));
    worker.set_error(slot, shm::Failure::Refused, shm::Flags(shm::Flags::FAILED.0 | shm::Flags::HUNG_UP.0));
    let seen = channel.view(socket).map(|view| (view.state, view.failure));
    assert_eq!(seen, Some((State::Closed, Some(Failure::Refused))), "the state itself comes later");
}
