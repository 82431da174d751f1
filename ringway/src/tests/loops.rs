//! Two programs in one loop of poll(2), at the machine's time: each waits at the descriptor of its `Net`.

use std::os::fd::AsFd;

use ringway_device::memory::link::CAPACITY;
use ringway_shm::{ArenaConfig, wire};
use ringway_stack::{Cidr, StackConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::harness::address;
use crate::NetConfig;
use crate::{Event, Net, Nets, TcpListener, TcpStream};

const ROUNDS: u8 = 200;
/// A lost wake-up fails the test instead of hanging it.
const LIMIT: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

fn open(seed: u64, host: usize, end: wire::WireEnd) -> Net {
    open_with(seed, host, end, NetConfig::default())
}

fn open_with(seed: u64, host: usize, end: wire::WireEnd, config: NetConfig) -> Net {
    let stack = StackConfig { seed, ..StackConfig::default() };
    let config = NetConfig { stack, arena: ArenaConfig { large: 4096, small: 4096 }, ..config };
    let cidr = Cidr { ip: address(host, 0).ip(), prefix_len: 24 };
    let seats = Nets::links(&config, vec![end], cidr).expect("memory");
    seats.into_iter().map(|seat| seat.open().expect("memory")).next().expect("one was asked for")
}

/// Runs both until neither has anything to do, then waits for either. `serve` takes the events of one of them and ends the
/// loop by returning true. Returns how often a program was told not to wait.
fn run(nets: &mut [Net; 2], mut serve: impl FnMut(usize, &mut Net, Event) -> bool) -> u32 {
    let mut passes = 0;
    loop {
        let mut pending = false;
        for (host, net) in nets.iter_mut().enumerate() {
            while net.turn() {}
            while let Some(event) = net.next_event() {
                if serve(host, net, event) {
                    return passes;
                }
            }
            pending |= net.arm().expect("epoll works");
        }
        passes += u32::from(pending);
        if !pending {
            let mut set = [0, 1].map(|host| PollFd::from_borrowed_fd(nets[host].as_fd(), PollFlags::IN));
            assert!(poll(&mut set, Some(&LIMIT)).expect("poll(2) works") > 0, "a wake-up was lost");
        }
    }
}

#[test]
fn requests_and_answers_wake_each_other() {
    let (left, right) = wire::wire(CAPACITY).expect("memory");
    let mut nets = [open(1, 0, left), open(2, 1, right)];
    let listener = TcpListener::bind(&mut nets[0], address(0, 80)).expect("free");
    let client = TcpStream::connect(&mut nets[1], address(0, 80)).expect("a route").into_id();
    let (mut rounds, mut accepted) = (0, None);
    run(&mut nets, |_, net, event| {
        match event {
            Event::Listener(_) => accepted = listener.accept(net).ok(),
            Event::Stream(stream, ready) if stream == client && ready.connected => {
                assert_eq!(stream.write(net, b"again"), Ok(5));
            }
            Event::Stream(stream, ready) if ready.readable => {
                let mut buffer = [0; 8];
                assert_eq!(stream.read(net, &mut buffer), Ok(5));
                rounds += u8::from(stream == client);
                assert_eq!(stream.write(net, &buffer[..5]), Ok(5));
            }
            _ => {}
        }
        rounds == ROUNDS
    });
    assert!(accepted.is_some());
}

/// A program with a statistics file sleeps between two writes of it: what is due is written, and does not keep it awake.
#[test]
fn due_statistics_do_not_keep_a_program_awake() {
    let path = std::env::temp_dir().join(format!("ringway-loops-{}.stats", std::process::id()));
    let (left, right) = wire::wire(CAPACITY).expect("memory");
    let config = NetConfig { stats_path: Some(path.clone()), ..NetConfig::default() };
    let mut nets = [open_with(1, 0, left, config), open(2, 1, right)];
    let listener = TcpListener::bind(&mut nets[0], address(0, 80)).expect("free").into_id();
    let _client = TcpStream::connect(&mut nets[1], address(0, 80)).expect("a route");
    let mut accepted = None;
    nets[0].turn();
    // Longer than the statistics' interval.
    nets[0].after(std::time::Duration::from_millis(400), 7);
    let passes = run(&mut nets, |host, net, event| {
        if event == Event::Listener(listener) {
            accepted = listener.accept(net).ok();
        }
        host == 0 && event == Event::Timer(7)
    });
    assert!(accepted.is_some());
    std::fs::remove_file(&path).expect("it was written");
    assert!(passes < 100, "{passes} passes without a wait");
}

/// A timer of the program, and a call from another thread, end the wait.
#[test]
fn timers_and_other_threads_wake() {
    let (left, right) = wire::wire(CAPACITY).expect("memory");
    let mut nets = [open(1, 0, left), open(2, 1, right)];
    nets[0].turn();
    nets[0].after(std::time::Duration::from_millis(30), 7);
    run(&mut nets, |host, _, event| host == 0 && event == Event::Timer(7));
    while nets[0].turn() {}
    while nets[0].arm().expect("epoll works") {
        nets[0].turn();
    }
    nets[0].handle().stop();
    let mut set = [PollFd::from_borrowed_fd(nets[0].as_fd(), PollFlags::IN)];
    assert!(poll(&mut set, Some(&LIMIT)).expect("poll(2) works") > 0, "a wake-up was lost");
}
