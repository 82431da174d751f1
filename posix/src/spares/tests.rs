//! The kernel sockets of connections.

use super::*;
use crate::fallback::{Kernel, OnExec};
use crate::mock::Bench;
use ringway_shm::Instant;

impl Bench {
    /// Lets a connection of `listener` arrive, and accepts it.
    fn accepted(&self, (fd, listener): (Fd, SocketRef)) -> Fd {
        self.turn(|worker| {
            let child = worker.allocate_slot().expect("a slot is free");
            worker.set_state(child.index, ringway_channel::State::Connected);
            assert!(worker.push_accepted(listener.index, child.index, Instant::ZERO));
        });
        self.posix.accept(fd, listener, 0).expect("one waits").0
    }

    fn identity(&self, fd: Fd) -> u64 {
        self.kernel.identity(fd).expect("it is open").inode
    }

    fn close(&self, fd: Fd) {
        assert_eq!(self.posix.close(fd), Some(Ok(())));
    }
}

#[test]
fn connections_that_live_together_have_different_kernel_sockets() {
    let bench = Bench::new();
    let listener = bench.socket(ringway_channel::State::Listening);
    let first = bench.accepted(listener);
    let second = bench.accepted(listener);
    assert_ne!(bench.identity(first), bench.identity(second));
    let copy =
        bench.posix.duplicate(first, bench.posix.table.socket(first).expect("ours"), 0, OnExec::Keep).expect("numbers are free");
    assert_eq!(bench.identity(copy), bench.identity(first));
    let inode = bench.identity(first);
    bench.close(first);
    let third = bench.accepted(listener);
    assert_ne!(bench.identity(third), inode, "its duplicate lives");
}

#[test]
fn the_kernel_socket_of_a_connection_that_has_ended_serves_the_next_one() {
    let bench = Bench::new();
    let listener = bench.socket(ringway_channel::State::Listening);
    let first = bench.accepted(listener);
    let inode = bench.identity(first);
    bench.close(first);
    assert!(bench.kernel.identity(first).is_err(), "the number is free");
    assert_eq!(bench.identity(bench.accepted(listener)), inode);
}

/// Way in which the kernel socket becomes known elsewhere.
type See = fn(&Bench, Fd, SocketRef);

#[test]
fn what_others_may_know_serves_no_other_connection() {
    let seen: [(&str, See); 5] = [
        ("passed", |bench, fd, _| bench.posix.before_passing(fd, &mut crate::Passage::default())),
        ("forked", |bench, _, _| {
            bench.posix.announce_fork();
            bench.posix.fork_is_over();
        }),
        ("option", |bench, fd, socket| {
            let (level, name) = (libc::SOL_SOCKET, libc::SO_DEBUG);
            assert_eq!(
                bench.posix.set_option(crate::fd_table::Descriptor { fd, socket }, level, name, &1_i32.to_ne_bytes()),
                Ok(())
            );
        }),
        ("cookie", |bench, fd, socket| {
            assert_eq!(
                bench.posix.option(crate::fd_table::Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_COOKIE, &mut [0; 8]),
                Ok(8)
            );
        }),
        ("signal", |bench, fd, socket| assert_eq!(bench.posix.fcntl(fd, socket, 10, 1), None)),
    ];
    for (name, see) in seen {
        let bench = Bench::new();
        let listener = bench.socket(ringway_channel::State::Listening);
        let first = bench.accepted(listener);
        // Kept open, so that the number of the inode is not reused.
        let (inode, kept) = (bench.identity(first), bench.kernel.duplicate(first, 0, OnExec::Close).expect("numbers are free"));
        see(&bench, first, bench.posix.table.socket(first).expect("ours"));
        bench.close(first);
        assert_ne!(bench.identity(bench.accepted(listener)), inode, "{name}");
        bench.kernel.close(kept).expect("it is open");
    }
}

#[test]
fn more_connections_than_places_are_still_different() {
    let bench = Bench::new();
    let listener = bench.socket(ringway_channel::State::Listening);
    for round in 0..3 {
        let all: Vec<Fd> = (0..SPARES_MAX + 10).map(|_| bench.accepted(listener)).collect();
        let different: std::collections::HashSet<u64> = all.iter().map(|fd| bench.identity(*fd)).collect();
        assert_eq!(different.len(), all.len(), "round {round}");
        all.into_iter().for_each(|fd| bench.close(fd));
        bench.turn(|worker| {
            while let Some(request) = worker.next_request() {
                worker.free_slot(request.slot.index);
            }
        });
    }
    let open = bench.kernel.open_descriptors().map(|open| open.len()).unwrap_or(0);
    assert!(open <= SPARES_MAX + 1, "{open}");
}

#[test]
fn a_number_that_was_closed_past_the_library_is_no_spare() {
    let bench = Bench::new();
    let listener = bench.socket(ringway_channel::State::Listening);
    let first = bench.accepted(listener);
    let pipe = bench.kernel.keep(rustix::pipe::pipe().expect("pipes work here").0);
    let other = bench.identity(pipe);
    bench.kernel.duplicate_to(pipe, first, OnExec::Close).expect("both are open");
    bench.close(first);
    assert_ne!(bench.identity(bench.accepted(listener)), other);
}

#[test]
fn spares_give_way_and_a_child_has_none() {
    let bench = Bench::new();
    let listener = bench.socket(ringway_channel::State::Listening);
    let two = [bench.accepted(listener), bench.accepted(listener)];
    two.into_iter().for_each(|fd| bench.close(fd));
    assert!(bench.posix.yield_number());
    bench.posix.drop_spares();
    assert!(!bench.posix.yield_number());
    assert_eq!(bench.kernel.open_descriptors().map(|open| open.len()), Ok(1), "the listener's");
}
