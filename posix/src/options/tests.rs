//! Options of sockets of the stack.

use super::*;
use crate::Settings;
use crate::mock::Bench;
use ringway_channel::{Failure, Flags, Operation, SocketOption as Wire, State as SlotState};

impl Bench {
    fn set(&self, at: Descriptor, level: i32, name: i32, value: i32) -> Answer<()> {
        self.posix.set_option(at, level, name, &value.to_ne_bytes())
    }

    fn get(&self, at: Descriptor, level: i32, name: i32) -> i32 {
        let mut bytes = [0; 4];
        assert_eq!(self.posix.option(at, level, name, &mut bytes), Ok(4));
        i32::from_ne_bytes(bytes)
    }
}

fn connected() -> (Bench, Fd, SocketRef) {
    let bench = Bench::new();
    let (fd, socket) = bench.socket(SlotState::Connected);
    (bench, fd, socket)
}

#[test]
fn switches_and_numbers_reach_the_worker_and_read_back() {
    let (bench, fd, socket) = connected();
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::IPPROTO_TCP, libc::TCP_NODELAY), 0);
    assert_eq!(bench.set(Descriptor { fd, socket }, libc::IPPROTO_TCP, libc::TCP_NODELAY, 5), Ok(()));
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::IPPROTO_TCP, libc::TCP_NODELAY), 1);
    assert_eq!(bench.requests(), [Operation::SetOption { option: Wire::NoDelay, value: 1 }]);
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::IPPROTO_TCP, libc::TCP_LINGER2), 60);
}

#[test]
fn path_mtu_discovery_reaches_the_worker_and_reads_back() {
    let (bench, fd, socket) = connected();
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), 1);
    assert_eq!(bench.set(Descriptor { fd, socket }, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, 4), Ok(()));
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), 4);
    assert_eq!(bench.requests(), [Operation::SetOption { option: Wire::PathMtuDiscovery, value: 4 }]);
}

#[test]
fn buffers_read_back_doubled_and_the_stack_is_told_what_was_asked() {
    let (bench, fd, socket) = connected();
    assert_eq!(bench.set(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_SNDBUF, 65_536), Ok(()));
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_SNDBUF), 131_072);
    assert_eq!(bench.requests(), [Operation::SetOption { option: Wire::SendBuffer, value: 65_536 }]);
    assert_eq!(bench.set(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_SNDBUF, 1), Ok(()));
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_SNDBUF), 4608);
}

#[test]
fn timeouts_are_times() {
    let (bench, fd, socket) = connected();
    let set = |seconds: i64, micros: i64| {
        let bytes = [seconds.to_ne_bytes(), micros.to_ne_bytes()].concat();
        bench.posix.set_option(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &bytes)
    };
    assert_eq!(set(1, 1_000_000), Err(Errno::DOM));
    assert_eq!(set(2, 500_000), Ok(()));
    assert_eq!(bench.posix.descriptions.of(socket).receive_timeout.load(Ordering::Relaxed), 2_500_000_000);
    let mut bytes = [0; 16];
    assert_eq!(bench.posix.option(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &mut bytes), Ok(16));
    assert_eq!(bytes.to_vec(), [2i64.to_ne_bytes(), 500_000i64.to_ne_bytes()].concat());
    assert_eq!(
        bench.posix.set_option(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &[0; 8]),
        Err(Errno::INVAL)
    );
}

#[test]
fn a_receive_timeout_ends_a_read_with_eagain() {
    let (bench, fd, socket) = connected();
    let one_milli = [0i64.to_ne_bytes(), 1000i64.to_ne_bytes()].concat();
    assert_eq!(bench.posix.set_option(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &one_milli), Ok(()));
    let mut byte = [0];
    let mut pieces = [std::io::IoSliceMut::new(&mut byte)];
    assert_eq!(bench.posix.receive(socket, &mut pieces, crate::Receive::default()), Err(Errno::AGAIN));
}

#[test]
fn an_error_is_fetched_once() {
    let (bench, fd, socket) = connected();
    bench.turn(|worker| worker.set_error(socket.index, Failure::TimedOut, Flags::FAILED));
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_ERROR), libc::ETIMEDOUT);
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_ERROR), 0);
}

#[test]
fn it_looks_like_a_tcp_socket_and_refuses_what_the_stack_lacks() {
    let (bench, fd, socket) = connected();
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_TYPE), libc::SOCK_STREAM);
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_DOMAIN), libc::AF_INET);
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_PROTOCOL), libc::IPPROTO_TCP);
    assert_eq!(bench.get(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_ACCEPTCONN), 0);
    assert_eq!(bench.set(Descriptor { fd, socket }, libc::IPPROTO_TCP, libc::TCP_ULP, 1), Err(Errno::NOPROTOOPT));
    for name in [libc::SO_TIMESTAMPING, libc::SO_TIMESTAMP, libc::SO_TIMESTAMPNS, 63, 64, 65] {
        assert_eq!(bench.set(Descriptor { fd, socket }, libc::SOL_SOCKET, name, 1), Err(Errno::NOPROTOOPT), "{name}");
    }
    assert_eq!(bench.set(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_TXTIME, 1), Err(Errno::NOPROTOOPT));
    assert_eq!(bench.posix.set_option(Descriptor { fd, socket }, libc::IPPROTO_TCP, libc::TCP_NODELAY, &[1]), Err(Errno::INVAL));
}

#[test]
fn congestion_control_goes_by_name() {
    let (bench, fd, socket) = connected();
    let set = |name: &[u8]| bench.posix.set_option(Descriptor { fd, socket }, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name);
    assert_eq!(set(b"vegas"), Err(Errno::NOENT));
    assert_eq!(set(b"reno\0"), Ok(()));
    assert_eq!(bench.requests(), [Operation::SetOption { option: Wire::Congestion, value: 0 }]);
    let mut name = [1; 16];
    assert_eq!(bench.posix.option(Descriptor { fd, socket }, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name), Ok(16));
    assert_eq!(&name[..5], b"reno\0");
}

/// net/ipv4/tcp.c: times stored as retransmissions, a clamp with a least value, the FIN-WAIT-2 time of an orphan.
#[test]
fn numbers_read_back_as_linux_keeps_them() {
    let (bench, fd, socket) = connected();
    let there_and_back = |name: i32, value: i32| {
        assert_eq!(bench.set(Descriptor { fd, socket }, libc::IPPROTO_TCP, name, value), Ok(()));
        bench.get(Descriptor { fd, socket }, libc::IPPROTO_TCP, name)
    };
    let deferred = [1, 2, 5, 8, 120].map(|seconds| there_and_back(libc::TCP_DEFER_ACCEPT, seconds));
    assert_eq!(deferred, [1, 3, 7, 15, 127]);
    assert_eq!([100, 5_000].map(|bytes| there_and_back(libc::TCP_WINDOW_CLAMP, bytes)), [1_152, 5_000]);
    assert_eq!([5, 0, -7, 1_000].map(|seconds| there_and_back(libc::TCP_LINGER2, seconds)), [5, 60, -1, 120]);
    assert_eq!(bench.set(Descriptor { fd, socket }, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, 0), Err(Errno::INVAL), "too late");
    let told: Vec<_> = bench.requests().into_iter().rev().take(2).collect();
    assert_eq!(told[1], Operation::SetOption { option: Wire::FinTimeout, value: 1 << 31 }, "negative");
    assert_eq!(told[0], Operation::SetOption { option: Wire::FinTimeout, value: 120 });
}

/// A mark belongs to one socket, and a value that means "off" clears it.
#[test]
fn a_guarding_option_keeps_its_socket_with_the_kernel() {
    let bench = Bench::new();
    let kept = |fd| bench.posix.kernels_option(fd, table::Known::stream);
    assert_eq!(kept(5), None);
    bench.posix.note_option(5, libc::IPPROTO_IP, libc::IP_MINTTL, &255_i32.to_ne_bytes());
    bench.posix.note_option(6, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &0_i32.to_ne_bytes());
    bench.posix.note_option(7, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32.to_ne_bytes());
    bench.posix.note_option(8, libc::IPPROTO_TCP, 9_999, &1_i32.to_ne_bytes());
    bench.posix.note_option(9, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"vegas");
    let found = [5, 6, 7, 8, 9].map(kept);
    let unknown = Some("unknown option");
    assert_eq!(found, [Some("IP_MINTTL"), Some("SO_ATTACH_BPF"), None, unknown, Some("TCP_CONGESTION")]);
    bench.posix.note_option(5, libc::IPPROTO_IP, libc::IP_MINTTL, &0_i32.to_ne_bytes());
    bench.posix.note_option(6, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &0_i32.to_ne_bytes());
    bench.posix.note_option(9, libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"cubic");
    assert_eq!([5, 6, 9].map(kept), [None, Some("SO_ATTACH_BPF"), None], "descriptor 0 is a program like others");
}

/// Options that the stack lacks are refused on its sockets and logged, with an error that programs may know.
#[test]
fn a_guarding_option_that_comes_too_late_is_refused() {
    let bench = Bench::with(Settings { log_fallback: true, ..Settings::default() });
    let (fd, socket) = bench.socket(SlotState::Connected);
    assert_eq!(bench.set(Descriptor { fd, socket }, libc::IPPROTO_IP, libc::IP_MINTTL, 255), Err(Errno::NOPROTOOPT));
    assert_eq!(bench.set(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_MARK, 7), Err(Errno::PERM));
    assert_eq!(bench.set(Descriptor { fd, socket }, libc::SOL_SOCKET, libc::SO_ZEROCOPY, 1), Err(Errno::OPNOTSUPP));
    let said = bench.kernel.said.lock().expect("no panic with it").clone();
    assert_eq!(said.iter().filter(|line| line.contains("fallback=option-refused")).count(), 3, "{said:?}");
    assert_eq!(bench.set(Descriptor { fd, socket }, libc::IPPROTO_IP, libc::IP_MINTTL, 0), Ok(()), "that is off");
    assert_eq!(
        bench.set(Descriptor { fd, socket }, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        Ok(()),
        "a stream has no such messages"
    );
}
