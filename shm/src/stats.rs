//! Statistics that tools read while a worker runs, without talking to it: counters, interfaces and
//! one record per socket, and one per user and application group, in a file that the worker maps for writing and tools for reading.
//!
//! ```text
//! header | counter names | counter values | interface records | socket records | quota names | holder records
//! ```
//! Promises: a value is never torn; a socket or interface record is read whole or not at all (each
//! has a sequence word, odd while it is being written). Values may be up to 100 ms old. Does not
//! do: trust. A reader checks counts against the size of the file before it uses them.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::file_map::{FileMap, Mode};

mod record;

mod holder;

pub use holder::{Holder, HolderRecord, QuotaRecord};
pub use record::{HOLDERS_NAMED, InfoRecord, InterfaceRecord, SocketRecord, TimerRecord};

/// Words of a socket's record.
pub(crate) const SOCKET_WORDS: usize = record::WORDS;

const MAGIC: u64 = u64::from_le_bytes(*b"RWSTATS\0");
const VERSION: u64 = 5;
/// Words of a counter's name.
const NAME_WORDS: usize = 6;
/// Words of a record with its sequence word.
const RECORD_WORDS: usize = 1 + record::WORDS;
/// Interfaces at most.
pub const INTERFACES_MAX: usize = 16;
/// How often a torn record is read again.
const RETRIES: usize = 64;

/// Where things are in the header, in words.
mod header {
    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION: usize = 1;
    pub(super) const PID: usize = 2;
    pub(super) const COUNTERS: usize = 3;
    pub(super) const SOCKETS: usize = 4;
    /// Socket records that were ever used.
    pub(super) const SOCKETS_USED: usize = 5;
    pub(super) const QUOTAS: usize = 6;
    pub(super) const HOLDERS: usize = 7;
    /// Holder records that are in use.
    pub(super) const HOLDERS_USED: usize = 8;
    pub(super) const WORDS: usize = 16;
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    counters: usize,
    sockets: usize,
    quotas: usize,
    holders: usize,
}

impl Layout {
    fn names(self) -> usize {
        header::WORDS
    }
    fn values(self) -> usize {
        self.names() + self.counters * NAME_WORDS
    }
    fn interfaces(self) -> usize {
        self.values() + self.counters
    }
    fn sockets(self) -> usize {
        self.interfaces() + INTERFACES_MAX * RECORD_WORDS
    }
    fn quota_names(self) -> usize {
        self.sockets() + self.sockets * RECORD_WORDS
    }
    fn holders(self) -> usize {
        self.quota_names() + self.quotas * NAME_WORDS
    }
    /// Words of a holder's record with its sequence word.
    fn holder_words(self) -> usize {
        1 + holder::words(self.quotas)
    }
    fn words(self) -> usize {
        self.holders() + self.holders * self.holder_words()
    }
}

/// What the file names once: counters, and quotas by their keys.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// In the order of the values.
    pub counters: &'a [&'a str],
    /// In the order of [`HolderRecord::quotas`].
    pub quotas: &'a [&'a str],
}

/// The worker's end: the only writer.
#[derive(Debug)]
pub struct StatsWriter {
    map: FileMap,
    layout: Layout,
    used: usize,
}

impl StatsWriter {
    /// Makes the file with room for `sockets` and `holders` records and one value per counter.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path, names: Names<'_>, sockets: usize, holders: usize) -> io::Result<StatsWriter> {
        let layout = Layout { counters: names.counters.len(), sockets, quotas: names.quotas.len(), holders };
        let map = FileMap::create(path, layout.words(), 0o644)?;
        for (first, names) in [(layout.names(), names.counters), (layout.quota_names(), names.quotas)] {
            for (index, name) in names.iter().enumerate() {
                let words = record::text_words::<NAME_WORDS>(name);
                store(map.atomics(first + index * NAME_WORDS, NAME_WORDS), &words);
            }
        }
        let head = map.atomics(0, header::WORDS);
        head[header::VERSION].store(VERSION, Ordering::Relaxed);
        head[header::PID].store(u64::from(std::process::id()), Ordering::Relaxed);
        head[header::COUNTERS].store(layout.counters as u64, Ordering::Relaxed);
        head[header::SOCKETS].store(sockets as u64, Ordering::Relaxed);
        head[header::QUOTAS].store(layout.quotas as u64, Ordering::Relaxed);
        head[header::HOLDERS].store(holders as u64, Ordering::Relaxed);
        head[header::MAGIC].store(MAGIC, Ordering::Release);
        Ok(StatsWriter { map, layout, used: 0 })
    }

    /// Socket records there are.
    pub fn sockets_max(&self) -> usize {
        self.layout.sockets
    }

    /// Writes counters from `first` on.
    ///
    /// # Panics
    /// When there are not so many names.
    pub fn set_counters(&self, first: usize, values: &[u64]) {
        assert!(first + values.len() <= self.layout.counters, "one value per name");
        store(self.map.atomics(self.layout.values() + first, values.len()), values);
    }

    /// Writes the record of socket `index`; `None` empties it.
    ///
    /// # Panics
    /// When `index` is not below `sockets_max`.
    pub fn set_socket(&mut self, index: usize, socket: Option<&SocketRecord>) {
        assert!(index < self.layout.sockets, "inside the table");
        if index >= self.used {
            self.used = index + 1;
            self.map.atomics(header::SOCKETS_USED, 1)[0].store(self.used as u64, Ordering::Release);
        }
        let words = socket.map_or([0; record::WORDS], SocketRecord::encode);
        self.set_record(self.layout.sockets() + index * RECORD_WORDS, &words);
    }

    /// Writes the record of an interface.
    ///
    /// # Panics
    /// When `index` is not below [`INTERFACES_MAX`].
    pub fn set_interface(&self, index: usize, interface: &InterfaceRecord) {
        assert!(index < INTERFACES_MAX, "inside the table");
        self.set_record(self.layout.interfaces() + index * RECORD_WORDS, &interface.encode());
    }

    /// Replaces the records of users and groups.
    ///
    /// # Panics
    /// When there are more than the file has room for, or one does not have all quotas.
    pub fn set_holders(&mut self, holders: &[HolderRecord]) {
        assert!(holders.len() <= self.layout.holders, "inside the table");
        for (index, holder) in holders.iter().enumerate() {
            assert!(holder.quotas.len() == self.layout.quotas, "one for each name");
            self.set_record(self.layout.holders() + index * self.layout.holder_words(), &holder.encode());
        }
        self.map.atomics(header::HOLDERS_USED, 1)[0].store(holders.len() as u64, Ordering::Release);
    }

    fn set_record(&self, at: usize, words: &[u64]) {
        let target = self.map.atomics(at, 1 + words.len());
        let sequence = target[0].load(Ordering::Relaxed);
        target[0].store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        store(&target[1..], words);
        target[0].store(sequence.wrapping_add(2), Ordering::Release);
    }
}

fn store(target: &[AtomicU64], words: &[u64]) {
    for (cell, word) in target.iter().zip(words) {
        cell.store(*word, Ordering::Relaxed);
    }
}

/// A tool's end.
#[derive(Debug)]
pub struct StatsReader {
    map: FileMap,
    layout: Layout,
}

impl StatsReader {
    /// Maps the statistics of a worker.
    ///
    /// # Errors
    /// What the system says; `InvalidData` when it is not such a file.
    pub fn open(path: &Path) -> io::Result<StatsReader> {
        let map = FileMap::open(path, Mode::Read)?;
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        if map.words() < header::WORDS
            || map.load(header::MAGIC, Ordering::Acquire) != MAGIC
            || map.load(header::VERSION, Ordering::Relaxed) != VERSION
        {
            return Err(bad());
        }
        let counters = map.load(header::COUNTERS, Ordering::Relaxed);
        let sockets = map.load(header::SOCKETS, Ordering::Relaxed);
        let quotas = map.load(header::QUOTAS, Ordering::Relaxed);
        let holders = map.load(header::HOLDERS, Ordering::Relaxed);
        if counters > 1 << 16 || sockets > 1 << 24 || quotas > 1 << 10 || holders > 1 << 16 {
            return Err(bad());
        }
        let [counters, sockets, quotas, holders] = [counters, sockets, quotas, holders].map(|count| count as usize);
        let layout = Layout { counters, sockets, quotas, holders };
        if layout.words() > map.words() {
            return Err(bad());
        }
        Ok(StatsReader { map, layout })
    }

    /// Process that runs the worker.
    pub fn pid(&self) -> u32 {
        self.map.load(header::PID, Ordering::Relaxed) as u32
    }

    /// All counters: name and value, in the writer's order.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let value = |index: usize| self.map.load(self.layout.values() + index, Ordering::Relaxed);
        (0..self.layout.counters).map(|index| (self.name(self.layout.names(), index), value(index))).collect()
    }

    /// The keys of the quotas, in the order of [`HolderRecord::quotas`].
    pub fn quotas(&self) -> Vec<String> {
        (0..self.layout.quotas).map(|index| self.name(self.layout.quota_names(), index)).collect()
    }

    /// What users and groups use of their quotas. A record that is being rewritten all the time is left out.
    pub fn holders(&self) -> Vec<HolderRecord> {
        let used = self.map.load(header::HOLDERS_USED, Ordering::Acquire).min(self.layout.holders as u64) as usize;
        let mut words = vec![0; holder::words(self.layout.quotas)];
        (0..used)
            .filter_map(|index| {
                let at = self.layout.holders() + index * self.layout.holder_words();
                if self.read_record(at, &mut words) { HolderRecord::decode(&words) } else { None }
            })
            .collect()
    }

    fn name(&self, first: usize, index: usize) -> String {
        let mut name = [0; NAME_WORDS];
        self.load(first + index * NAME_WORDS, &mut name);
        record::words_text(&name)
    }

    /// All interfaces, by number.
    pub fn interfaces(&self) -> Vec<(u32, InterfaceRecord)> {
        (0..INTERFACES_MAX)
            .filter_map(|index| {
                let words = self.record(self.layout.interfaces() + index * RECORD_WORDS)?;
                Some((index as u32, InterfaceRecord::decode(&words)?))
            })
            .collect()
    }

    /// All sockets. A record that is being rewritten all the time is left out.
    pub fn sockets(&self) -> Vec<SocketRecord> {
        let used = self.map.load(header::SOCKETS_USED, Ordering::Acquire).min(self.layout.sockets as u64) as usize;
        (0..used)
            .filter_map(|index| {
                let words = self.record(self.layout.sockets() + index * RECORD_WORDS)?;
                SocketRecord::decode(&words)
            })
            .collect()
    }

    fn record(&self, at: usize) -> Option<[u64; record::WORDS]> {
        let mut words = [0; record::WORDS];
        self.read_record(at, &mut words).then_some(words)
    }

    /// Reads a record whole; `false`: it was being rewritten each time.
    fn read_record(&self, at: usize, words: &mut [u64]) -> bool {
        for _ in 0..RETRIES {
            let before = self.map.load(at, Ordering::Acquire);
            if before & 1 == 1 {
                std::hint::spin_loop();
                continue;
            }
            self.load(at + 1, words);
            fence(Ordering::Acquire);
            if self.map.load(at, Ordering::Relaxed) == before {
                return true;
            }
        }
        false
    }

    fn load(&self, at: usize, words: &mut [u64]) {
        for (offset, word) in words.iter_mut().enumerate() {
            *word = self.map.load(at + offset, Ordering::Relaxed);
        }
    }
}

/// An address and a port, as records hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address; unspecified means any.
    pub ip: IpAddr,
    /// The port; 0 means any.
    pub port: u16,
}

#[cfg(test)]
pub(crate) mod tests;
