//! A small stack with both kinds of interfaces and both families, and a clock that the input moves.

use std::net::{IpAddr, Ipv6Addr};

use ringway_shm::{Arena, ArenaConfig, Burst, Class, Duration, Instant};
use ringway_stack::{
    Autoconfiguration, Cidr, Interface, MacAddress, Medium, Role, Route, SocketAddress, SocketId, Stack, StackConfig, TcpOptions,
    UdpConfig,
};

/// Number of frames of each class.
const FRAMES: u32 = 512;
/// Port of the listener.
pub(crate) const PORT: u16 = 80;

thread_local! {
    /// Taking and touching its memory costs more than what most inputs do with it, so all inputs share it: each input must
    /// return every frame.
    static ARENA: Arena = Arena::new(ArenaConfig { large: FRAMES, small: FRAMES });
}

pub(crate) struct Host {
    pub(crate) stack: Stack,
    pub(crate) arena: Arena,
    pub(crate) now: Instant,
    pub(crate) out: [Burst; 2],
    pub(crate) accepted: Vec<SocketId>,
    listeners: [SocketId; 2],
}

/// Returns the host's address on interface 0 or 1, of family 4 or 6.
pub(crate) fn address(interface: u8, ipv6: bool) -> IpAddr {
    if ipv6 { Ipv6Addr::new(0xfd00, interface.into(), 0, 0, 0, 0, 0, 1).into() } else { [10, 0, interface, 1].into() }
}

impl Host {
    /// Makes a host: interface 0 is Ethernet and the stack's alone; interface 1 is raw IP and shared with a kernel.
    pub(crate) fn new() -> Host {
        let arena = ARENA.with(Arena::clone);
        let config = StackConfig {
            seed: 7,
            connections_max: 16,
            listeners_max: 4,
            syn_queue_max: 16,
            time_wait_max: 16,
            neighbors_max: 16,
            reassembly_memory_bytes: 1 << 18,
            path_mtus_max: 16,
            udp: UdpConfig { sockets_max: 16, ..UdpConfig::default() },
            ..StackConfig::default()
        };
        let now = Instant::ZERO + Duration::from_secs(1);
        let mut stack = Stack::new(config, arena.clone(), now);
        for (number, medium, role) in [(0, Medium::Ethernet, Role::Owned), (1, Medium::Ip, Role::Shared)] {
            let interface = stack.add_interface(Interface {
                name: format!("fuzz{number}"),
                medium,
                mac: MacAddress([2, 0, 0, 0, 0, 1]),
                mtu: 1500,
                sends_partial_checksums: false,
                segmentation_max_bytes: 0,
                segmentation_max_segments: u32::MAX,
                segments_udp: false,
                gathers: true,
                role,
                autoconfiguration: if number == 0 { Autoconfiguration::Stable } else { Autoconfiguration::Off },
                detects_duplicates: false,
                vlan: None,
            });
            let networks =
                [Cidr { ip: address(number, false), prefix_len: 24 }, Cidr { ip: address(number, true), prefix_len: 64 }];
            stack.set_addresses(interface, networks.to_vec());
        }
        let routes = (0..2).flat_map(|number| {
            [(false, 24), (true, 64)].map(|(ipv6, prefix_len)| Route {
                destination: Cidr { ip: address(number, ipv6), prefix_len },
                gateway: None,
                interface: number.into(),
                metric: 0,
                source: None,
            })
        });
        stack.set_routes(routes.collect());
        let listeners = [IpAddr::from([0; 4]), IpAddr::from([0; 16])].map(|ip| {
            let anywhere = SocketAddress { ip, port: PORT };
            stack.listen(anywhere, 8, TcpOptions::default(), 1).expect("the port is free")
        });
        Host { stack, arena, now, out: [Burst::default(), Burst::default()], accepted: Vec::new(), listeners }
    }

    /// Passes a packet to the stack, in one frame or, when large, in several.
    pub(crate) fn receive(&mut self, interface: u32, bytes: &[u8]) {
        let mut burst = Burst::default();
        let mut pieces = bytes.chunks(1500).peekable();
        while let Some(piece) = pieces.next() {
            let Some(mut frame) = self.arena.alloc_from(piece) else { return };
            frame.set_continues(pieces.peek().is_some());
            burst.push(frame);
        }
        if !burst.is_empty() {
            self.stack.receive(self.now, interface, &mut burst);
        }
    }

    /// Runs one iteration (timers, events, packets out) and returns the packets sent, each whole.
    pub(crate) fn turn(&mut self) -> Vec<Vec<u8>> {
        if self.stack.poll_timeout().is_some_and(|at| at <= self.now) {
            self.stack.handle_timeout(self.now);
        }
        let mut sent = Vec::new();
        for _ in 0..16 {
            let more = self.stack.transmit(self.now, &mut self.out);
            for burst in &mut self.out {
                while !burst.is_empty() {
                    sent.push(burst.front_packet().flat_map(|frame| frame.bytes()).copied().collect());
                    burst.drop_packet();
                }
            }
            if !more {
                break;
            }
        }
        while self.stack.poll_event().is_some() {}
        for listener in self.listeners {
            while let Ok(socket) = self.stack.accept(listener, 2) {
                self.accepted.push(socket);
            }
        }
        sent
    }

    /// Advances the clock.
    pub(crate) fn wait(&mut self, span: Duration) {
        self.now += span;
    }

    /// Reads the data that has arrived in order.
    pub(crate) fn read(&mut self, socket: SocketId) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Ok(frame) = self.stack.take_frame(socket) {
            bytes.extend_from_slice(frame.bytes());
            self.stack.consumed(socket, frame.len());
        }
        bytes
    }

    /// Closes everything and advances the clock by hours; every frame must have been returned.
    ///
    /// # Panics
    /// When frames are missing.
    pub(crate) fn settle(mut self) {
        for socket in std::mem::take(&mut self.accepted) {
            self.stack.abort(self.now, socket);
        }
        for listener in self.listeners {
            self.stack.close(self.now, listener);
        }
        self.turn();
        for _ in 0..200 {
            let Some(at) = self.stack.poll_timeout() else { break };
            self.now = self.now.max(at);
            self.turn();
        }
        for class in [Class::Large, Class::Small] {
            let (free, all) = (self.arena.free(class), self.arena.capacity(class));
            assert_eq!(free, all, "frames of class {class:?} are missing");
        }
    }
}
