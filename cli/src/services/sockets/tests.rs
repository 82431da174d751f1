use ringway_channel::{KernelPath, KernelReason};
use ringway_shm::stats::SocketRecord;

use super::*;
use crate::ss::tests::socket;

fn listener(port: u16, waiting: u32) -> SocketRecord {
    let local = format!("0.0.0.0:{port}");
    SocketRecord { receive_queue: waiting, ..socket(LISTEN, &local, "0.0.0.0:0") }
}

fn summary(workers: Vec<Vec<SocketRecord>>) -> Vec<(usize, u8, u16, u32)> {
    let all = join(workers.into_iter()).into_iter();
    all.map(|(worker, socket)| (worker, socket.state, socket.local.port, socket.receive_queue)).collect()
}

#[test]
fn a_listener_of_all_workers_is_one_with_all_that_waits() {
    let connection = || SocketRecord { receive_queue: 9, ..socket(1, "10.0.0.1:80", "10.0.0.2:4000") };
    let first = vec![listener(80, 1), listener(443, 0), connection()];
    let second = vec![connection(), listener(80, 2), listener(443, 5)];
    assert_eq!(
        summary(vec![first, second]),
        [(0, LISTEN, 80, 3), (0, LISTEN, 443, 5), (0, 1, 80, 9), (1, 1, 80, 9)],
        "connections are one each"
    );
}

#[test]
fn what_another_listener_has_is_not_joined() {
    let others = SocketRecord { program: "haproxy".to_owned(), ..listener(80, 4) };
    let at_interface = SocketRecord { interface: 3, ..listener(80, 5) };
    let of_user = SocketRecord { uid: 1000, ..listener(80, 6) };
    let at_kernel = SocketRecord { kernel: Some(KernelPath { reason: KernelReason::Firewall, count: 1 }), ..listener(80, 7) };
    let all = summary(vec![vec![listener(80, 1)], vec![others, at_interface, of_user, at_kernel, listener(80, 2)]]);
    assert_eq!(all.len(), 5);
    assert_eq!(all[0], (0, LISTEN, 80, 3));
}

/// SO_REUSEPORT: each has a slot at each worker.
#[test]
fn listeners_of_one_address_stay_as_many_as_they_are() {
    let all = summary(vec![vec![listener(80, 1), listener(80, 2)], vec![listener(80, 10), listener(80, 20)]]);
    assert_eq!(all, [(0, LISTEN, 80, 11), (0, LISTEN, 80, 22)]);
    let alone = summary(vec![vec![], vec![listener(80, 3), listener(80, 4)]]);
    assert_eq!(alone, [(1, LISTEN, 80, 3), (1, LISTEN, 80, 4)], "the first worker has none");
}
