//! Frames that each user of the arena leaves to the others: one table.
//!
//! All users take frames of the same two classes. One that holds frames for as long as a peer or an application likes must
//! not keep from working those that give frames back, so each user stops while more than its part is free, and the order of
//! the parts is the proof:
//!
//! | user | holds frames until | leaves free |
//! |---|---|---|
//! | data of an application that leaves it unread on many sockets ([`FrameUse::Hoard`]) | the application reads | 17/32 |
//! | data out of order ([`FrameUse::Gaps`]) | the peer fills the gap | 16/32 |
//! | data behind data that is not read ([`FrameUse::Unread`]) | the application reads | 15/32 |
//! | fragments ([`FrameUse::Fragments`]) | the others arrive, or time is up | 12/32 |
//! | (applications that found no frame are told to try again: [`FrameUse::Retry`]) | | 10/32 |
//! | what applications send ([`FrameUse::Sending`]) | the peer acknowledges | 8/32 |
//! | data with nothing unread before it ([`FrameUse::Next`]) | the application reads | 1/32 |
//! | what a connection sends that holds nothing ([`FrameUse::First`]), while readers starve | the peer acknowledges | 1/64 |
//! | headers: ACKs, answers | the device has sent them | nothing |
//!
//! So whatever peers do with gaps and fragments, and however much an application leaves unread on each socket, applications send:
//! the first four stop before the mark at which senders are told. What is sent leaves frames to the data that comes next on
//! other connections. That data may be one frame on each of tens of thousands of sockets. Those of one application leave the others
//! what they use in any order: the owner of the stack tells its [`Backlog`]s. The data of many applications that are none may still
//! hold nearly all frames, and those that are to read it may wait until they have sent an answer. While received data may hold as
//! much of the scarcer class as senders leave free (the owner tells that too), each connection may send a first frame of those that are left. Peers that
//! acknowledge nothing cannot bring that about. The last ones are for the ACKs that free it.

use alloc::vec::Vec;
use core::ops::Range;

use ringway_shm::{Arena, Class};

/// A user of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUse {
    /// Data for the sockets of a [`Backlog`].
    Hoard,
    /// Data out of order.
    Gaps,
    /// Data behind data that the application has not read.
    Unread,
    /// Fragments of datagrams.
    Fragments,
    /// Applications that were refused frames: they try again when more than this is free.
    Retry,
    /// Data that applications send.
    Sending,
    /// Data in order with nothing unread before it.
    Next,
    /// The first frame of a connection that holds none to send, while received data holds the others.
    First,
}

impl FrameUse {
    /// Sixty-fourths of all frames that the user leaves free.
    const fn part(self) -> u32 {
        match self {
            FrameUse::Hoard => 34,
            FrameUse::Gaps => 32,
            FrameUse::Unread => 30,
            FrameUse::Fragments => 24,
            FrameUse::Retry => 20,
            FrameUse::Sending => 16,
            FrameUse::Next => 2,
            FrameUse::First => 1,
        }
    }

    /// Returns the number of frames that the user leaves free, of `capacity` in all.
    #[inline(always)]
    pub const fn leaves(self, capacity: u32) -> u32 {
        (capacity as u64 * self.part() as u64 / 64) as u32
    }

    /// Returns true when the user may take a frame of `class`.
    #[inline(always)]
    pub fn may_take(self, arena: &Arena, class: Class) -> bool {
        arena.free(class) > self.leaves(arena.capacity(class))
    }

    /// Returns true when the user may take a frame of either class.
    #[inline(always)]
    pub fn may_take_any(self, arena: &Arena) -> bool {
        self.may_take(arena, Class::Large) && self.may_take(arena, Class::Small)
    }
}

/// Received data that applications leave unread, as the owner of the stack sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// It holds the frames that senders need: see [`FrameUse::First`].
    pub starves_senders: bool,
    /// The user tokens of applications that leave data unread on many sockets: see [`FrameUse::Hoard`].
    pub hoards: Vec<Range<u64>>,
}

impl Backlog {
    /// Returns true if the socket is one of an application that leaves data unread on many.
    #[inline]
    pub(crate) fn is_hoarded(&self, user_token: u64) -> bool {
        self.hoards.iter().any(|tokens| tokens.contains(&user_token))
    }

    /// Tells the arena where the first of those stops that take data in order, so that [`Arena::is_plenty`] answers for all of them:
    /// each segment asks.
    pub(crate) fn mark_plenty(&self, arena: &Arena) {
        let first = if self.hoards.is_empty() { FrameUse::Unread } else { FrameUse::Hoard };
        let leaves = |class| first.leaves(arena.capacity(class));
        arena.set_plenty(leaves(Class::Large), leaves(Class::Small));
    }
}

// The order that the module's text needs.
const _: () = assert!(FrameUse::Hoard.part() > FrameUse::Gaps.part());
const _: () = assert!(FrameUse::Gaps.part() > FrameUse::Unread.part() && FrameUse::Unread.part() > FrameUse::Fragments.part());
const _: () = assert!(FrameUse::Fragments.part() > FrameUse::Retry.part() && FrameUse::Retry.part() > FrameUse::Sending.part());
const _: () = assert!(FrameUse::Sending.part() > FrameUse::Next.part() && FrameUse::Next.part() > FrameUse::First.part());
