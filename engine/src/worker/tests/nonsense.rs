//! Applications that send what no program of ours sends: requests about anything, and messages that lie.

use std::io::IoSlice;

use ringway_channel::{Envelope, Multicast, Operation, Request, SlotRef, SocketOption};

use super::harness::{ADDRESSES, Net, Random, SHAPE, socket};
use super::*;
use crate::core::Link;

impl Net {
    /// Sends false messages on a datagram socket; now and then another socket takes its slot.
    pub(super) fn fire_lying_messages(&mut self, app: usize, seed: u64, count: usize) {
        let mut random = Random(seed);
        let socket_of_datagrams = |net: &mut Net, port: u16| {
            let slot = net.open(app);
            let operation = Operation::Datagram { local: socket([0, 0, 0, 0], port), dual_stack: false };
            assert_eq!(net.control(app, slot, operation), ControlAnswer::Done);
            slot
        };
        let mut slot = socket_of_datagrams(self, 1_000);
        for number in 0..count {
            let message = lying_message(&mut random);
            // The stream's call is used because it does not check the envelope.
            self.apps[app].client.send(slot, &[IoSlice::new(&message)]).ok();
            let word = random.next();
            if word & 3 == 0 {
                self.step();
            }
            if word & 63 == 1 {
                self.close(app, slot);
                slot = socket_of_datagrams(self, 1_001 + number as u16);
            }
        }
        self.step();
    }

    /// Fires requests of every kind about slots of every kind, in any order.
    pub(super) fn fire_nonsense(&mut self, app: usize, seed: u64, count: usize) {
        let mut random = Random(seed);
        let core = &mut self.workers[self.apps[app].worker].core;
        core.set_link(0, Link { number: 1, is_alone: false, copies_multicast: true });
        core.multicast_on_stack = true;
        for _ in 0..count {
            let word = random.next();
            let index = (word >> 8) as u32 % SHAPE.slots;
            let client = &self.apps[app].client;
            let slot = SlotRef { index, generation: client.slot(index).generation().wrapping_add((word & 7 == 0).into()) };
            let operation = nonsense(&mut random);
            assert!(client.submit(Request { slot, sequence: word as u8, operation }));
            if word & 15 == 1 {
                client.send(slot, &[IoSlice::new(b"nonsense")]).ok();
            }
            if word & 31 == 2 {
                self.step();
            }
        }
        self.step();
    }
}

/// An envelope and its payload, each true or false.
fn lying_message(random: &mut Random) -> Vec<u8> {
    let word = random.next();
    let payload = vec![word as u8; (word >> 8) as usize % 4_000];
    let peer = (word & 1 != 0).then(|| socket(ADDRESSES[1], 9));
    let envelope = Envelope { len: payload.len(), peer, ..Envelope::default() };
    let mut bytes = envelope.encode();
    let lie = random.next();
    match word % 4 {
        // A length other than the payload's.
        0 => bytes[..4].copy_from_slice(&(lie as u32 >> (lie >> 59)).to_le_bytes()),
        // Invalid segment size, flags or addresses.
        1 => bytes[4 + lie as usize % (bytes.len() - 4)] = (lie >> 32) as u8,
        2 => bytes.iter_mut().for_each(|byte| *byte = random.next() as u8),
        _ => {}
    }
    let mut message = [&bytes[..], &payload].concat();
    if word & 16 != 0 {
        message.truncate(lie as usize % (message.len() + 1));
    }
    message
}

fn nonsense(random: &mut Random) -> Operation {
    let word = random.next();
    let value = (word >> 16) as u32;
    let ip = ADDRESSES[(word >> 8) as usize % 2];
    let which = Multicast { group: [239, 0, 0, value as u8 % 4].into(), interface: value >> 8 & 1, address: ip.into() };
    match word % 18 {
        0 => Operation::Listen { local: socket(ip, value as u16 | 1024), backlog: value, dual_stack: value & 1 != 0 },
        1 => Operation::Listen { local: socket([0, 0, 0, 0], value as u16 % 100), backlog: value, dual_stack: value & 1 != 0 },
        2 | 3 => Operation::Connect { remote: socket(ip, value as u16 % 100) },
        4 => Operation::Transmit,
        5 => Operation::Consumed,
        6 => Operation::Shutdown,
        7 => Operation::Close { linger_s: Some(value as u16 % 2) },
        8 => Operation::Abort,
        9 => Operation::SetOption { option: SocketOption::ReceiveBuffer, value },
        10 => Operation::Info,
        11 => Operation::Datagram { local: socket(ip, value as u16 % 100), dual_stack: value & 1 != 0 },
        12 => Operation::ConnectDatagram { remote: socket(ip, value as u16 % 100) },
        13 => Operation::Forked { process: value % 300, pid: value },
        14 => Operation::JoinMulticast(which),
        15 => Operation::LeaveMulticast(which),
        16 => Operation::Memberships,
        _ => Operation::Reclaim,
    }
}
