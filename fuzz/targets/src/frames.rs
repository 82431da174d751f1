//! Frames from the wire to a stack with mixed interfaces.
//!
//! Input: for each frame a byte of decisions, two of length, its bytes. A decision may complete the checksums of IPv4 and of
//! its payload, so that mutations get past the checksum tests.

use ringway_shm::Duration;
use ringway_stack::wire::checksum;

use crate::host::Host;
use crate::input::Input;

/// Maximum number of frames of one input.
const FRAMES_MAX: usize = 256;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut host = Host::new();
    for _ in 0..FRAMES_MAX {
        if input.is_empty() {
            break;
        }
        let decision = input.byte();
        let len = usize::from(input.word() & 0x0fff);
        let mut frame = input.take(len).to_vec();
        let interface = u32::from(decision & 1);
        if decision & 2 == 0 {
            complete(&mut frame, if interface == 0 { 14 } else { 0 });
        }
        host.receive(interface, &frame);
        if decision & 4 != 0 {
            host.turn();
        }
        if decision & 8 != 0 {
            host.wait(Duration::from_millis(1 << (decision >> 4)));
        }
    }
    host.turn();
    host.settle();
}

/// Writes correct checksums into an IPv4 or IPv6 packet.
pub(crate) fn complete(frame: &mut [u8], link: usize) {
    let Some(packet) = frame.get_mut(link..) else { return };
    let (header_len, protocol, addresses) = match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= 20 => {
            let header_len = usize::from(packet[0] & 15) * 4;
            if header_len < 20 || header_len > packet.len() {
                return;
            }
            packet[10..12].fill(0);
            let header = !checksum::sum(&packet[..header_len]);
            packet[10..12].copy_from_slice(&header.to_be_bytes());
            (header_len, packet[9], 12..20)
        }
        Some(6) if packet.len() >= 40 => (40, packet[6], 8..40),
        _ => return,
    };
    let field = match protocol {
        1 | 58 => 2,
        6 => 16,
        17 => 6,
        _ => return,
    };
    let (header, payload) = packet.split_at_mut(header_len);
    if payload.len() < field + 2 {
        return;
    }
    payload[field..field + 2].fill(0);
    let mut pseudo = header[addresses].to_vec();
    pseudo.extend((payload.len() as u32).to_be_bytes());
    pseudo.extend([0, 0, 0, protocol]);
    let start = if protocol == 1 { 0 } else { checksum::sum(&pseudo) };
    let sum = !checksum::add(start, checksum::sum(payload));
    payload[field..field + 2].copy_from_slice(&sum.to_be_bytes());
}
