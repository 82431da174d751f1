//! The TCP header, and a live connection whose peer sends arbitrary segments.

use std::net::IpAddr;

use ringway_shm::Duration;
use ringway_stack::SocketId;
use ringway_stack::handover::{ConnectionImage, ImportError};
use ringway_stack::wire::tcp::{self, Header};
use ringway_stack::wire::{ipv4, ipv6};

use crate::frames::complete;
use crate::host::{Host, PORT, address};
use crate::input::Input;

/// Maximum number of steps of one input.
const STEPS_MAX: usize = 512;
const PEER_PORT: u16 = 40_000;

/// Reads a header, writes it, reads it again: both readings must be equal.
pub(crate) fn options(bytes: &[u8]) {
    let Some((header, len)) = Header::parse(bytes) else { return };
    assert!((20..=60).contains(&len) && len <= bytes.len());
    let written_len = header.len();
    if written_len > tcp::HEADER_BYTES_MAX {
        return;
    }
    let mut written = [0; tcp::HEADER_BYTES_MAX];
    header.emit(&mut written[..written_len]);
    let (again, again_len) = Header::parse(&written[..written_len]).expect("what is written can be read");
    assert_eq!(again_len, written_len);
    assert_eq!(again.options, header.options);
}

/// One connection, seen from its peer.
struct Peer {
    host: Host,
    ipv6: bool,
    /// Next sequence number of the peer, and what it has received.
    next: u32,
    received: u32,
    first: u32,
    socket: Option<SocketId>,
}

/// A TCP header that the peer sends.
struct Sent<'a> {
    flags: u8,
    sequence: u32,
    acknowledgment: u32,
    window: u16,
    options: &'a [u8],
}

impl Peer {
    /// Opens a connection to the listener.
    fn connect(ipv6: bool, offers: &[u8]) -> Peer {
        let mut peer = Peer { host: Host::new(), ipv6, next: 1000, received: 0, first: 1001, socket: None };
        peer.send(Sent { flags: tcp::SYN, sequence: 1000, acknowledgment: 0, window: 0xffff, options: offers }, &[]);
        peer.next = 1001;
        peer.turn();
        let acknowledgment = peer.received;
        peer.send(Sent { flags: tcp::ACK, sequence: 1001, acknowledgment, window: 0xffff, options: &[] }, &[]);
        peer.turn();
        peer.socket = peer.host.accepted.first().copied();
        peer
    }

    fn addresses(&self) -> (IpAddr, IpAddr) {
        let mine = address(1, self.ipv6);
        let theirs = match mine {
            IpAddr::V4(ip) => IpAddr::from([ip.octets()[0], ip.octets()[1], ip.octets()[2], 2]),
            IpAddr::V6(ip) => {
                let mut octets = ip.octets();
                octets[15] = 2;
                octets.into()
            }
        };
        (theirs, mine)
    }

    fn send(&mut self, header: Sent<'_>, payload: &[u8]) {
        let Sent { flags, sequence, acknowledgment, window, options } = header;
        let mut options = options[..options.len().min(40)].to_vec();
        options.resize(options.len().next_multiple_of(4), 1);
        let mut segment = Vec::new();
        segment.extend(PEER_PORT.to_be_bytes());
        segment.extend(PORT.to_be_bytes());
        segment.extend(sequence.to_be_bytes());
        segment.extend(acknowledgment.to_be_bytes());
        segment.extend([((5 + options.len() / 4) << 4) as u8, flags]);
        segment.extend(window.to_be_bytes());
        segment.extend([0, 0, 0, 3]);
        segment.extend(options);
        segment.extend(payload);
        let mut packet = match self.addresses() {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total = (ipv4::HEADER_LEN + segment.len()) as u16;
                let mut header = [0; ipv4::HEADER_LEN];
                ipv4::Header::atomic(source, destination, 6, 64, total).write(&mut header);
                header.to_vec()
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let len = (segment.len() as u16).to_be_bytes();
                [&[0x60, 0, 0, 0, len[0], len[1], 6, 64][..], &source.octets(), &destination.octets()].concat()
            }
            _ => return,
        };
        packet.extend(segment);
        complete(&mut packet, 0);
        self.host.receive(1, &packet);
    }

    /// Runs the stack, and records what it sends.
    fn turn(&mut self) {
        let header_len = if self.ipv6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
        for packet in self.host.turn() {
            let Some((header, len)) = packet.get(header_len..).and_then(Header::parse) else { continue };
            let payload = packet.len() - header_len - len;
            let flags = packet[header_len + 13];
            let end = header.sequence.0.wrapping_add(payload as u32 + u32::from(flags & tcp::SYN != 0));
            self.received = end.wrapping_add(u32::from(flags & tcp::FIN != 0));
        }
    }

    /// Makes one call of an application.
    fn act(&mut self, what: u8, amount: usize) {
        let Some(socket) = self.socket else { return };
        let stack = &mut self.host.stack;
        match what % 6 {
            0 => {
                // A full buffer is a valid answer too.
                let sent = stack.send_with(socket, amount.max(1), &mut |piece| piece.fill(7));
                assert!(sent.is_err() || sent.is_ok_and(|sent| sent > 0));
            }
            1 | 2 => drop(self.host.read(socket)),
            3 => stack.shutdown_write(self.host.now, socket),
            4 => assert!(stack.info(socket).is_some() || stack.addresses(socket).is_none()),
            _ if amount == 3 => stack.close(self.host.now, socket),
            _ => {}
        }
    }

    /// Moves the connection out of the stack and back: whatever its peer has sent, the stack takes what it has given.
    fn relocate(&mut self) {
        let Some(socket) = self.socket else { return };
        if let Ok(image) = self.host.stack.export(self.host.now, socket)
            && let Err(error) = self.arrive(&image)
        {
            panic!("{error:?} of the stack's own image, {:?}, {:?}", image.state, image.receiving);
        }
    }

    /// Goes on with an image.
    fn arrive(&mut self, image: &ConnectionImage) -> Result<(), ImportError> {
        let socket = self.host.stack.import(self.host.now, image, 2)?;
        self.host.accepted.push(socket);
        self.socket = Some(socket);
        Ok(())
    }

    fn finish(self) {
        self.host.settle();
    }
}

/// Makes well-formed options; a byte of the input chooses which.
fn some_options(input: &mut Input<'_>, received: u32) -> Vec<u8> {
    let long = |value: u32| value.to_be_bytes();
    match input.byte() % 6 {
        0 => [&[8, 10][..], &long(input.distance()), &long(input.distance())].concat(),
        1 => {
            let (left, len) = (received.wrapping_add(input.distance()), input.distance());
            [&[5, 10][..], &long(left), &long(left.wrapping_add(len))].concat()
        }
        2 => input.take(12).to_vec(),
        3 => {
            let left = received.wrapping_sub(input.distance());
            [&[1, 1, 8, 10][..], &long(input.long()), &long(1), &[5, 10], &long(left), &long(received)].concat()
        }
        _ => Vec::new(),
    }
}

/// Runs a live connection: segments relative to the expected sequence number, the application's calls, time.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let ipv6 = input.byte() & 1 != 0;
    let offers: &[u8] = match input.byte() % 4 {
        0 => &[],
        1 => &[2, 4, 5, 180],
        2 => &[2, 4, 5, 180, 4, 2, 1, 3, 3, 7, 1, 1],
        _ => &[2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7],
    };
    let mut peer = Peer::connect(ipv6, offers);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        match input.byte() {
            0..=159 => {
                let flags = input.byte();
                let sequence = peer.next.wrapping_add(input.distance());
                let acknowledgment = peer.received.wrapping_sub(input.distance());
                let window = input.word();
                let received = peer.received;
                let options = some_options(&mut input, received);
                let payload = vec![1; usize::from(input.byte()) * 8];
                peer.send(Sent { flags, sequence, acknowledgment, window, options: &options }, &payload);
                if sequence == peer.next && flags & (tcp::SYN | tcp::RST) == 0 {
                    peer.next = peer.next.wrapping_add(payload.len() as u32 + u32::from(flags & tcp::FIN));
                }
            }
            what @ 160..=215 => {
                let amount = usize::from(input.word());
                peer.act(what, amount);
            }
            216..=239 => peer.host.wait(Duration::from_millis(u64::from(input.word()))),
            _ => peer.relocate(),
        }
        peer.turn();
    }
    peer.finish();
}

/// Forges the image of a connection with data in both directions: it is refused, or goes on without harm to the stack.
pub(crate) fn handover(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let ipv6 = input.byte() & 1 != 0;
    let mut peer = Peer::connect(ipv6, &[2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7]);
    let time = [8, 10, 0, 0, 0, 1, 0, 0, 0, 0];
    // Data in order, data behind a gap, data of ours.
    for offset in [0, 40] {
        let (sequence, acknowledgment) = (peer.first.wrapping_add(offset), peer.received);
        peer.send(Sent { flags: tcp::ACK, sequence, acknowledgment, window: 0xffff, options: &time }, &[1; 20]);
    }
    peer.act(0, usize::from(input.byte()) * 32);
    peer.turn();
    let Some(image) = peer.socket.and_then(|socket| peer.host.stack.export(peer.host.now, socket).ok()) else {
        return peer.finish();
    };
    let mut forged = image.encode();
    for _ in 0..=input.byte() % 8 {
        let at = usize::from(input.word()) % forged.len();
        forged[at] = input.byte();
    }
    let taken = ConnectionImage::decode(&forged).is_ok_and(|image| peer.arrive(&image).is_ok());
    for _ in 0..STEPS_MAX {
        if !taken || input.is_empty() {
            break;
        }
        let (flags, sequence) = (input.byte(), peer.next.wrapping_add(input.distance()));
        let acknowledgment = peer.received.wrapping_sub(input.distance());
        let header = Sent { flags, sequence, acknowledgment, window: input.word(), options: &time };
        peer.send(header, &vec![1; usize::from(input.byte())]);
        peer.act(input.byte(), usize::from(input.byte()));
        peer.host.wait(Duration::from_millis(u64::from(input.word())));
        peer.turn();
    }
    peer.finish();
}

/// Returns the byte at this distance from the first.
fn content(at: u32) -> u8 {
    (at.wrapping_mul(31) >> 3) as u8
}

/// Sends pieces of one stream in any order, overlapping: the stack must deliver the stream.
pub(crate) fn reassembly(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let ipv6 = input.byte() & 1 != 0;
    let mut peer = Peer::connect(ipv6, &[2, 4, 5, 180, 4, 2]);
    let Some(socket) = peer.socket else { panic!("a handshake without options succeeds") };
    let mut read = 0_u32;
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let offset = read.saturating_add(u32::from(input.word()) >> (input.byte() & 7)).saturating_sub(u32::from(input.byte()));
        let len = u32::from(input.word()) % 1461;
        let payload: Vec<u8> = (offset..offset + len).map(content).collect();
        let (sequence, acknowledgment) = (peer.first.wrapping_add(offset), peer.received);
        peer.send(Sent { flags: tcp::ACK, sequence, acknowledgment, window: 0xffff, options: &[] }, &payload);
        if input.byte() & 3 == 0 {
            peer.turn();
            for byte in peer.host.read(socket) {
                assert_eq!(byte, content(read), "at {read}");
                read += 1;
            }
        }
    }
    peer.finish();
}
