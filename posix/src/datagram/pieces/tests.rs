//! A program's sends, and the resulting messages in the channel.

use super::*;
use crate::address::SocketName;
use crate::datagram::Outgoing;
use crate::mock::Bench;
use ringway_channel::State;
use ringway_channel::datagram::ENVELOPE;
use ringway_shm::{Duration, Instant};

/// A program with one datagram socket; the stack reaches its peers.
struct Program {
    bench: Bench,
    fd: Fd,
    socket: SocketRef,
}

const V4: &str = "192.0.2.1:53";
const V6: &str = "[2001:db8::1]:53";

fn program(flags: &[Flag]) -> Program {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(State::Connected);
    bench.posix.descriptions.install(socket, &[&[Flag::DATAGRAM], flags].concat());
    bench.turn(|worker| worker.set_send_limit(socket.index, 200_000));
    let later = Instant::from_nanos(u64::MAX / 2) + Duration::from_secs(1);
    for peer in [V4, V6] {
        bench.posix.routes.note(at(peer).ip().into(), true, later);
    }
    Program { bench, fd, socket }
}

fn at(name: &str) -> SocketAddr {
    name.parse().expect("an address")
}

const MORE: Send = Send { more: true, dont_wait: false, no_signal: false, urgent: false };
const LAST: Send = Send { more: false, ..MORE };

impl Program {
    fn send(&self, to: Option<&str>, bytes: &[u8], how: Send) -> Option<Result<usize, i32>> {
        let inet6 = self.bench.posix.descriptions.of(self.socket).is(Flag::INET6);
        let name = to.map(|to| SocketName::new(at(to), inet6 || at(to).is_ipv6()));
        let to = name.as_ref().map(SocketName::bytes);
        let message = Outgoing { to, control: &[], pieces: &[IoSlice::new(bytes)] };
        let at = Descriptor { fd: self.fd, socket: self.socket };
        let sent = self.bench.posix.send_datagram(at, message, how)?;
        Some(sent.map_err(|error| error.0))
    }

    /// Messages that have reached the worker: destination and payload.
    fn messages(&self) -> Vec<(Option<SocketAddr>, Vec<u8>)> {
        self.bench.turn(|worker| {
            while worker.next_request().is_some() {}
            let mut messages = Vec::new();
            while worker.tx_available(self.socket.index) > 0 {
                let mut envelope = [0; ENVELOPE];
                worker.copy_tx(self.socket.index, &mut envelope);
                let envelope = Envelope::decode(&envelope).expect("an envelope");
                let mut bytes = vec![0; envelope.len];
                assert_eq!(worker.copy_tx(self.socket.index, &mut bytes), envelope.len);
                worker.release_tx(self.socket.index, (ENVELOPE + envelope.len) as u32);
                messages.push((envelope.peer, bytes));
            }
            messages
        })
    }
}

#[test]
fn pieces_leave_with_the_last_one_in_both_families() {
    for (peer, flags) in [(V4, &[][..]), (V4, &[Flag::INET6][..]), (V6, &[Flag::INET6][..])] {
        let program = program(flags);
        assert_eq!(program.send(Some(peer), b"one ", MORE), Some(Ok(4)));
        assert_eq!(program.send(Some(peer), b"", MORE), Some(Ok(0)));
        assert_eq!(program.send(None, b"two ", MORE), Some(Ok(4)), "no address is needed again");
        assert_eq!(program.messages(), []);
        assert_eq!(program.send(Some(peer), b"three", LAST), Some(Ok(5)));
        assert_eq!(program.send(Some(peer), b"next", LAST), Some(Ok(4)));
        assert_eq!(program.messages(), [(Some(at(peer)), b"one two three".to_vec()), (Some(at(peer)), b"next".to_vec())]);
    }
}

#[test]
fn the_first_piece_names_the_destination() {
    let program = program(&[]);
    program.send(Some(V4), b"a", MORE);
    assert_eq!(program.send(Some("127.0.0.1:9"), b"b", LAST), Some(Ok(1)), "also when the address is the kernel's");
    assert_eq!(program.messages(), [(Some(at(V4)), b"ab".to_vec())]);
}

#[test]
fn an_ipv6_socket_refuses_an_ipv4_address_behind_an_ipv6_one() {
    let program = program(&[Flag::INET6]);
    program.send(Some(V6), b"a", MORE);
    assert_eq!(program.send(Some(V4), b"b", LAST), Some(Err(libc::EINVAL)));
    assert_eq!(program.send(Some(V6), b"c", LAST), Some(Ok(1)), "the datagram is as it was");
    program.send(Some(V4), b"d", MORE);
    assert_eq!(program.send(Some(V6), b"e", LAST), Some(Ok(1)), "the other way round goes");
    assert_eq!(program.messages(), [(Some(at(V6)), b"ac".to_vec()), (Some(at(V4)), b"de".to_vec())]);
}

#[test]
fn what_grows_too_long_is_lost_whole() {
    for (peer, flags, max) in [(V4, &[][..], 65_507), (V6, &[Flag::INET6][..], 65_527)] {
        let program = program(flags);
        program.send(Some(peer), &vec![1; max - 1], MORE);
        assert_eq!(program.send(Some(peer), b"22", MORE), Some(Err(libc::EMSGSIZE)));
        assert_eq!(program.send(Some(peer), b"3", LAST), Some(Ok(1)), "a new datagram");
        assert_eq!(program.messages(), [(Some(at(peer)), b"3".to_vec())]);
    }
}

#[test]
fn a_corked_socket_sends_when_the_cork_is_taken_off() {
    let program = program(&[Flag::CORKED]);
    program.send(Some(V4), b"a", LAST);
    program.send(Some(V4), b"b", LAST);
    assert_eq!(program.messages(), []);
    program.bench.posix.descriptions.of(program.socket).unmark(Flag::CORKED);
    program.bench.posix.uncork(program.fd, program.socket);
    program.bench.posix.uncork(program.fd, program.socket);
    assert_eq!(program.messages(), [(Some(at(V4)), b"ab".to_vec())]);
}

#[test]
fn without_room_the_last_piece_is_not_taken() {
    let program = program(&[]);
    let dont_wait = Send { dont_wait: true, ..LAST };
    program.send(Some(V4), b"a", MORE);
    program.bench.turn(|worker| worker.set_send_limit(program.socket.index, 0));
    assert_eq!(program.send(None, b"b", dont_wait), Some(Err(libc::EAGAIN)));
    program.bench.turn(|worker| worker.set_send_limit(program.socket.index, 1000));
    assert_eq!(program.send(None, b"c", dont_wait), Some(Ok(1)));
    assert_eq!(program.messages(), [(Some(at(V4)), b"ac".to_vec())]);
}

#[test]
fn what_the_kernel_has_begun_the_kernel_ends() {
    let program = program(&[]);
    assert_eq!(program.send(Some("127.0.0.1:9"), b"a", MORE), None);
    assert_eq!(program.send(Some(V4), b"b", LAST), None);
    assert_eq!(program.send(Some(V4), b"c", LAST), Some(Ok(1)));
    assert_eq!(program.messages(), [(Some(at(V4)), b"c".to_vec())]);
}

#[test]
fn the_last_close_forgets_what_waits() {
    let program = program(&[]);
    program.send(Some(V4), b"a", MORE);
    let description = program.bench.posix.descriptions.of(program.socket);
    assert!(description.unrefer());
    description.refer();
    assert_eq!(program.send(Some(V4), b"b", LAST), Some(Ok(1)));
    assert_eq!(program.messages(), [(Some(at(V4)), b"b".to_vec())]);
}
