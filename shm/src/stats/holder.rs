//! What a user or an application group uses of its quotas, and its form in words.

use super::record::{text_words, words_text};

/// Words in front of the quotas: kind, number, user, process, and the program's name.
const HEAD: usize = 4 + PROGRAM_WORDS;
const PROGRAM_WORDS: usize = 2;
/// Words of a quota.
const QUOTA_WORDS: usize = 3;
/// Stands for a number that is not known.
const UNKNOWN: u64 = u64::MAX;

/// Words of a record with so many quotas.
pub(super) fn words(quotas: usize) -> usize {
    HEAD + quotas * QUOTA_WORDS
}

/// Holder of the quotas.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// All users of the service together.
    Service,
    /// A user, by its number.
    User(u32),
    /// An application group.
    Group {
        /// The region's number at its worker.
        region: u32,
        /// The user whose process made it.
        uid: u32,
        /// That process.
        pid: u32,
        /// The name of its program.
        program: String,
    },
}

/// One quota of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaRecord {
    /// What is used; `None`: it is not counted.
    pub used: Option<u64>,
    /// The most that may be used; `None`: without limit.
    pub limit: Option<u64>,
    /// How often more was wanted.
    pub hits: u64,
}

/// What a holder uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderRecord {
    /// Holder of the quotas.
    pub holder: Holder,
    /// By quota; `None`: it is no quota of such holders.
    pub quotas: Vec<Option<QuotaRecord>>,
}

impl HolderRecord {
    pub(super) fn encode(&self) -> Vec<u64> {
        let (head, program) = match &self.holder {
            Holder::Service => ([1, 0, 0, 0], ""),
            Holder::User(uid) => ([2, 0, u64::from(*uid), 0], ""),
            Holder::Group { region, uid, pid, program } => {
                ([3, u64::from(*region), u64::from(*uid), u64::from(*pid)], program.as_str())
            }
        };
        let mut encoded = Vec::with_capacity(words(self.quotas.len()));
        encoded.extend(head);
        encoded.extend(text_words::<PROGRAM_WORDS>(program));
        for quota in &self.quotas {
            // No quota has the limit 0: that word says that there is none here.
            encoded.extend(
                quota.map_or([0; QUOTA_WORDS], |quota| {
                    [quota.used.unwrap_or(UNKNOWN), quota.limit.unwrap_or(UNKNOWN), quota.hits]
                }),
            );
        }
        encoded
    }

    /// `None`: the words are no record.
    pub(super) fn decode(words: &[u64]) -> Option<HolderRecord> {
        let (head, quotas) = words.split_at_checked(HEAD)?;
        let number = |at: usize| u32::try_from(head[at]).ok();
        let holder = match head[0] {
            1 => Holder::Service,
            2 => Holder::User(number(2)?),
            3 => Holder::Group { region: number(1)?, uid: number(2)?, pid: number(3)?, program: words_text(&head[4..]) },
            _ => return None,
        };
        let known = |word: u64| (word != UNKNOWN).then_some(word);
        let quota = |words: &[u64]| match *words {
            [used, limit, hits] if limit != 0 => Some(QuotaRecord { used: known(used), limit: known(limit), hits }),
            _ => None,
        };
        Some(HolderRecord { holder, quotas: quotas.chunks(QUOTA_WORDS).map(quota).collect() })
    }
}
