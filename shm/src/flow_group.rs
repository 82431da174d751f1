//! Flow groups: the unit in which packets are given to the workers of one interface.
//!
//! ```text
//!  word = all address words xor both ports           (IPv4: 2 words, IPv6: 8)
//!  group = (word * 2654435769 mod 2^32) >> 25         0 to 127
//! ```
//! Promises: both directions of a flow have the same group; it is the same in every process and in the eBPF programs of the
//! devices, which compute it with eight instructions. Ports that follow each other spread evenly. Does not do: hiding it
//! from peers. A peer that chooses its addresses or ports can put all its flows on one worker, as with any steering whose key is
//! known; it gains no more than one worker's share.

use core::net::IpAddr;

/// Flow groups.
pub const GROUPS: usize = 128;
/// 2^32 divided by the golden ratio.
pub const MULTIPLIER: u32 = 0x9e37_79b9;
/// Bits behind those of the group.
pub const SHIFT: u32 = 25;

/// Which of the [`GROUPS`] a flow is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowGroup(u8);

/// A connection, as this end of it sees it: addresses and ports in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// Our end.
    pub local: (IpAddr, u16),
    /// The peer's.
    pub remote: (IpAddr, u16),
}

/// Some of the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSet(u128);

fn word(ip: IpAddr) -> u32 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits(),
        IpAddr::V6(ip) => {
            let bits = ip.to_bits();
            (bits ^ (bits >> 32) ^ (bits >> 64) ^ (bits >> 96)) as u32
        }
    }
}

impl Flow {
    /// The group that it is in.
    pub fn group(&self) -> FlowGroup {
        FlowGroup::of(self.local, self.remote)
    }
}

impl FlowGroup {
    /// The group of the flow between two ends, in whichever order.
    #[inline]
    pub fn of(one: (IpAddr, u16), other: (IpAddr, u16)) -> FlowGroup {
        FlowGroup::of_word(word(one.0) ^ word(other.0) ^ u32::from(one.1 ^ other.1))
    }

    /// The group of a flow whose address words and ports, as numbers, are `word` when all are combined by exclusive or.
    #[inline]
    pub fn of_word(word: u32) -> FlowGroup {
        FlowGroup((word.wrapping_mul(MULTIPLIER) >> SHIFT) as u8)
    }

    /// The group with this number; `None`: there is none.
    pub fn new(index: usize) -> Option<FlowGroup> {
        (index < GROUPS).then_some(FlowGroup(index as u8))
    }

    /// Its number, below [`GROUPS`].
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// All groups.
    pub fn all() -> impl Iterator<Item = FlowGroup> {
        (0..GROUPS as u8).map(FlowGroup)
    }
}

impl GroupSet {
    /// Every group.
    pub const ALL: GroupSet = GroupSet(u128::MAX);
    /// No group.
    pub const NONE: GroupSet = GroupSet(0);

    /// Whether `group` is one of them.
    #[inline]
    pub fn contains(self, group: FlowGroup) -> bool {
        self.0 >> group.0 & 1 == 1
    }

    /// Adds `group`.
    pub fn insert(&mut self, group: FlowGroup) {
        self.0 |= 1 << group.0;
    }

    /// Those that are in one of the two.
    pub fn union(self, other: GroupSet) -> GroupSet {
        GroupSet(self.0 | other.0)
    }

    /// Its groups, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = FlowGroup> {
        FlowGroup::all().filter(move |&group| self.contains(group))
    }

    /// Takes `group` out.
    pub fn remove(&mut self, group: FlowGroup) {
        self.0 &= !(1 << group.0);
    }
}

impl FromIterator<FlowGroup> for GroupSet {
    fn from_iter<T: IntoIterator<Item = FlowGroup>>(groups: T) -> GroupSet {
        let mut set = GroupSet::NONE;
        groups.into_iter().for_each(|group| set.insert(group));
        set
    }
}

#[cfg(test)]
mod tests;
