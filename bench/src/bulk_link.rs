//! One end of a bulk transfer over the shared-memory link: a stack, a link, and an endless sender or reader.
//!
//! Does not do: measuring; `bin/link.rs` does.

use ringway_device::Device;
use ringway_device::memory::link::{Link, LinkOptions};
use ringway_shm::wire::WireEnd;
use ringway_shm::{Arena, ArenaConfig, Burst, Instant};
use ringway_stack::{ActiveOpen, Event, SendError, SocketAddress, SocketId, Stack, StackConfig, TcpOptions};

use crate::pair::join;

/// Largest write or read of an application.
const BUFFER_BYTES: usize = 65_536;
const PORT: u16 = 80;

/// A kind of link to measure.
pub struct LinkRow {
    /// Name for display.
    pub name: &'static str,
    /// Options of the link.
    pub options: LinkOptions,
}

const SEGMENTS: LinkOptions = LinkOptions { mtu: 1500, partial_checksums: true, segmentation_max_bytes: 0 };

/// All kinds.
pub const ROWS: &[LinkRow] = &[
    LinkRow { name: "1448 B segments, checksummed", options: LinkOptions { partial_checksums: false, ..SEGMENTS } },
    LinkRow { name: "1448 B segments", options: SEGMENTS },
    LinkRow { name: "super-segments", options: LinkOptions { segmentation_max_bytes: 65_535, ..SEGMENTS } },
];

/// One end.
pub struct End {
    stack: Stack,
    device: Link,
    inbound: Burst,
    outbound: [Burst; 1],
    epoch: std::time::Instant,
    socket: Option<SocketId>,
    sends: bool,
    buffer: Vec<u8>,
    /// Payload bytes that the application has read.
    pub received: u64,
    turns: u64,
    busy: u64,
}

impl End {
    /// Creates an end. The sending end opens the connection; the other listens.
    ///
    /// # Panics
    /// When memory is exhausted.
    pub fn new(wire: WireEnd, row: &LinkRow, sends: bool) -> End {
        let arena = Arena::new(ArenaConfig { large: 16_384, small: 8_192 });
        let number = if sends { 1 } else { 2 };
        let config = StackConfig { seed: u64::from(number), connections_max: 16, time_wait_max: 16, ..StackConfig::default() };
        let device = Link::with(wire, row.options, &arena).expect("the rings are as they were made");
        let mut stack = Stack::new(config, arena, Instant::ZERO);
        join(&mut stack, number, &device.capabilities());
        let server = SocketAddress { ip: [10, 0, 0, 2].into(), port: PORT };
        let socket = if sends {
            Some(stack.connect(Instant::ZERO, ActiveOpen::to(server)).expect("a route to the server"))
        } else {
            stack.listen(server, 16, TcpOptions::default(), 0).expect("a free port");
            None
        };
        let (inbound, outbound, epoch) = (Burst::default(), [Burst::default()], std::time::Instant::now());
        let buffer = vec![0x5a; BUFFER_BYTES];
        End { stack, device, inbound, outbound, epoch, socket, sends, buffer, received: 0, turns: 0, busy: 0 }
    }

    /// Number of received packets.
    pub fn packets(&self) -> u64 {
        self.device.counters().rx_packets
    }

    /// Describes the connection's state, to explain a result.
    pub fn describe(&self) -> String {
        let info = self.socket.and_then(|socket| self.stack.info(socket));
        info.map_or(String::new(), |info| {
            format!(
                "cwnd {}, rtt {} us (least {}), send window {}, unacked {}, retransmits {}; {} turns, {} with packets",
                info.cwnd_bytes,
                info.rtt_us,
                info.min_rtt_us,
                info.send_window,
                info.unacked_bytes,
                info.total_retransmits,
                self.turns,
                self.busy
            )
        })
    }

    /// Runs one iteration, as the worker does: packets in, data out, the application, data out.
    ///
    /// # Panics
    /// When the connection or the link fails.
    pub fn turn(&mut self) {
        let now = Instant::from_nanos(self.epoch.elapsed().as_nanos() as u64);
        let packets = self.device.receive(now, &mut self.inbound).expect("the other end keeps the rules");
        self.turns += 1;
        self.busy += u64::from(packets > 0);
        if packets > 0 {
            self.stack.receive(now, 0, &mut self.inbound);
        }
        let timed = self.stack.poll_timeout().is_some_and(|at| at <= now);
        if timed {
            self.stack.handle_timeout(now);
        }
        self.write(now);
        let mut worked = false;
        while let Some(event) = self.stack.poll_event() {
            worked = true;
            match event {
                Event::Ready { socket, .. } | Event::Connected { socket, .. } => self.serve(socket),
                Event::Accepted { listener, .. } => {
                    self.socket = self.stack.accept(listener, 0).ok();
                    self.socket.into_iter().for_each(|socket| self.serve(socket));
                }
                Event::Failed { error, .. } => panic!("the connection failed: {error:?}"),
                _ => {}
            }
        }
        if worked {
            self.write(now);
        }
    }

    fn write(&mut self, now: Instant) {
        while self.stack.transmit(now, &mut self.outbound) {}
        if !self.outbound[0].is_empty() {
            self.device.transmit(now, &mut self.outbound[0]).expect("the link does not fail");
        }
    }

    fn serve(&mut self, socket: SocketId) {
        if self.sends {
            loop {
                match self.stack.send_from(socket, BUFFER_BYTES, &mut &self.buffer[..]) {
                    Ok(_) => {}
                    Err(SendError::WouldBlock) => return,
                    Err(error) => panic!("the connection refuses bytes: {error:?}"),
                }
            }
        }
        let mut bytes = 0;
        while let Ok(frame) = self.stack.take_frame(socket) {
            let at = bytes % (BUFFER_BYTES - 4_096);
            self.buffer[at..at + frame.len()].copy_from_slice(frame.bytes());
            bytes += frame.len();
        }
        self.stack.consumed(socket, bytes);
        self.received += bytes as u64;
    }
}
