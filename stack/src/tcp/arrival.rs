//! Lookup of the connections of a burst before its segments are processed, so that their memory is prefetched when the first
//! one is processed.
//!
//! Promises nothing about a segment: the connection it names is the likely one, and the code that uses it compares keys.

use alloc::vec::Vec;

use ringway_shm::{Frame, SegmentationKind};

use super::{Tcp, ecn};
use crate::env::Env;
use crate::ip::{Datagram, Datagrams};

/// A segment of a burst, before it is processed.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub(super) hash: u32,
    /// The adjacent segments are of other flows: nothing can be coalesced with it.
    pub(super) alone: bool,
    /// The likely connection, if it is alone.
    pub(super) likely: Option<u32>,
}

impl Tcp {
    /// Computes the hashes of a burst's segments, and looks up the connections of those that stand alone.
    #[inline(never)]
    pub(super) fn look_up(&mut self, datagrams: &Datagrams, arrivals: &mut Vec<Arrival>) {
        for datagram in &datagrams.headers {
            let hash = self.hasher.hash_pair(&datagram.pair, datagram.ports);
            self.flows.touch(hash);
            arrivals.push(Arrival { hash, alone: false, likely: None });
        }
        let (mut follows, mut rest) = (false, arrivals.as_mut_slice());
        while let Some((arrival, behind)) = rest.split_first_mut() {
            let leads = behind.first().is_some_and(|next| next.hash == arrival.hash);
            arrival.alone = !(follows || leads);
            if arrival.alone
                && let Some(index) = self.flows.likely(arrival.hash)
            {
                self.tcbs[index as usize].touch();
                arrival.likely = Some(index);
            }
            (follows, rest) = (leads, behind);
        }
    }

    /// Takes a packet with neighbors of other flows in the burst; `index` is its likely connection.
    /// Returns the packet when it must take the slow path.
    #[inline(never)]
    pub(super) fn receive_alone(&mut self, env: &mut Env, datagram: &Datagram, index: u32, first: Frame) -> Result<(), Frame> {
        let single = !first.continues() && first.segmentation().kind == SegmentationKind::None && datagram.tos & ecn::CE == 0;
        if !single {
            return Err(first);
        }
        let mut connection = self.connection(env, index);
        if !connection.tcb.is_of(datagram) {
            return Err(first);
        }
        connection.shared.conn_stats.touch(connection.tcb);
        connection.receive_fast(first)
    }
}
