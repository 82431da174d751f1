//! Two programs, a wire between them, and time that only a test advances.

use std::net::SocketAddr;

use ringway_device::impair::{Impair, Impairments};
use ringway_device::memory::{self, MemoryOptions};
use ringway_shm::{ArenaConfig, Class, Duration, Instant};
use ringway_stack::{Cidr, MacAddress, StackConfig};

use crate::{Event, Net, Ready, TcpListener, TcpStream, TcpStreamId};
use crate::{InterfaceInfo, NetConfig};

pub(super) const SERVER: usize = 0;
pub(super) const CLIENT: usize = 1;

/// Two programs on a wire.
pub(super) struct Pair {
    pub(super) now: Instant,
    pub(super) nets: [Net; 2],
    /// Events of each program that no test has looked at.
    pub(super) events: [Vec<Event>; 2],
}

pub(super) fn address(host: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host as u8 + 1], port))
}

fn config(seed: u64, frames: u32) -> NetConfig {
    let stack = StackConfig { seed, ..StackConfig::default() };
    NetConfig { stack, arena: ArenaConfig { large: frames, small: frames }, ..NetConfig::default() }
}

impl Pair {
    pub(super) fn new() -> Pair {
        Pair::with(MemoryOptions::default(), Impairments::default(), 8_192)
    }

    /// A pair on a wire of that kind, impaired in both directions, with so many frames of each class at each end.
    pub(super) fn with(wire: MemoryOptions, impairment: Impairments, frames: u32) -> Pair {
        Pair::prepared(wire, impairment, frames, |_, _| {})
    }

    /// The same; `prepare` has each program before it gets its interface.
    pub(super) fn prepared(
        wire: MemoryOptions,
        impairment: Impairments,
        frames: u32,
        mut prepare: impl FnMut(usize, &mut Net),
    ) -> Pair {
        let now = Instant::from_millis(1_000);
        let mut nets = [1, 2].map(|seed| Net::new_at(now, config(seed, frames)).expect("memory"));
        let (left, right) = memory::pair(nets[0].arena(), nets[1].arena(), wire);
        for (host, end) in [left, right].into_iter().enumerate() {
            let seed = host as u64 + 7;
            let device = Impair::new(Box::new(end), nets[host].arena(), seed, impairment, Impairments::default());
            let mac = MacAddress([2, 0, 0, 0, 0, host as u8 + 1]);
            let info = InterfaceInfo { name: "wire".into(), mac, mtu: 1500, owned: true, ..InterfaceInfo::default() };
            let cidr = Cidr { ip: address(host, 0).ip(), prefix_len: 24 };
            prepare(host, &mut nets[host]);
            nets[host].add_interface(&info, &[cidr], Box::new(device));
        }
        Pair { now, nets, events: [Vec::new(), Vec::new()] }
    }

    /// Runs one iteration of both; then advances time a little or, if nothing happened, to the next event.
    pub(super) fn step(&mut self) {
        let mut worked = false;
        for (net, events) in self.nets.iter_mut().zip(&mut self.events) {
            worked |= net.turn_at(self.now);
            events.extend(std::iter::from_fn(|| net.next_event()));
        }
        let next = self.now + Duration::from_micros(20);
        let due = self.nets.iter().filter_map(|net| net.poll_timeout()).min();
        self.now = if worked { next } else { due.unwrap_or(next).max(next) };
    }

    /// Steps until `done`.
    ///
    /// # Panics
    /// Panics if it takes too long.
    pub(super) fn run_until(&mut self, mut done: impl FnMut(&mut Pair) -> bool) {
        for _ in 0..1_000_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("it takes too long");
    }

    pub(super) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.step();
        }
    }

    /// A connection: the client's id, the server's.
    pub(super) fn connection(&mut self, port: u16) -> (TcpStreamId, TcpStreamId) {
        let listener = TcpListener::bind(&mut self.nets[SERVER], address(SERVER, port)).expect("the port is free");
        let client = TcpStream::connect(&mut self.nets[CLIENT], address(SERVER, port)).expect("there is a route").into_id();
        let mut server = None;
        self.run_until(|pair| {
            server = server.or_else(|| listener.accept(&mut pair.nets[SERVER]).ok().map(TcpStream::into_id));
            server.is_some()
        });
        listener.close(&mut self.nets[SERVER]);
        (client, server.expect("run_until waited for it"))
    }

    /// Returns true if all frames were given back.
    pub(super) fn frames_are_all_free(&self) -> bool {
        self.nets.iter().all(|net| {
            let arena = net.arena();
            let frames = [Class::Large, Class::Small].iter().all(|&class| arena.free(class) == arena.capacity(class));
            frames && arena.free_extents() == arena.extents()
        })
    }

    /// Takes an end's merged events of a stream.
    pub(super) fn news(&mut self, host: usize, stream: TcpStreamId) -> Ready {
        let mut all = Ready::default();
        self.events[host].retain(|event| match event {
            Event::Stream(of, ready) if *of == stream => {
                all = Ready {
                    readable: all.readable | ready.readable,
                    writable: all.writable | ready.writable,
                    connected: all.connected | ready.connected,
                    peer_closed: all.peer_closed | ready.peer_closed,
                    failed: all.failed | ready.failed,
                    urgent: all.urgent | ready.urgent,
                };
                false
            }
            _ => true,
        });
        all
    }

    /// Reads, by copying, everything that has arrived.
    pub(super) fn drain(&mut self, host: usize, stream: TcpStreamId, into: &mut Vec<u8>) {
        let mut buffer = [0; 4096];
        while let Ok(count) = stream.read(&mut self.nets[host], &mut buffer) {
            if count == 0 {
                return;
            }
            into.extend_from_slice(&buffer[..count]);
        }
    }
}

/// Bytes that differ from place to place (SplitMix64).
pub(super) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ z >> 27) as u8
    };
    (0..len).map(|_| next()).collect()
}
