//! A connection after a packet of it, as the worker sees it: what `ringway trace` prints beside the packet.

use crate::stats::{InfoRecord, TimerRecord};
use crate::time::Instant;
use crate::waits_for::WaitsFor;

const INFO_WORDS: usize = InfoRecord::BYTES / 8;
/// Words of the form in the ring.
pub(super) const WORDS: usize = INFO_WORDS + 2;
const PROBING: u64 = 1 << 8;

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Its values; half open and in TIME-WAIT it has only a state.
    pub info: InfoRecord,
    /// The timer that is set.
    pub timer: Option<TimerRecord>,
    /// What it waits for before it sends more.
    pub waits: WaitsFor,
    /// A tail loss probe is due or has no answer yet.
    pub probing: bool,
}

impl Observed {
    pub(super) fn encode(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(self.info.to_bytes().chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("chunks of eight"));
        }
        let timer = self.timer.unwrap_or(TimerRecord { kind: 0, retries: 0, due: Instant::ZERO });
        let probing = if self.probing { PROBING } else { 0 };
        words[INFO_WORDS] = self.waits as u64 | probing | u64::from(timer.kind) << 16 | u64::from(timer.retries) << 24;
        words[INFO_WORDS + 1] = timer.due.as_nanos();
        words
    }

    pub(super) fn decode(words: &[u64; WORDS]) -> Observed {
        let bytes: Vec<u8> = words[..INFO_WORDS].iter().flat_map(|word| word.to_le_bytes()).collect();
        let rest = words[INFO_WORDS];
        let kind = (rest >> 16) as u8;
        let due = Instant::from_nanos(words[INFO_WORDS + 1]);
        Observed {
            info: InfoRecord::from_bytes(&bytes),
            timer: (kind != 0).then_some(TimerRecord { kind, retries: (rest >> 24) as u8, due }),
            waits: WaitsFor::ALL.get(usize::from(rest as u8)).copied().unwrap_or(WaitsFor::Nothing),
            probing: rest & PROBING != 0,
        }
    }
}
