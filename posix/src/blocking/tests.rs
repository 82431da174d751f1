//! Threads that share a context, and threads that may not take a wake descriptor's event, are woken too.

use super::*;
use crate::channel::Taking;
use crate::mock::Bench;
use crate::stream::Receive;
use ringway_channel::State;
use std::io::IoSliceMut;
use std::thread;

/// A waiter as taken by a thread that finds no context of its own.
fn sharing(posix: &Posix) -> Waiter<'_> {
    let channel = posix.attached().expect("the bench is attached");
    let (context, wake_fd, sleepers) = posix.shared_wake_fd(channel).expect("descriptors are left");
    assert_eq!(sleepers, Sleepers::Several);
    let cell = posix.waits.claim(EMPTY).expect("cells are left");
    Waiter { posix, channel, context, wake_fd, sleepers, cell, attachment: 0 }
}

#[test]
fn a_ring_wakes_all_threads_that_share_a_context() {
    let bench = Bench::new();
    let sockets: Vec<SocketRef> = (0..8).map(|_| bench.socket(State::Connected).1).collect();
    let posix = &bench.posix;
    let channel = posix.attached().expect("the bench is attached");
    let waiters: Vec<Waiter<'_>> = sockets.iter().map(|_| sharing(posix)).collect();
    assert!(waiters.iter().all(|waiter| waiter.context == waiters[0].context));
    thread::scope(|scope| {
        let read_all = |socket: SocketRef, waiter: &Waiter<'_>| {
            let wait = Wait { socket, shadow: None, deadline: None };
            channel.watch(socket, waiter.context);
            for _ in 0..50 {
                let mut byte = [0];
                let mut attempt = || channel.receive(socket, &mut [IoSliceMut::new(&mut byte)], Taking::Take).ok().map(Ok);
                assert_eq!(posix.block_with(waiter, wait, &mut attempt), Ok(1));
            }
            channel.unwatch(socket, waiter.context);
        };
        let readers: Vec<_> =
            sockets.iter().zip(&waiters).map(|(&socket, waiter)| scope.spawn(move || read_all(socket, waiter))).collect();
        for round in 0..50 {
            sockets.iter().for_each(|socket| bench.arrive(*socket, &[round]));
            let unread = |socket: &SocketRef| channel.view(*socket).is_some_and(|view| view.readable > 0);
            while sockets.iter().any(unread) {
                thread::yield_now();
            }
            bench.turn(|worker| worker.reclaim());
        }
        readers.into_iter().for_each(|reader| reader.join().expect("every byte comes"));
    });
}

#[test]
fn a_process_that_filters_its_system_calls_is_woken_by_a_wake_fd_that_it_reads() {
    let bench = Bench::new();
    let (_, socket) = bench.socket(State::Connected);
    drop(bench.posix.waiter().expect("contexts are left"));
    bench.posix.before_filter();
    for _ in 0..20 {
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut bytes = [0; 8];
                let how = Receive { wait_all: true, ..Receive::default() };
                bench.posix.receive(socket, &mut [IoSliceMut::new(&mut bytes)], how)
            });
            bench.arrive(socket, b"four");
            bench.arrive(socket, b"more");
            assert_eq!(reader.join().expect("it reads"), Ok(8));
        });
    }
    let waiter = bench.posix.waiter().expect("one was made before the filter");
    assert_eq!(waiter.sleepers, Sleepers::Confined);
}
