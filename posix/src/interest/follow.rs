//! This process's way to the interest list of an instance that fork shares: what other processes change is followed before
//! each use of the list, at no cost while nothing has changed.

use super::common::{CommonList, Known, Place};
use super::{InterestList, NONE};
use crate::fd_table::{Descriptor, SocketRef};

/// This process's view of the common list.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) list: CommonList,
    /// Number of changes that this process has taken.
    seen: u64,
    /// This process's interest for each entry; `NONE`: none.
    pub(super) by_place: Vec<u32>,
}

impl Shared {
    /// Notes a change of this process's own, before which there were `before` changes.
    pub(super) fn note(&mut self, before: u64) {
        if before == self.seen {
            self.seen = before.wrapping_add(1);
        }
    }

    pub(super) fn set(&mut self, place: Place, index: u32) {
        let at = place.index as usize;
        self.by_place.resize(self.by_place.len().max(at + 1), NONE);
        self.by_place[at] = index;
    }
}

/// Sockets of which this process is to be told events, and no longer told, after changes by other processes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    /// Sockets that were not watched before.
    pub(crate) watch: Vec<SocketRef>,
    /// Sockets that are watched no more.
    pub(crate) unwatch: Vec<SocketRef>,
}

impl InterestList {
    /// Returns true if other processes have the list too.
    pub(crate) fn is_common(&self) -> bool {
        self.common.is_some()
    }

    /// Makes the list one that children of this process have too. Returns false if there is no memory for it.
    pub(crate) fn share(&mut self) -> bool {
        let Some(list) = CommonList::new(self.by_key.len()) else { return false };
        let mut common = Shared { list, seen: 0, by_place: Vec::new() };
        for (index, interest) in self.interests.iter_mut().enumerate().filter(|(_, interest)| interest.live) {
            let request = (interest.events, interest.data);
            let added = common.list.add(interest.key, request, Known { reported: interest.reported, spent: interest.spent });
            let (place, before) = added.expect("there is room for twice as many");
            interest.place = place;
            common.set(place, index as u32);
            common.note(before);
        }
        self.common = Some(common);
        true
    }

    /// Notes that this process has added a descriptor of the kernel's, for the other processes.
    pub(crate) fn note_kernel_files(&self) {
        self.common.iter().for_each(|common| common.list.note_kernel_files());
    }

    /// Returns true if a process of the common list has added one.
    pub(crate) fn has_kernel_files(&self) -> bool {
        self.common.as_ref().is_some_and(|common| common.list.has_kernel_files())
    }

    /// Takes what other processes have changed in the common list. `is_open` returns true for a socket that some process
    /// has open.
    pub(crate) fn follow(&mut self, is_open: impl Fn(SocketRef) -> bool) -> Followed {
        let mut followed = Followed::default();
        let Some(list) = self.behind() else { return followed };
        for at in 0..list.end() {
            let read = list.read(at).filter(|(place, key)| {
                let open = is_open(key.socket);
                if !open {
                    list.remove(*place);
                }
                open
            });
            self.follow_entry(&list, at, read, &mut followed);
        }
        // In one call a socket can be in both lists; it is watched if it is watched now.
        followed.watch.retain(|socket| self.by_slot.contains_key(&socket.index));
        followed.unwatch.retain(|socket| !self.by_slot.contains_key(&socket.index));
        followed
    }

    /// The common list, if it has changes that were not taken; they count as taken then.
    fn behind(&mut self) -> Option<CommonList> {
        let common = self.common.as_mut()?;
        let changes = common.list.changes();
        if changes == common.seen {
            return None;
        }
        common.seen = changes;
        Some(common.list.clone())
    }

    fn follow_entry(&mut self, list: &CommonList, at: u32, read: Option<(Place, Descriptor)>, followed: &mut Followed) {
        let common = self.common.as_ref().expect("the list is common");
        if let Some(&index) = common.by_place.get(at as usize).filter(|index| **index != NONE) {
            let interest = &mut self.interests[index as usize];
            let (known, key) = (interest.place, interest.key);
            match read {
                Some((place, _)) if place == known => return,
                Some((place, _)) if place.is_same_watch(known) => {
                    interest.place = place;
                    return self.queue(index);
                }
                _ if self.take_out(key) => followed.unwatch.push(key.socket),
                _ => {}
            }
        }
        let Some((place, key)) = read else { return };
        if let Some(&other) = self.by_key.get(&key) {
            // Two processes have added the same at the same time: the first entry stays.
            let second = self.interests[other as usize].place;
            if second.index < place.index {
                list.remove(place);
                return;
            }
            list.remove(second);
            self.take_out(key);
        }
        if self.insert(key, 0, 0, place) {
            followed.watch.push(key.socket);
        }
    }
}
