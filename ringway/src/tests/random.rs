//! Applications that do anything in any order: no panic, no frame lost.

use ringway_device::impair::Impairments;
use ringway_device::memory::MemoryOptions;
use ringway_shm::Duration;

use super::harness::{CLIENT, Pair, SERVER, address};
use crate::{Chunk, Net, Reservation, TcpListener, TcpListenerId, TcpStream, TcpStreamId, UdpSocket};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((z ^ z >> 31) >> 8) as usize % limit
    }
}

/// Sockets of one application. Ids stay in it after their sockets are closed: stale ones are tried too.
struct Application {
    listener: TcpListenerId,
    socket: UdpSocket,
    streams: Vec<TcpStreamId>,
    chunks: Vec<Chunk>,
    rooms: Vec<Reservation>,
}

impl Application {
    fn new(net: &mut Net, host: usize) -> Application {
        let listener = TcpListener::bind(net, address(host, 80)).expect("free").into_id();
        let socket = UdpSocket::bind(net, address(host, 53)).expect("free");
        Application { listener, socket, streams: Vec::new(), chunks: Vec::new(), rooms: Vec::new() }
    }

    fn act(&mut self, net: &mut Net, peer: usize, random: &mut Random) {
        if self.streams.is_empty() || random.below(40) == 0 {
            self.streams.extend(TcpStream::connect(net, address(peer, 80)).map(TcpStream::into_id));
        }
        self.streams.extend(self.listener.accept(net).map(TcpStream::into_id));
        if self.streams.is_empty() {
            return;
        }
        let stream = self.streams[random.below(self.streams.len())];
        match random.below(25) {
            0..=3 => self.chunks.extend(stream.read_chunk(net).ok().flatten()),
            4 => drop(stream.read(net, &mut vec![0; random.below(3_000)])),
            5..=7 => drop(stream.write(net, &vec![1; random.below(5_000)])),
            8 | 9 => self.rooms.extend(stream.reserve(net, random.below(3_000))),
            10 | 11 => self.commit(net, stream, random),
            12..=14 => self.forward(net, stream, random),
            15 => self.cut(random),
            16 => drop(self.take_chunk(random)),
            17 => self.take_chunk(random).into_iter().for_each(|chunk| stream.release(net, chunk)),
            18 if random.below(8) == 0 => stream.shutdown_write(net),
            19 if random.below(8) == 0 => stream.close(net),
            20 if random.below(16) == 0 => stream.abort(net),
            21 => drop(self.socket.send_to(net, &vec![2; random.below(4_000)], address(peer, 53))),
            22 => drop(self.socket.recv_chunk(net)),
            23 => stream.again(net),
            24 if random.below(8) == 0 => drop(TcpStream::from_id(net, stream)),
            _ => {}
        }
    }

    fn take_chunk(&mut self, random: &mut Random) -> Option<Chunk> {
        let len = self.chunks.len();
        (len > 0).then(|| self.chunks.swap_remove(random.below(len)))
    }

    fn commit(&mut self, net: &mut Net, stream: TcpStreamId, random: &mut Random) {
        if let Some(room) = self.rooms.pop() {
            let len = random.below(room.len() + 2);
            if let Err(rejected) = stream.commit(net, room, len) {
                self.rooms.push(rejected.item);
            }
        }
    }

    fn forward(&mut self, net: &mut Net, stream: TcpStreamId, random: &mut Random) {
        if let Some(chunk) = self.take_chunk(random)
            && let Err(rejected) = stream.write_chunk(net, chunk)
        {
            self.chunks.push(rejected.item);
        }
    }

    fn cut(&mut self, random: &mut Random) {
        if let Some(mut chunk) = self.take_chunk(random) {
            let count = random.below(chunk.len() + 1);
            self.chunks.push(chunk.split_to(count));
            let rest = random.below(chunk.len() + 1);
            chunk.advance(rest);
            self.chunks.push(chunk);
        }
    }

    fn give_up(mut self, net: &mut Net) {
        self.listener.close(net);
        drop(self.socket);
        self.streams.drain(..).for_each(|stream| stream.abort(net));
        self.chunks.clear();
        self.rooms.clear();
    }
}

/// Two applications act at random over a bad wire, with few frames; when they give up, every frame is free.
#[test]
fn whatever_applications_do_no_frame_is_lost() {
    for seed in 1..=12 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let wire = if seed % 2 == 0 { MemoryOptions::default() } else { MemoryOptions::offloading() };
        let bad = Impairments { loss_ppm: 10_000, duplicate_ppm: 5_000, reorder_ppm: 5_000, ..Impairments::default() };
        let mut pair = Pair::with(wire, bad, 256);
        let mut applications = [SERVER, CLIENT].map(|host| Application::new(&mut pair.nets[host], host));
        for _ in 0..4_000 {
            for (host, application) in applications.iter_mut().enumerate() {
                application.act(&mut pair.nets[host], 1 - host, &mut random);
            }
            if random.below(3) == 0 {
                pair.step();
                pair.events = [Vec::new(), Vec::new()];
            }
        }
        for (host, application) in applications.into_iter().enumerate() {
            application.give_up(&mut pair.nets[host]);
        }
        pair.run_for(Duration::from_secs(200));
        assert!(pair.frames_are_all_free(), "seed {seed}");
    }
}
