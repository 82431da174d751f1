//! Fragments of datagrams of both families, in any order, with any offset and length.
//!
//! Input: for each fragment a byte of decisions, identification, offset, length, payload from a counter.

use ringway_shm::Duration;

use crate::host::{Host, address};
use crate::input::Input;

/// Maximum number of fragments of one input.
const FRAGMENTS_MAX: usize = 512;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut host = Host::new();
    for _ in 0..FRAGMENTS_MAX {
        if input.is_empty() {
            break;
        }
        let decision = input.byte();
        let packet = fragment(&mut input, decision);
        host.receive(1, &packet);
        if decision & 16 != 0 {
            host.turn();
        }
        if decision & 32 != 0 {
            host.wait(Duration::from_millis(u64::from(input.word())));
        }
    }
    host.turn();
    host.settle();
}

fn fragment(input: &mut Input<'_>, decision: u8) -> Vec<u8> {
    let identification = input.byte() & 3;
    let offset = input.word() >> (input.byte() & 15);
    let more = decision & 1 != 0;
    let protocol = [1, 6, 17, 58, input.byte()][usize::from(decision >> 6 & 3) + usize::from(decision & 8 != 0)];
    let len = usize::from(input.word() % 1400);
    let len = if decision & 4 != 0 { len & !7 } else { len };
    let payload = vec![identification; len];
    let (octets, other) = (address(1, decision & 2 != 0), 2);
    match octets {
        std::net::IpAddr::V4(ip) => {
            let destination = ip.octets();
            let source = [destination[0], destination[1], destination[2], other];
            let field = (offset & 0x1fff) | if more { 0x2000 } else { 0 };
            let total = (20 + payload.len()) as u16;
            let mut packet = vec![0x45, 0];
            packet.extend(total.to_be_bytes());
            packet.extend([0, identification]);
            packet.extend(field.to_be_bytes());
            packet.extend([64, protocol, 0, 0]);
            packet.extend(source);
            packet.extend(destination);
            let sum = !ringway_stack::wire::checksum::sum(&packet);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
            packet.extend(payload);
            packet
        }
        std::net::IpAddr::V6(ip) => {
            let destination = ip.octets();
            let mut source = destination;
            source[15] = other;
            let field = offset << 3 | u16::from(more);
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend((8 + payload.len() as u16).to_be_bytes());
            packet.extend([44, 64]);
            packet.extend(source);
            packet.extend(destination);
            packet.extend([protocol, 0]);
            packet.extend(field.to_be_bytes());
            packet.extend([0, 0, 0, identification]);
            packet.extend(payload);
            packet
        }
    }
}
