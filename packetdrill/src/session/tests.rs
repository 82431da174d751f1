use super::*;

use std::os::fd::AsRawFd;

/// Descriptor numbers are the process's own: closing one through the C library closes a real descriptor.
#[test]
fn descriptors_are_real() {
    let session = Session::new("");
    let fd = session.with(|machine| machine.socket(libc::AF_INET, libc::SOCK_STREAM, 0)).value as i32;
    let other = File::open("/dev/null").expect("it is everywhere");
    assert_ne!(other.as_raw_fd(), fd);
    assert_eq!(std::fs::read_link(format!("/proc/self/fd/{fd}")).expect("it is open").to_str(), Some("/dev/null"));
    crate::calls::close_real(fd);
}

#[test]
fn silence_ends() {
    let session = Session::new("");
    assert!(session.next_packet().is_err());
}

#[test]
fn a_call_that_waits_ends_when_the_main_thread_brings_its_packet() {
    let session = Session::new("");
    let fd = session.with(|machine| machine.socket(libc::AF_INET, libc::SOCK_STREAM, 0)).value as i32;
    let before = session.time();
    let to = "192.0.2.1:80".parse().expect("an address");
    let (answer, at) = thread::scope(|scope| {
        let second = scope.spawn(|| (session.call(Call::Connect { fd, to }), session.time()));
        while session.lock().blocked.is_empty() {
            thread::yield_now();
        }
        session.advance(Duration::from_millis(5));
        let syn = session.next_packet().expect("a SYN").bytes;
        session.with(|machine| machine.deliver(&reset_to(&syn)));
        session.advance(Duration::from_millis(5));
        second.join().expect("it does not panic")
    });
    assert_eq!(answer, Answer::error(libc::ECONNREFUSED));
    assert_eq!(at.since(before).as_millis(), 5, "the time at which it ended, not at which it was fetched");
}

/// RST and ACK to a SYN.
fn reset_to(syn: &[u8]) -> Vec<u8> {
    let mut reply = syn[..40].to_vec();
    reply[2..4].copy_from_slice(&40_u16.to_be_bytes());
    reply[12..16].copy_from_slice(&syn[16..20]);
    reply[16..20].copy_from_slice(&syn[12..16]);
    reply[20..22].copy_from_slice(&syn[22..24]);
    reply[22..24].copy_from_slice(&syn[20..22]);
    let sequence = u32::from_be_bytes(syn[24..28].try_into().expect("four bytes"));
    reply[24..28].fill(0);
    reply[28..32].copy_from_slice(&sequence.wrapping_add(1).to_be_bytes());
    (reply[32], reply[33]) = (5 << 4, 4 | 16);
    reply[10..12].fill(0);
    reply[36..40].fill(0);
    let header = !sum(&reply[..20], 0);
    reply[10..12].copy_from_slice(&header.to_be_bytes());
    let transport = !sum(&reply[12..40], 6 + 20);
    reply[36..38].copy_from_slice(&transport.to_be_bytes());
    reply
}

fn sum(bytes: &[u8], start: u32) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let total = words.fold(start, |total, word| total + word);
    let folded = (total & 0xffff) + (total >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}
