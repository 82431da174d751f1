//! Random requests in the contract's format: on any slot, with any address, option and length.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use ringway_channel::{Client, Multicast, Operation, Request, SlotRef, SocketOption};

use super::Round;

/// Maximum number of slots that this process opens.
const OPENED: usize = 64;
/// Requests between two reads of the clock.
const BURST: usize = 16;

const OPTIONS: [SocketOption; 12] = [
    SocketOption::NoDelay,
    SocketOption::Cork,
    SocketOption::KeepIdle,
    SocketOption::UserTimeout,
    SocketOption::ReceiveBuffer,
    SocketOption::SendBuffer,
    SocketOption::MaxSegment,
    SocketOption::Congestion,
    SocketOption::WindowClamp,
    SocketOption::FastOpenQueue,
    SocketOption::PathMtuDiscovery,
    SocketOption::EveryWorker,
];

pub(super) fn play(round: &mut Round) -> io::Result<()> {
    let token = round.token();
    let client = Client::attach(&round.socket, token, 0).map_err(io::Error::other)?;
    let mut slots = Vec::new();
    while round.goes_on() {
        for _ in 0..BURST {
            act(round, &client, &mut slots);
        }
    }
    Ok(())
}

fn act(round: &mut Round, client: &Client, slots: &mut Vec<SlotRef>) {
    if slots.len() < OPENED
        && let Some(slot) = client.open_slot()
    {
        let bound = address(round);
        client.set_bound(slot, bound);
        slots.push(slot);
    }
    let slot = slot(round, client, slots);
    let chance = round.random.number();
    match chance % 8 {
        0 => drop(client.send(slot, &[IoSlice::new(&[7; 4000])])),
        1 => drop(client.receive(slot, &mut [IoSliceMut::new(&mut [0; 4000])])),
        2 => drop(client.accept(slot)),
        3 => drop(client.release(slot.index)),
        _ => {
            let operation = operation(round);
            client.submit(Request { slot, sequence: (chance >> 8) as u8, operation });
        }
    }
}

/// Draws one of its own slots, or any slot, under any generation.
fn slot(round: &mut Round, client: &Client, slots: &[SlotRef]) -> SlotRef {
    let chance = round.random.number();
    match slots.len() as u64 {
        count if count > 0 && !chance.is_multiple_of(4) => slots[((chance >> 8) % count) as usize],
        _ => SlotRef { index: (chance >> 8) as u32 % client.slots(), generation: (chance >> 40) as u32 % 4 },
    }
}

fn address(round: &mut Round) -> SocketAddr {
    let chance = round.random.number();
    let ip = match chance % 4 {
        0 => IpAddr::from([0, 0, 0, 0]),
        // Inside the loopback network, which no service serves.
        1 => IpAddr::from([127, (chance >> 32) as u8, (chance >> 40) as u8, 1]),
        _ => round.peer,
    };
    SocketAddr::new(ip, (chance >> 16) as u16)
}

fn operation(round: &mut Round) -> Operation {
    let (place, word) = (address(round), round.word() as u32);
    let chance = round.random.number();
    let group = [224 + (chance >> 8) as u8 % 32, 0, (chance >> 16) as u8 % 2, (chance >> 24) as u8];
    let which = Multicast { group: group.into(), interface: word % 4, address: [0; 4].into() };
    match chance % 22 {
        0 => Operation::Listen { local: place, backlog: word, dual_stack: word.is_multiple_of(2) },
        1 | 2 => Operation::Connect { remote: place },
        3 => Operation::Datagram { local: place, dual_stack: word.is_multiple_of(2) },
        4 => Operation::ConnectDatagram { remote: place },
        5 => Operation::Route { remote: place, interface: word },
        6 => Operation::Owns { local: place },
        7 => Operation::Transmit,
        8 => Operation::Consumed,
        9 => Operation::Shutdown,
        10 => Operation::Close { linger_s: u16::try_from(word).ok() },
        11 => Operation::Abort,
        12 => Operation::SetOption { option: OPTIONS[(chance >> 8) as usize % OPTIONS.len()], value: word },
        13 => Operation::Urgent { position: word },
        14 => Operation::Info,
        15 => Operation::Forked { process: word % 512, pid: (chance >> 32) as u32 },
        16 => Operation::FastOpenKey { key: [word as u8; 16], backup: word.is_multiple_of(2) },
        17 => Operation::Option { option: OPTIONS[(chance >> 8) as usize % OPTIONS.len()] },
        18 => Operation::JoinMulticast(which),
        19 => Operation::LeaveMulticast(which),
        20 => Operation::Memberships,
        _ => Operation::Reclaim,
    }
}
