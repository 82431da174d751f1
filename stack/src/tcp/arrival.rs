//! What is done with a burst before the work on its segments begins: whose each one is, so that the memory of all is on its
//! way when the first one's turn comes.
//!
//! Promises nothing about a segment: the connection that is named is the likely one, and whoever works on it compares keys.

use alloc::vec::Vec;

use ringway_shm::{Frame, SegmentationKind};

use super::{Tcp, ecn};
use crate::ip::{Datagram, Datagrams};
use crate::stack::Env;

/// A segment of a burst, before the work on it begins.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub(super) hash: u32,
    /// Its neighbors in the burst are of other flows: nothing can be joined to it.
    pub(super) alone: bool,
    /// If it is alone: the connection that it most likely is for.
    pub(super) likely: Option<u32>,
}

impl Tcp {
    /// The hashes of a burst's segments, and the connections of those that stand alone.
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

    /// A packet whose neighbors in the burst are of other flows, and most likely is for connection `index`. It comes back
    /// when it has to take the long way.
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
        connection.shared.tallies.touch(connection.tcb);
        connection.receive_plain(first)
    }
}
