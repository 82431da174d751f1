//! epoll(7) over a worker that the test plays and real descriptors of the kernel.

use super::*;
use crate::fallback::Kernel;
use crate::mock::Bench;
use ringway_channel::{Failure, Flags, State};
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const IN: u32 = libc::EPOLLIN as u32;
const OUT: u32 = libc::EPOLLOUT as u32;
const ET: u32 = libc::EPOLLET as u32;
const HUP: u32 = libc::EPOLLHUP as u32;
const RDHUP: u32 = libc::EPOLLRDHUP as u32;
const ERR: u32 = libc::EPOLLERR as u32;
/// Long enough for any machine; no test waits for it to pass.
const LONG: Option<Duration> = Some(Duration::from_secs(30));

impl Bench {
    pub(crate) fn epoll(&self) -> Fd {
        let epoll = self.kernel.epoll_create(0).expect("epoll works here");
        self.posix.epoll_created(epoll);
        epoll
    }

    pub(in crate::epoll) fn control(&self, epoll: Fd, operation: i32, fd: Fd, events: u32) -> Answer<()> {
        let event = epoll_event { events, u64: fd as u64 };
        self.posix.epoll_control(epoll, operation, fd, Some(event)).expect("the instance is known")
    }

    pub(crate) fn add(&self, epoll: Fd, fd: Fd, events: u32) {
        assert_eq!(self.control(epoll, libc::EPOLL_CTL_ADD, fd, events), Ok(()));
    }

    pub(crate) fn wait(&self, epoll: Fd, room: usize, timeout: Option<Duration>) -> Answer<Vec<(Fd, u32)>> {
        let mut events = vec![epoll_event { events: 0, u64: 0 }; room];
        let before = self.kernel.now();
        let count = self.posix.epoll_wait(epoll, &mut events, timeout, None).expect("the instance is known")?;
        let slept_through = timeout == LONG && self.kernel.now().since(before) >= Duration::from_secs(30);
        assert!(!slept_through, "the waiter was not woken, it found {count} events when its time was over");
        Ok(events[..count].iter().map(|event| (event.u64 as Fd, event.events)).collect())
    }

    pub(in crate::epoll) fn now_ready(&self, epoll: Fd) -> Vec<(Fd, u32)> {
        self.wait(epoll, 16, Some(Duration::ZERO)).expect("no error")
    }

    fn pipe(&self) -> (Fd, Fd) {
        let (read, write) = rustix::pipe::pipe().expect("pipes work here");
        (self.kernel.keep(read), self.kernel.keep(write))
    }

    fn write_to(&self, fd: Fd) {
        assert_eq!(self.kernel.write(fd, &[IoSlice::new(b"x")]), Ok(1));
    }

    fn read_from(&self, fd: Fd) {
        assert_eq!(self.kernel.read(fd, &mut [IoSliceMut::new(&mut [0])]), Ok(1));
    }
}

#[test]
fn level_is_told_as_long_as_it_holds() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, socket) = bench.socket(State::Connected);
    bench.add(epoll, fd, IN);
    assert_eq!(bench.now_ready(epoll), []);
    bench.arrive(socket, b"abc");
    assert_eq!(bench.now_ready(epoll), [(fd, IN)]);
    bench.read(socket, 2);
    assert_eq!(bench.now_ready(epoll), [(fd, IN)]);
    bench.read(socket, 1);
    assert_eq!(bench.now_ready(epoll), []);
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_MOD, fd, IN | OUT), Ok(()));
    assert_eq!(bench.now_ready(epoll), [(fd, OUT)]);
}

#[test]
fn an_edge_is_told_once_and_again_with_every_arrival() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, socket) = bench.socket(State::Connected);
    bench.add(epoll, fd, IN | OUT | ET);
    assert_eq!(bench.now_ready(epoll), [(fd, OUT)], "what holds at ADD is an edge");
    assert_eq!(bench.now_ready(epoll), []);
    bench.arrive(socket, b"abc");
    assert_eq!(bench.now_ready(epoll), [(fd, IN | OUT)]);
    assert_eq!(bench.now_ready(epoll), []);
    bench.read(socket, 1);
    assert_eq!(bench.now_ready(epoll), [], "reading is no edge");
    bench.arrive(socket, b"d");
    assert_eq!(bench.now_ready(epoll), [(fd, IN | OUT)]);
    bench.turn(|worker| worker.signal(socket.index));
    assert_eq!(bench.now_ready(epoll), [], "a signal without news is no edge");
}

#[test]
fn a_full_socket_tells_its_edge_when_room_comes_back() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, socket) = bench.socket(State::Connected);
    bench.add(epoll, fd, OUT | ET);
    assert_eq!(bench.now_ready(epoll), [(fd, OUT)]);
    let channel = bench.posix.attached().expect("it is attached");
    assert_eq!(channel.send(socket, &[IoSlice::new(&[1; 1000])]), Ok(1000));
    assert!(channel.send(socket, &[IoSlice::new(&[1; 1])]).is_err());
    assert_eq!(bench.now_ready(epoll), []);
    bench.turn(|worker| {
        let mut bytes = vec![0; worker.tx_available(socket.index)];
        worker.copy_tx(socket.index, &mut bytes);
        worker.release_tx(socket.index, 1000);
    });
    assert_eq!(bench.wait(epoll, 4, LONG), Ok(vec![(fd, OUT)]));
    assert_eq!(bench.now_ready(epoll), []);
}

#[test]
fn one_shot_fires_once_until_it_is_armed_again() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, socket) = bench.socket(State::Connected);
    bench.add(epoll, fd, IN | libc::EPOLLONESHOT as u32);
    bench.arrive(socket, b"a");
    assert_eq!(bench.now_ready(epoll), [(fd, IN)]);
    bench.arrive(socket, b"b");
    assert_eq!(bench.now_ready(epoll), []);
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_MOD, fd, IN), Ok(()));
    assert_eq!(bench.now_ready(epoll), [(fd, IN)]);
}

#[test]
fn one_wait_covers_both_worlds() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, socket) = bench.socket(State::Connected);
    let (read, write) = bench.pipe();
    bench.add(epoll, fd, IN);
    bench.add(epoll, read, IN);
    for _ in 0..20 {
        thread::scope(|scope| {
            scope.spawn(|| bench.arrive(socket, b"x"));
            assert_eq!(bench.wait(epoll, 4, LONG), Ok(vec![(fd, IN)]));
        });
        bench.read(socket, 1);
        thread::scope(|scope| {
            scope.spawn(|| bench.write_to(write));
            assert_eq!(bench.wait(epoll, 4, LONG), Ok(vec![(read, IN)]));
        });
        bench.read_from(read);
    }
    assert_eq!(bench.wait(epoll, 4, Some(Duration::from_millis(1))), Ok(vec![]), "time passes with nothing");
}

#[test]
fn busy_sockets_of_the_stack_do_not_hide_the_kernels_and_take_turns() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let sockets: Vec<_> = (0..3).map(|_| bench.socket(State::Connected)).collect();
    let (read, write) = bench.pipe();
    bench.add(epoll, read, IN);
    bench.write_to(write);
    for &(fd, socket) in &sockets {
        bench.add(epoll, fd, IN);
        bench.arrive(socket, b"x");
    }
    for room in [1, 2] {
        let mut seen: Vec<Fd> =
            (0..16).flat_map(|_| bench.wait(epoll, room, LONG).expect("no error")).map(|(fd, _)| fd).collect();
        seen.sort_unstable();
        seen.dedup();
        let mut all: Vec<Fd> = sockets.iter().map(|(fd, _)| *fd).chain([read]).collect();
        all.sort_unstable();
        assert_eq!(seen, all, "with room for {room}");
    }
}

#[test]
fn control_answers_as_linux_does() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, _) = bench.socket(State::Connected);
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_MOD, fd, IN), Err(Errno::NOENT));
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_DEL, fd, IN), Err(Errno::NOENT));
    bench.add(epoll, fd, IN);
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_ADD, fd, IN), Err(Errno::EXIST));
    assert_eq!(bench.control(epoll, 99, fd, IN), Err(Errno::INVAL));
    let exclusive = libc::EPOLLEXCLUSIVE as u32;
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_MOD, fd, IN | exclusive), Err(Errno::INVAL));
    assert_eq!(bench.control(epoll, libc::EPOLL_CTL_DEL, fd, IN), Ok(()));
    assert_eq!(bench.now_ready(epoll), []);
    bench.add(epoll, fd, OUT);
    assert_eq!(bench.now_ready(epoll), [(fd, OUT)]);
}

#[test]
fn a_duplicate_keeps_the_watch_and_the_last_close_ends_it() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, socket) = bench.socket(State::Connected);
    bench.add(epoll, fd, IN);
    let copy = bench.posix.duplicate(fd, socket, 0, crate::fallback::OnExec::Close).expect("a number is free");
    assert_eq!(bench.posix.close(fd), Some(Ok(())));
    bench.arrive(socket, b"x");
    assert_eq!(bench.now_ready(epoll), [(fd, IN)], "epoll(7), question 6: reported under its old number");
    assert_eq!(bench.posix.close(copy), Some(Ok(())));
    assert_eq!(bench.now_ready(epoll), []);
}

#[test]
fn ends_and_failures_are_told_unasked() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, socket) = bench.socket(State::Connected);
    bench.add(epoll, fd, IN | RDHUP);
    bench.turn(|worker| {
        worker.set_flags(socket.index, Flags::PEER_CLOSED);
        worker.signal(socket.index);
    });
    assert_eq!(bench.now_ready(epoll), [(fd, IN | RDHUP)]);
    bench.turn(|worker| {
        let over = Flags(Flags::FAILED.0 | Flags::HUNG_UP.0);
        worker.set_error(socket.index, Failure::Reset, over);
        worker.set_state(socket.index, State::Closed);
        worker.signal(socket.index);
    });
    assert_eq!(bench.now_ready(epoll), [(fd, IN | RDHUP | HUP | ERR)]);
}

#[test]
fn a_connect_is_writable_when_it_is_done() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, socket) = bench.socket(State::Connecting);
    bench.add(epoll, fd, IN | OUT | ET);
    assert_eq!(bench.now_ready(epoll), []);
    bench.turn(|worker| {
        worker.set_state(socket.index, State::Connected);
        worker.signal(socket.index);
    });
    assert_eq!(bench.now_ready(epoll), [(fd, OUT)]);
}

#[test]
fn the_death_of_the_service_wakes_every_wait() {
    let mut bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, _) = bench.socket(State::Connected);
    bench.add(epoll, fd, IN);
    assert_eq!(bench.now_ready(epoll), []);
    bench.kill_service();
    let told = bench.wait(epoll, 4, LONG).expect("no error");
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0, told[0].1 & (IN | HUP | ERR)), (fd, IN | HUP | ERR));
}

/// The first epoll_ctl after the death was answered with ENOSPC: no wait context was available.
#[test]
fn a_socket_of_a_dead_service_is_watched_and_has_hung_up() {
    let mut bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, _) = bench.socket(State::Connected);
    bench.kill_service();
    bench.add(epoll, fd, IN);
    let told = bench.wait(epoll, 4, LONG).expect("no error");
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].0, told[0].1 & (IN | HUP | ERR)), (fd, IN | HUP | ERR));
}

#[test]
fn an_instance_in_an_instance_is_readable_when_a_socket_of_the_stack_is() {
    let bench = Bench::new();
    let (outer, inner) = (bench.epoll(), bench.epoll());
    let (fd, socket) = bench.socket(State::Connected);
    bench.add(inner, fd, IN);
    bench.add(outer, inner, IN);
    for _ in 0..3 {
        while !bench.wait(outer, 4, Some(Duration::ZERO)).expect("no error").is_empty() {
            assert_eq!(bench.now_ready(inner), [], "spurious, but it ends");
        }
        thread::scope(|scope| {
            scope.spawn(|| bench.arrive(socket, b"x"));
            assert_eq!(bench.wait(outer, 4, LONG), Ok(vec![(inner, IN)]));
        });
        assert_eq!(bench.now_ready(inner), [(fd, IN)]);
        assert_eq!(bench.wait(outer, 4, LONG), Ok(vec![(inner, IN)]), "it is still ready");
        bench.read(socket, 1);
    }
}

#[test]
fn many_threads_wait_on_one_instance_and_none_sleeps_on_work() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let sockets: Vec<_> = (0..4).map(|_| bench.socket(State::Connected)).collect();
    for &(fd, _) in &sockets {
        bench.add(epoll, fd, IN | ET);
    }
    let by_fd = |fd: Fd| sockets.iter().find(|(known, _)| *known == fd).expect("one of ours").1;
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let told = bench.wait(epoll, 1, LONG).expect("no error");
                    bench.read(by_fd(told[0].0), 1)
                })
            })
            .collect();
        for &(_, socket) in &sockets {
            bench.arrive(socket, b"x");
        }
        let read: usize = waiters.into_iter().map(|waiter| waiter.join().expect("it was woken")).sum();
        assert_eq!(read, 4);
    });
}

#[test]
fn a_thread_that_waits_already_sees_the_first_socket_of_the_stack() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (read, _write) = bench.pipe();
    bench.add(epoll, read, IN);
    let (fd, socket) = bench.socket(State::Connected);
    bench.arrive(socket, b"x");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| bench.wait(epoll, 4, LONG));
        bench.add(epoll, fd, IN);
        assert_eq!(waiter.join().expect("it was woken"), Ok(vec![(fd, IN)]));
    });
}

#[test]
fn a_storm_of_events_loses_none() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let sockets: Vec<_> = (0..8).map(|_| bench.socket(State::Connected)).collect();
    for (number, &(fd, _)) in sockets.iter().enumerate() {
        bench.add(epoll, fd, if number % 2 == 0 { IN } else { IN | ET });
    }
    let over = AtomicBool::new(false);
    let (bytes, rounds) = (8, 300);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..rounds {
                let socket = sockets[round * 5 % 8].1;
                while bench.turn(|worker| {
                    worker.reclaim();
                    worker.push_rx(socket.index, &vec![1; bytes]) == 0
                }) {
                    assert!(!over.load(Ordering::Relaxed));
                    thread::yield_now();
                }
                bench.turn(|worker| worker.signal(socket.index));
            }
        });
        let mut got = 0;
        while got < rounds * bytes {
            for (fd, _) in bench.wait(epoll, 3, LONG).expect("no error") {
                let socket = sockets.iter().find(|(known, _)| *known == fd).expect("one of ours").1;
                let mut room = [0; 4096];
                let channel = bench.posix.attached().expect("it is attached");
                while let Ok(count) = channel.receive(socket, &mut [IoSliceMut::new(&mut room)], crate::channel::Taking::Take) {
                    got += count;
                }
            }
        }
        over.store(true, Ordering::Relaxed);
        assert_eq!(got, rounds * bytes);
    });
}

/// In the child no other thread would release the lock.
#[test]
fn no_thread_has_an_instance_when_another_forks() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, _) = bench.socket(State::Connected);
    bench.add(epoll, fd, OUT);
    let is_free =
        || thread::scope(|scope| scope.spawn(|| bench.posix.epolls.cell(0).try_lock().is_ok()).join().expect("no panic"));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                bench.now_ready(epoll);
            }
        });
        for _ in 0..50 {
            bench.posix.before_fork();
            assert!(!is_free(), "the thread that forks has it");
            bench.posix.after_fork_in_parent(None);
            bench.posix.fork_is_over();
        }
        over.store(true, Ordering::Release);
    });
    assert!(is_free());
    assert_eq!(bench.now_ready(epoll), [(fd, OUT)]);
}

/// Linux: the watch is the open file's, and ends when the last process has closed it.
#[test]
fn a_socket_that_another_process_holds_is_watched_on() {
    let bench = Bench::new();
    let epoll = bench.epoll();
    let (fd, socket) = bench.socket(State::Connected);
    bench.add(epoll, fd, IN);
    bench.posix.before_fork();
    bench.posix.fork_is_over();
    assert_eq!(bench.posix.close(fd), Some(Ok(())));
    bench.arrive(socket, b"x");
    assert_eq!(bench.now_ready(epoll), [(fd, IN)]);
    bench.turn(|worker| worker.free_slot(socket.index));
    assert_eq!(bench.now_ready(epoll), [], "the child has closed it");
}

/// Another process that waits in the same kernel instance takes edges there. It takes none that is to wake this one.
#[test]
fn a_shared_instance_wakes_the_process_that_an_event_is_for() {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    let (epoll, (read, write)) = (bench.epoll(), bench.pipe());
    bench.add(epoll, fd, IN | ET);
    bench.add(epoll, read, IN);
    assert_eq!(bench.now_ready(epoll), []);
    bench.posix.after_fork_in_parent(Some(7));
    let (over, waits) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            // The kernel wakes the latest waiter first: the other process waits again and again.
            while !over.load(Ordering::Acquire) {
                waits.fetch_add(1, Ordering::AcqRel);
                let mut events = [epoll_event { events: 0, u64: 0 }; 8];
                bench.kernel.epoll_wait(epoll, &mut events, Some(Duration::from_millis(1)), None).expect("no error");
            }
        });
        let mut rounds = (0..20).map(|_| {
            let waiter = scope.spawn(|| bench.wait(epoll, 8, LONG));
            while bench.posix.epolls.lock(0).as_ref().is_none_or(|instance| instance.sleepers == 0) {
                thread::yield_now();
            }
            let before = waits.load(Ordering::Acquire);
            while waits.load(Ordering::Acquire) < before + 2 {
                thread::yield_now();
            }
            bench.arrive(socket, b"x");
            waiter.join().is_ok_and(|told| told == Ok(vec![(fd, IN)]))
        });
        let all = rounds.all(|woken| woken);
        over.store(true, Ordering::Release);
        assert!(all, "an event was lost");
    });
    bench.write_to(write);
    assert_eq!(bench.now_ready(epoll), [(read, IN)], "descriptors of the kernel are reported too");
    assert_eq!(bench.wait(epoll, 8, LONG), Ok(vec![(read, IN)]));
}

/// A writer far ahead of the stack yields to the worker, unless another socket has an event for the program.
#[test]
fn a_thread_that_writes_much_gives_way_unless_others_have_news() {
    let bench = Bench::new();
    let (fd, other) = bench.socket(State::Connected);
    let (_, writer) = bench.socket(State::Connected);
    let epoll = bench.epoll();
    bench.add(epoll, fd, IN | ET);
    assert_eq!(bench.now_ready(epoll), []);
    bench.kernel.yield_policy_takes.store(1_000, Ordering::Relaxed);
    bench.turn(|worker| {
        worker.set_spin_limit(Duration::from_micros(20));
        worker.set_send_limit(writer.index, 1 << 20);
    });
    let gives_way = |count| {
        let before = bench.kernel.now();
        let sent =
            bench.posix.send(writer, &[IoSlice::new(&vec![7; count])], crate::Send { dont_wait: true, ..Default::default() });
        assert_eq!(sent, Ok(count));
        bench.kernel.now() > before
    };
    for count in [32 << 10, 32 << 10, 32 << 10] {
        assert!(!gives_way(count), "not far ahead");
    }
    bench.arrive(other, b"news");
    assert!(!gives_way(32 << 10), "far ahead, but there is news");
    assert_eq!(bench.now_ready(epoll), [(fd, IN)]);
    bench.turn(|worker| {
        worker.tx_available(writer.index);
        let count = worker.copy_tx(writer.index, &mut [0; 32 << 10]);
        worker.release_tx(writer.index, count as u32);
    });
    assert!(gives_way(32 << 10), "far ahead, and the news was taken");
}
