//! connect(2) called again.

use ringway_channel::{Failure, Flags, State as SlotState};

use super::*;
use crate::mock::Bench;

/// A socket after a successful connect in the background, unknown to the program.
fn connected_in_the_background() -> (Bench, Fd, SocketRef) {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(SlotState::Connected);
    bench.posix.descriptions.install(socket, &[]);
    (bench, fd, socket)
}

fn end(bench: &Bench, socket: SocketRef, failure: Option<Failure>) {
    bench.turn(|worker| {
        match failure {
            Some(failure) => worker.set_error(socket.index, failure, Flags(Flags::FAILED.0 | Flags::HUNG_UP.0)),
            None => worker.set_flags(socket.index, Flags::HUNG_UP),
        }
        worker.set_state(socket.index, SlotState::Closed);
    });
}

#[test]
fn the_second_call_tells_success_and_the_third_that_there_is_nothing_to_do() {
    let (bench, _, socket) = connected_in_the_background();
    assert_eq!(bench.posix.connect_again(socket), Some(Ok(())));
    assert_eq!(bench.posix.connect_again(socket), Some(Err(Errno::ISCONN)));
    end(&bench, socket, None);
    assert_eq!(bench.posix.connect_again(socket), Some(Err(Errno::ISCONN)), "also when it is over");
}

/// Found by a differential run, seed 60: the socket was connected anew at once.
#[test]
fn a_connection_that_ended_untold_is_said_to_be_aborted_once() {
    let (bench, _, socket) = connected_in_the_background();
    end(&bench, socket, Some(Failure::Reset));
    assert_eq!(bench.posix.take_failure(socket), Some(Errno::CONNRESET), "SO_ERROR takes the error");
    assert_eq!(bench.posix.connect_again(socket), Some(Err(Errno::CONNABORTED)));
    let fresh = (libc::POLLOUT | libc::POLLWRNORM | libc::POLLHUP) as u32;
    assert_eq!(bench.posix.readiness(socket).events, fresh, "as if it had never been connected");
    assert_eq!(bench.posix.connect_again(socket), None, "begins anew");
}

#[test]
fn an_error_that_no_call_has_taken_is_told_first() {
    let (bench, _, socket) = connected_in_the_background();
    end(&bench, socket, Some(Failure::TimedOut));
    assert_eq!(bench.posix.connect_again(socket), Some(Err(Errno::TIMEDOUT)));
    assert_eq!(bench.posix.connect_again(socket), None, "begins anew");
}

/// Found by a differential run, seed 92.
#[test]
fn a_socket_that_is_shut_down_knows_that_it_is_connected() {
    let (bench, fd, socket) = connected_in_the_background();
    assert_eq!(bench.posix.shutdown(fd, socket, libc::SHUT_WR), Ok(()));
    assert_eq!(bench.posix.connect_again(socket), Some(Err(Errno::ISCONN)));
}

/// The service hands a connection over the moment that it stands, and ends.
#[test]
fn a_connection_that_has_moved_has_been_made() {
    let mut bench = Bench::new();
    let (_, socket) = bench.socket(SlotState::Connecting);
    bench.say(socket, Flags::MOVED);
    bench.kill_service();
    bench.posix.look_at_service();
    assert_eq!(bench.posix.finish_connect(socket, Errno::INPROGRESS), Ok(()));
}
