//! The world: two ends on a wire that loses, reorders and doubles packets; each may move to a fresh stack with another clock.

use core::net::IpAddr;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use ringway_shm::{Arena, ArenaConfig, Burst, Class};

use crate::address::SocketAddress;
use crate::config::{StackConfig, TcpOptions};
use crate::error::{ReceiveError, SendError};
use crate::event::{Event, SocketError, SocketId};
use crate::handover::ConnectionImage;
use crate::ip::{Autoconfiguration, Interface, Medium, Role, Route};
use crate::stack::Stack;
use crate::tcp::State;
use crate::tcp::isn::mix;
use crate::{ActiveOpen, Cidr, Duration, Instant, MacAddress};

/// Pseudo-random numbers of a seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize].clone()
    }
}

/// What a run is about.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) is_ipv6: bool,
    pub(super) configs: [StackConfig; 2],
    pub(super) options: [TcpOptions; 2],
    /// Bytes that each end sends.
    pub(super) bytes: [u64; 2],
    /// Bytes that each end writes at a time.
    pub(super) piece: [u64; 2],
    /// One packet in this many is lost, late, doubled; 0: none.
    pub(super) faults: [u64; 3],
    /// Delay of the wire, microseconds.
    pub(super) delay_us: u64,
    /// Milliseconds between readings of each end.
    pub(super) reads_each_ms: [u64; 2],
    pub(super) mtu: u16,
    /// Nothing is expected of the bytes: an image was forged.
    pub(super) is_forged: bool,
    /// The stacks' clocks differ by parts of a millisecond too.
    pub(super) odd_clocks: bool,
}

impl Plan {
    pub(super) fn of(seed: u64) -> Plan {
        Plan {
            seed,
            is_ipv6: false,
            configs: [StackConfig::default(), StackConfig::default()],
            options: [TcpOptions::default(), TcpOptions::default()],
            bytes: [100_000, 100_000],
            piece: [5_000, 5_000],
            faults: [0; 3],
            delay_us: 5_000,
            reads_each_ms: [1, 1],
            mtu: 1_500,
            is_forged: false,
            odd_clocks: false,
        }
    }

    fn address(&self, end: usize) -> IpAddr {
        let number = end as u8 + 1;
        match self.is_ipv6 {
            false => [10, 0, 0, number].into(),
            true => core::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()).into(),
        }
    }
}

/// The byte at `at` of the stream that `end` sends.
fn byte(end: usize, at: u64) -> u8 {
    mix((at >> 3) ^ ((end as u64 + 1) << 60)).to_be_bytes()[(at & 7) as usize]
}

/// One end: its stack, and what its application knows.
pub(super) struct End {
    number: usize,
    pub(super) stack: Stack,
    pub(super) arena: Arena,
    /// The stack's time less the world's, microseconds.
    clock_us: u64,
    out: [Burst; 1],
    pub(super) id: Option<SocketId>,
    pub(super) written: u64,
    pub(super) read: u64,
    /// Taken, not consumed.
    owed: usize,
    read_at_ms: u64,
    pub(super) is_shut: bool,
    pub(super) peer_ended: bool,
    pub(super) failed: Option<SocketError>,
    pub(super) closed: bool,
    is_forged: bool,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) random: Random,
    pub(super) now: Instant,
    pub(super) ends: [End; 2],
    /// Packets on the wire, by arrival.
    wire: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    count: u64,
    /// Everything that was sent: time, end, bytes.
    pub(super) trace: Vec<(u64, usize, Vec<u8>)>,
    moves: u64,
}

impl End {
    fn new(plan: &Plan, number: usize, incarnation: u64) -> End {
        let arena = Arena::new(ArenaConfig { large: 4_096, small: 4_096 });
        // The first clocks are the world's, so that a run without moves is like one with them.
        let far = mix(plan.seed ^ incarnation << 32) % 5_000_000_000;
        let odd = if plan.odd_clocks { far % 1_000 } else { 0 };
        let clock_us = if incarnation == 0 { 0 } else { far / 1_000 * 1_000 + odd };
        let seed = plan.seed.wrapping_mul(31) + number as u64 + incarnation * 1_000;
        let config = StackConfig { seed, ..plan.configs[number].clone() };
        let mut stack = Stack::new(config, arena.clone(), Instant::from_micros(clock_us));
        let interface = stack.add_interface(Interface {
            name: "test".into(),
            medium: Medium::Ip,
            mac: MacAddress::default(),
            mtu: plan.mtu,
            sends_partial_checksums: false,
            segmentation_max_bytes: 0,
            segmentation_max_segments: u32::MAX,
            segments_udp: false,
            gathers: true,
            role: Role::Owned,
            autoconfiguration: Autoconfiguration::Off,
            detects_duplicates: false,
            vlan: None,
        });
        let network = Cidr { ip: plan.address(number), prefix_len: if plan.is_ipv6 { 64 } else { 24 } };
        stack.set_addresses(interface, vec![network]);
        stack.set_routes(vec![Route { destination: network, gateway: None, interface, metric: 0, source: None }]);
        End {
            number,
            stack,
            arena,
            clock_us,
            out: [Burst::default()],
            id: None,
            written: 0,
            read: 0,
            owed: 0,
            read_at_ms: 0,
            is_shut: false,
            peer_ended: false,
            failed: None,
            closed: false,
            is_forged: plan.is_forged,
        }
    }

    /// The stack's time.
    pub(super) fn time(&self, now: Instant) -> Instant {
        Instant::from_micros(now.as_micros() + self.clock_us)
    }

    pub(super) fn state(&self) -> State {
        self.id.and_then(|id| self.stack.info(id)).map_or(State::Closed, |info| info.state)
    }

    /// Takes events; an accepted connection is the end's.
    fn poll(&mut self) {
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Accepted { listener, .. } => self.id = self.stack.accept(listener, 7).ok(),
                Event::Failed { socket, error, .. } if Some(socket) == self.id => self.failed = Some(error),
                Event::Closed { socket, .. } if Some(socket) == self.id => self.closed = true,
                _ => {}
            }
        }
    }

    /// Writes, reads and ends as the plan says.
    fn work(&mut self, plan: &Plan, now: Instant, random: &mut Random) {
        self.poll();
        let Some(id) = self.id.filter(|_| !self.closed) else { return };
        let total = plan.bytes[self.number];
        if self.written < total && self.state().accepts_data() && self.state() != State::SynSent {
            let count = plan.piece[self.number].min(total - self.written) as usize;
            let (number, mut at) = (self.number, self.written);
            let mut fill = |piece: &mut [u8]| {
                piece.iter_mut().for_each(|to| {
                    *to = byte(number, at);
                    at += 1;
                });
            };
            match self.stack.send_with(id, count, &mut fill) {
                Ok(sent) => self.written += sent as u64,
                Err(SendError::WouldBlock | SendError::NotConnected | SendError::Closed) => {}
            }
        }
        if now.as_millis() >= self.read_at_ms {
            self.read_at_ms = now.as_millis() + plan.reads_each_ms[self.number];
            self.take(id, random);
        }
        if self.written == total && !self.is_shut && self.state() != State::SynSent {
            self.is_shut = true;
            self.stack.shutdown_write(self.time(now), id);
        }
    }

    fn take(&mut self, id: SocketId, random: &mut Random) {
        self.stack.consumed(id, core::mem::take(&mut self.owed));
        loop {
            match self.stack.take_frame(id) {
                Ok(frame) => {
                    let (other, from) = (1 - self.number, self.read);
                    let expected: Vec<u8> = (from..from + frame.len() as u64).map(|at| byte(other, at)).collect();
                    let is_right = frame.payload().to_vec() == expected;
                    assert!(is_right || self.is_forged, "the stream of end {other} at {from}");
                    self.read += frame.len() as u64;
                    // Some bytes are still being written to the application's memory.
                    if random.one_in(8) {
                        self.owed += frame.len();
                        return;
                    }
                    self.stack.consumed(id, frame.len());
                }
                Err(ReceiveError::EndOfStream) => {
                    self.peer_ended = true;
                    return;
                }
                Err(ReceiveError::Failed(error)) => {
                    self.failed = Some(error);
                    return;
                }
                Err(ReceiveError::WouldBlock | ReceiveError::NotConnected) => return,
            }
        }
    }

    /// The application does not read before `at`.
    pub(super) fn put_off_reading(&mut self, at: Instant) {
        self.read_at_ms = at.as_millis();
    }

    pub(super) fn assert_no_leak(&mut self) {
        self.out[0].clear();
        assert_eq!(self.arena.free(Class::Large), self.arena.capacity(Class::Large), "large frames");
        assert_eq!(self.arena.free(Class::Small), self.arena.capacity(Class::Small), "small frames");
    }
}

impl World {
    pub(super) fn new(plan: Plan) -> World {
        let ends = [0, 1].map(|number| End::new(&plan, number, 0));
        let random = Random(plan.seed);
        let now = Instant::from_millis(1_000);
        let mut world = World { plan, random, now, ends, wire: BTreeMap::new(), count: 0, trace: Vec::new(), moves: 0 };
        let server = SocketAddress { ip: world.plan.address(1), port: 80 };
        world.ends[1].stack.listen(server, 16, world.plan.options[1], 1).expect("the port is free");
        let options = world.plan.options[0];
        let local = SocketAddress { ip: world.plan.address(0), port: 4_000 };
        let open = ActiveOpen { local: Some(local), remote: server, options, user_token: 1 };
        let id = world.ends[0].stack.connect(now, open).expect("there is a route");
        world.ends[0].id = Some(id);
        world
    }

    /// Discards what is on the wire.
    pub(super) fn cut(&mut self) {
        self.wire.clear();
    }

    /// Puts what both ends send on the wire.
    pub(super) fn send(&mut self) {
        for number in [0, 1] {
            let end = &mut self.ends[number];
            let at = end.time(self.now);
            while end.stack.transmit(at, &mut end.out) {}
            while !end.out[0].is_empty() {
                let bytes: Vec<u8> = end.out[0].front_packet().flat_map(|frame| frame.payload().to_vec()).collect();
                end.out[0].drop_packet();
                self.trace.push((self.now.as_micros(), number, bytes.clone()));
                let [lost, late, doubled] = self.plan.faults.map(|count| count > 0 && self.random.one_in(count));
                if lost {
                    continue;
                }
                let extra = if late { self.random.below(4 * self.plan.delay_us + 1) } else { 0 };
                for _ in 0..=u8::from(doubled) {
                    self.count += 1;
                    let at = self.now.as_micros() + self.plan.delay_us + extra;
                    self.wire.insert((at, self.count), (1 - number, bytes.clone()));
                }
            }
        }
    }

    /// Delivers a packet.
    pub(super) fn deliver(&mut self, number: usize, bytes: &[u8]) {
        let end = &mut self.ends[number];
        let mut burst = Burst::default();
        push(&end.arena, bytes, &mut burst);
        end.stack.receive(end.time(self.now), 0, &mut burst);
    }

    /// Goes to the next instant at which something happens, at most a millisecond on.
    pub(super) fn step(&mut self) {
        let tick = Instant::from_millis(self.now.as_millis() + 1);
        let next = self.wire.keys().next().map_or(tick, |&(at, _)| Instant::from_micros(at)).min(tick);
        self.now = self.now.max(next);
        while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now.as_micros()) {
            let (number, bytes) = entry.remove();
            self.deliver(number, &bytes);
        }
        for number in [0, 1] {
            let end = &mut self.ends[number];
            let at = end.time(self.now);
            if end.stack.poll_timeout().is_some_and(|due| due <= at) {
                end.stack.handle_timeout(at);
            }
        }
        self.send();
        for number in [0, 1] {
            self.ends[number].work(&self.plan, self.now, &mut self.random);
        }
        self.send();
    }

    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.step();
        }
    }

    /// Returns true when both streams have arrived with their ends.
    pub(super) fn is_done(&self) -> bool {
        let arrived = |number: usize| self.ends[number].read == self.plan.bytes[1 - number] && self.ends[number].peer_ended;
        arrived(0) && arrived(1)
    }

    /// Steps until `is_over` holds.
    pub(super) fn until(&mut self, what: &str, mut is_over: impl FnMut(&World) -> bool) {
        for _ in 0..4_000_000 {
            if is_over(self) {
                return;
            }
            self.step();
        }
        let states = [0, 1].map(|number| (self.ends[number].state(), self.ends[number].written, self.ends[number].read));
        panic!("seed {}: {what} does not come: {states:?}", self.plan.seed);
    }

    /// Takes the connection of an end out of its stack; the value survives its encoding.
    pub(super) fn export(&mut self, number: usize) -> ConnectionImage {
        let end = &mut self.ends[number];
        let at = end.time(self.now);
        end.poll();
        let image = end.stack.export(at, end.id.expect("there is a connection")).expect("its state moves");
        let decoded = ConnectionImage::decode(&image.encode());
        assert!(decoded.as_ref() == Ok(&image), "seed {}: {:?}", self.plan.seed, brief(&image));
        assert!(!end.stack.transmit(at, &mut end.out) && end.out[0].is_empty(), "nothing is sent for it");
        end.assert_no_leak();
        image
    }

    /// Gives an end a fresh stack without the connection.
    pub(super) fn renew(&mut self, number: usize) {
        self.moves += 1;
        let fresh = End::new(&self.plan, number, self.moves);
        let old = core::mem::replace(&mut self.ends[number], fresh);
        let end = &mut self.ends[number];
        (end.written, end.read, end.owed, end.read_at_ms) = (old.written, old.read, old.owed, old.read_at_ms);
        (end.is_shut, end.peer_ended) = (old.is_shut, old.peer_ended);
    }

    /// Goes on with the connection in the end's present stack.
    pub(super) fn import(&mut self, number: usize, image: &ConnectionImage) {
        let end = &mut self.ends[number];
        let at = end.time(self.now);
        end.id = Some(
            end.stack
                .import(at, image, 7)
                .unwrap_or_else(|error| panic!("seed {}: {error:?} {:?}", self.plan.seed, brief(image))),
        );
    }

    /// Moves an end to a fresh stack. The value does not change by that: it comes out as it went in.
    pub(super) fn move_end(&mut self, number: usize) {
        let image = self.export(number);
        self.renew(number);
        self.import(number, &image);
        let again = self.export(number);
        if image != again {
            // The bytes themselves say nothing to a reader.
            assert_eq!(brief(&image), brief(&again), "seed {}: export, import, export", self.plan.seed);
            panic!("seed {}: the bytes of a queue have changed", self.plan.seed);
        }
        self.renew(number);
        self.import(number, &again);
    }
}

/// The image with one byte for each piece of data, for reports.
pub(super) fn brief(image: &ConnectionImage) -> ConnectionImage {
    let mut image = image.clone();
    image.receiving.unread.truncate(1);
    image.receiving.gaps.iter_mut().for_each(|gap| gap.data.truncate(1));
    image.sending.extents.iter_mut().for_each(|extent| extent.data.truncate(1));
    image
}

/// Appends a packet in frames of `arena`.
pub(super) fn push(arena: &Arena, bytes: &[u8], burst: &mut Burst) {
    let mut frame = arena.alloc(Class::Large).expect("the arena is large enough");
    frame.reserve(0);
    frame.extend(bytes.len()).copy_from_slice(bytes);
    burst.push(frame);
}
