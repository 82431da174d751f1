//! Files into sockets.

use super::*;
use crate::mock::Bench;
use ringway_channel::State;

/// The mock reads every file as `FILE` counting bytes.
const FILE: usize = 1500;

#[test]
fn the_offset_moves_by_what_was_queued() {
    let bench = Bench::new();
    let (_, socket) = bench.socket(State::Connected);
    bench.posix.attached().expect("it is attached").set_nonblocking(socket, true);
    bench.kernel.set_file(FILE);
    let mut offset = 10;
    assert_eq!(bench.posix.sendfile(socket, 0, Some(&mut offset), 5000), Ok(1000));
    assert_eq!(offset, 1010);
    assert_eq!(bench.posix.sendfile(socket, 0, Some(&mut offset), 5000), Err(Errno::AGAIN));
    let sent = bench.turn(|worker| {
        let mut bytes = [0; 2000];
        worker.tx_available(socket.index);
        let count = worker.copy_tx(socket.index, &mut bytes);
        worker.release_tx(socket.index, count as u32);
        bytes[..count].to_vec()
    });
    assert_eq!(sent, (10..1010).map(|at| at as u8).collect::<Vec<u8>>());
    assert_eq!(bench.posix.sendfile(socket, 0, Some(&mut offset), 5000), Ok(490));
    assert_eq!(bench.posix.sendfile(socket, 0, Some(&mut offset), 5000), Ok(0));
}

/// If a peer opens its window byte by byte, the program still does not send byte by byte.
#[test]
fn a_little_room_is_no_room() {
    let bench = Bench::new();
    let (_, socket) = bench.socket(State::Connected);
    let channel = bench.posix.attached().expect("it is attached");
    channel.set_nonblocking(socket, true);
    bench.kernel.set_file(FILE);
    let mut offset = 0;
    assert_eq!(bench.posix.sendfile(socket, 0, Some(&mut offset), FILE), Ok(1000));
    bench.turn(|worker| {
        worker.tx_available(socket.index);
        let count = worker.copy_tx(socket.index, &mut [0; 8]);
        worker.release_tx(socket.index, count as u32);
    });
    assert_eq!(channel.view(socket).map(|view| view.writable), Some(0));
    assert_eq!(bench.posix.sendfile(socket, 0, Some(&mut offset), FILE), Err(Errno::AGAIN));
    assert_eq!(offset, 1000);
}

/// The peer's view: every byte once, in order, over many chunks and refusals.
#[test]
fn a_file_arrives_byte_by_byte_as_it_is() {
    const LEN: usize = 100_000;
    let bench = Bench::new();
    let (_, socket) = bench.socket(State::Connected);
    bench.posix.attached().expect("it is attached").set_nonblocking(socket, true);
    bench.kernel.set_file(LEN);
    let (mut offset, mut got) = (0, Vec::new());
    while got.len() < LEN {
        let before = offset;
        match bench.posix.sendfile(socket, 0, Some(&mut offset), LEN) {
            Ok(count) => assert_eq!(offset, before + count as i64),
            Err(error) => assert_eq!((error, offset), (Errno::AGAIN, before)),
        }
        got.extend(bench.turn(|worker| {
            let mut bytes = [0; 2000];
            worker.tx_available(socket.index);
            let count = worker.copy_tx(socket.index, &mut bytes[..1 + got.len() % 700]);
            worker.release_tx(socket.index, count as u32);
            bytes[..count].to_vec()
        }));
    }
    assert_eq!(got, (0..LEN).map(|at| at as u8).collect::<Vec<u8>>());
    assert_eq!(bench.posix.sendfile(socket, 0, Some(&mut offset), 1), Ok(0), "the end of the file");
}
