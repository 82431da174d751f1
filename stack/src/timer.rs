//! A lazy hierarchical timer wheel: one entry per owner at most, re-armed by its owner on expiry.
//!
//! Three levels of 256 buckets, 1 ms ticks. An owner stores the tick of its live entry and its real deadlines; when a
//! deadline moves later it only stores the new one, and re-arms when the old entry expires. When a deadline moves earlier it
//! inserts another entry; the owner recognises the outdated one by its tick. Ticks are milliseconds modulo 2^32 and never
//! fire early. The wheel promises O(1) insertion, O(1) [`next_expiry`](TimerWheel::next_expiry) through bitmaps, and bounded
//! work per [`expire`](TimerWheel::expire). It does not know what the owners are.

use alloc::vec::Vec;
use ringway_shm::Instant;

const LEVELS: usize = 3;
const BUCKETS: usize = 256;
const NIL: u32 = u32::MAX;
/// Ticks beyond which an entry is put into the farthest bucket, and placed again from there.
const HORIZON: u32 = 1 << 24;

#[derive(Clone, Copy)]
struct Entry {
    owner: u32,
    tick: u32,
    next: u32,
}

struct Level {
    heads: [u32; BUCKETS],
    occupied: [u64; BUCKETS / 64],
}

/// The wheel.
pub(crate) struct TimerWheel {
    levels: [Level; LEVELS],
    entries: Vec<Entry>,
    free: u32,
    /// Everything up to and including this millisecond has expired.
    now_ms: u64,
    /// Entries that are due and not handed out yet.
    due: u32,
    /// Cached result of [`scan`](TimerWheel::scan): read in every iteration, changed rarely.
    next_ms: Option<u64>,
}

/// Microseconds per tick.
const TICK_MICROS: u64 = 1_000;

/// An instant in TCP's units: computed once per call, used by each segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The current tick.
    pub(crate) tick: u32,
    pub(crate) micros: u64,
    /// `micros` plus the amount that makes a division by the tick's microseconds round up.
    micros_up: u64,
}

impl Moment {
    pub(crate) fn at(now: Instant) -> Moment {
        let micros = now.as_micros();
        Moment { tick: tick_at(now), micros, micros_up: micros + TICK_MICROS - 1 }
    }

    /// Returns the tick at or after this instant and `delay_us` microseconds; never 0.
    #[inline(always)]
    pub(crate) fn tick_after(&self, delay_us: u64) -> u32 {
        (((self.micros_up + delay_us) / TICK_MICROS) as u32).max(1)
    }
}

/// Returns the tick at or after `now + delay_us` microseconds.
#[inline]
pub(crate) fn tick_after(now: Instant, delay_us: u64) -> u32 {
    (now.as_micros() + delay_us).div_ceil(1_000) as u32
}

/// Returns the current tick at `now`.
#[inline]
pub(crate) fn tick_at(now: Instant) -> u32 {
    now.as_millis() as u32
}

/// Returns the earliest of the given times.
#[inline(always)]
pub(crate) fn earliest<const COUNT: usize>(times: &[Option<Instant>; COUNT]) -> Option<Instant> {
    let mut earliest = None;
    for &time in times {
        earliest = match (earliest, time) {
            (Some(before), Some(time)) if before <= time => earliest,
            (earliest, None) => earliest,
            (_, time) => time,
        };
    }
    earliest
}

/// Returns the instant of `tick`, past or future, relative to millisecond `now_ms`.
#[inline]
pub(crate) fn instant_of(tick: u32, now_ms: u64) -> Instant {
    let delta = tick.wrapping_sub(now_ms as u32) as i32;
    Instant::from_millis(now_ms.saturating_add_signed(delta as i64))
}

/// Returns true when `tick` is not after tick `now`.
#[inline]
pub(crate) fn is_due(tick: u32, now: u32) -> bool {
    (now.wrapping_sub(tick) as i32) >= 0
}

impl Level {
    fn set(&mut self, bucket: usize, head: u32) {
        self.heads[bucket] = head;
        let bit = 1 << (bucket % 64);
        if head == NIL {
            self.occupied[bucket / 64] &= !bit;
        } else {
            self.occupied[bucket / 64] |= bit;
        }
    }

    /// Returns the number of buckets from `from` (counted round the wheel) to the first occupied one.
    fn distance(&self, from: usize) -> Option<usize> {
        for step in 0..=BUCKETS / 64 {
            let word = (from / 64 + step) % (BUCKETS / 64);
            let mut bits = self.occupied[word];
            if step == 0 {
                bits &= u64::MAX << (from % 64);
            } else if step == BUCKETS / 64 {
                bits &= !(u64::MAX << (from % 64));
            }
            if bits != 0 {
                let bucket = word * 64 + bits.trailing_zeros() as usize;
                return Some((bucket + BUCKETS - from) % BUCKETS);
            }
        }
        None
    }
}

impl TimerWheel {
    /// Makes an empty wheel whose past ends at `now`.
    pub(crate) fn new(now: Instant) -> TimerWheel {
        let level = || Level { heads: [NIL; BUCKETS], occupied: [0; BUCKETS / 64] };
        TimerWheel {
            levels: [level(), level(), level()],
            entries: Vec::new(),
            free: NIL,
            now_ms: now.as_millis(),
            due: NIL,
            next_ms: None,
        }
    }

    /// Adds an entry. A tick in the past expires at the next [`expire`](TimerWheel::expire).
    pub(crate) fn insert(&mut self, owner: u32, tick: u32) {
        let entry = Entry { owner, tick, next: NIL };
        let index = if self.free == NIL {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        } else {
            let index = self.free;
            self.free = self.entries[index as usize].next;
            self.entries[index as usize] = entry;
            index
        };
        if let Some(at) = self.place(index) {
            self.next_ms = Some(self.next_ms.map_or(at, |next| next.min(at)));
        }
    }

    /// Puts an entry into its bucket. Returns the bucket's time, unless the entry is due.
    fn place(&mut self, index: u32) -> Option<u64> {
        let now = self.now_ms as u32;
        let tick = self.entries[index as usize].tick;
        if is_due(tick, now) {
            self.entries[index as usize].next = self.due;
            self.due = index;
            return None;
        }
        let delta = tick.wrapping_sub(now);
        let at = self.now_ms + u64::from(delta);
        let (level, start) = if delta < 256 {
            (0, at)
        } else if delta < 1 << 16 {
            (1, at >> 8)
        } else if delta < HORIZON {
            (2, at >> 16)
        } else {
            (2, (self.now_ms >> 16) + 255)
        };
        let bucket = (start & 255) as usize;
        let heads = &mut self.levels[level];
        self.entries[index as usize].next = heads.heads[bucket];
        heads.set(bucket, index);
        Some(start << (8 * level))
    }

    /// Returns the bytes of all entries, including free ones.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
    }

    /// Returns when to call [`expire`](TimerWheel::expire) next; may be earlier than the first entry's tick, never later.
    #[inline]
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        if self.due != NIL {
            return Some(Instant::from_millis(self.now_ms));
        }
        debug_assert_eq!(self.next_ms, self.scan());
        self.next_ms.map(Instant::from_millis)
    }

    /// Returns the millisecond of the next occupied bucket.
    fn scan(&self) -> Option<u64> {
        let mut next: Option<u64> = None;
        for (number, level) in self.levels.iter().enumerate() {
            let shift = 8 * number as u64;
            let current = self.now_ms >> shift;
            let Some(distance) = level.distance(((current + 1) & 255) as usize) else { continue };
            let at = (current + 1 + distance as u64) << shift;
            next = Some(next.map_or(at, |n| n.min(at)));
        }
        next
    }

    /// Advances time to `now` and appends up to `limit` due entries to `expired`. Returns true when more are due.
    pub(crate) fn expire(&mut self, now: Instant, limit: usize, expired: &mut Vec<(u32, u32)>) -> bool {
        let target = now.as_millis();
        loop {
            while self.due != NIL {
                if expired.len() >= limit {
                    return true;
                }
                let index = self.due;
                let entry = self.entries[index as usize];
                self.due = entry.next;
                self.entries[index as usize].next = self.free;
                self.free = index;
                expired.push((entry.owner, entry.tick));
            }
            match self.next_ms {
                Some(at) if at <= target => self.advance_to(at),
                _ => break,
            }
        }
        self.now_ms = self.now_ms.max(target);
        false
    }

    /// Advances to a millisecond that is not beyond the next occupied bucket's start.
    fn advance_to(&mut self, at: u64) {
        self.now_ms = at;
        let due_bucket = (at & 255) as usize;
        if at & 0xffff == 0 {
            self.empty_bucket(2, ((at >> 16) & 255) as usize);
        }
        if at & 0xff == 0 {
            self.empty_bucket(1, ((at >> 8) & 255) as usize);
        }
        self.take_due(due_bucket);
        self.next_ms = self.scan();
    }

    /// Moves a bucket of the nearest level to the due list. Its entries are all due at the same millisecond, so the list
    /// moves as it is. The due list is empty before, unless the farther levels have just added entries of this millisecond.
    fn take_due(&mut self, bucket: usize) {
        let head = core::mem::replace(&mut self.levels[0].heads[bucket], NIL);
        self.levels[0].set(bucket, NIL);
        if self.due == NIL {
            self.due = head;
            return;
        }
        let mut index = head;
        while index != NIL {
            let next = core::mem::replace(&mut self.entries[index as usize].next, self.due);
            self.due = index;
            index = next;
        }
    }

    /// Places all entries of a bucket again, into a nearer bucket or the due list.
    fn empty_bucket(&mut self, level: usize, bucket: usize) {
        let mut index = self.levels[level].heads[bucket];
        self.levels[level].set(bucket, NIL);
        while index != NIL {
            let next = self.entries[index as usize].next;
            self.place(index);
            index = next;
        }
    }
}

#[cfg(test)]
mod tests;
