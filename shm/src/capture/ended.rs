//! Sockets that have ended, for tools that listen (`ringway ss -E`): the ring of packets once more, in a file of its own, with a socket's record in
//! place of a packet.
//!
//! Promises: those of the ring. Nothing is written while no tool listens; the writer asks before it makes a record.

use std::io;
use std::path::Path;

use super::{CaptureReader, CaptureWriter};
use crate::stats::{SOCKET_WORDS, SocketRecord};
use crate::time::Instant;

/// Bytes of the ring: some thousand records, which are memory once a tool has listened.
const RING_BYTES: usize = 4 << 20;

/// The worker's end.
#[derive(Debug)]
pub struct EndedWriter(CaptureWriter);

impl EndedWriter {
    /// Makes the file.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> io::Result<EndedWriter> {
        CaptureWriter::create(path, RING_BYTES, SOCKET_WORDS * size_of::<u64>()).map(EndedWriter)
    }

    /// Returns true if a tool listens.
    pub fn is_wanted(&self) -> bool {
        self.0.is_wanted()
    }

    /// Forgets tools whose process is gone.
    pub fn forget_readers(&self, is_alive: impl Fn(u32) -> bool) {
        self.0.forget_readers(is_alive);
    }

    /// Writes what a socket was like when it ended, at `now`.
    pub fn write(&mut self, now: Instant, socket: &SocketRecord) {
        self.0.write_words(now, &socket.encode());
    }
}

/// A tool's end. Registered from `open` to drop.
#[derive(Debug)]
pub struct EndedReader(CaptureReader);

impl EndedReader {
    /// Maps the file of a worker and registers; sockets that end from now on are seen, a second later at most where the worker is busy.
    ///
    /// # Errors
    /// As [`CaptureReader::open`].
    pub fn open(path: &Path) -> io::Result<EndedReader> {
        CaptureReader::open(path, None).map(EndedReader)
    }

    /// The next socket that has ended, and when. Never blocks: poll it some times a second.
    pub fn next_socket(&mut self) -> Option<(Instant, SocketRecord)> {
        loop {
            let packet = self.0.next_packet()?;
            let mut words = packet.bytes.chunks_exact(size_of::<u64>()).map(|word| {
                let mut bytes = [0; size_of::<u64>()];
                bytes.copy_from_slice(word);
                u64::from_le_bytes(bytes)
            });
            let words: [u64; SOCKET_WORDS] = std::array::from_fn(|_| words.next().unwrap_or(0));
            // What makes no sense is none.
            if let Some(socket) = SocketRecord::decode(&words) {
                return Some((packet.time, socket));
            }
        }
    }

    /// Sockets that this reader was too slow for.
    pub fn lost(&self) -> u64 {
        self.0.lost()
    }
}
