//! Two workers on one wire in virtual time, with real channels and clients in the same process.

mod adoption;
mod balance;
mod bulk;
mod deaths;
mod flood;
mod foreign;
mod guard;
mod handover;
mod harness;
mod multicast;
mod nonsense;
mod paced;
mod quotas;

use ringway_channel::{ControlAnswer, Failure, Flags, Operation, Request, SocketOption, State};
use ringway_device::memory::MemoryOptions;
use ringway_shm::Duration;
use ringway_shm::stats::InfoRecord;
use ringway_stack::{Counter, FastOpenKeys};

use crate::metrics::Work;
use crate::quota::Quota;
use harness::{Net, SERVER, pattern, socket};

/// Bytes in both directions arrive as written, then the ends of stream; then everything is free again.
#[test]
fn bytes_arrive_and_everything_is_given_back() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    assert_eq!(net.apps[0].client.slot(server.index).local(), socket(SERVER, 80));
    assert_eq!(net.apps[1].client.slot(client.index).remote(), socket(SERVER, 80));
    let (up, down) = (pattern(300_000, 1), pattern(3_000_000, 2));
    let got = net.exchange((1, client), (0, server), &up, &down);
    assert!(got == (down, up), "the streams differ");
    let answer = net.control(1, client, Operation::Shutdown);
    assert_eq!(answer, ControlAnswer::Done);
    net.run_until(|net| net.apps[0].client.slot(server.index).flags().has(Flags::PEER_CLOSED));
    net.close(0, server);
    net.run_until(|net| net.apps[1].client.slot(client.index).flags().has(Flags::HUNG_UP));
    net.close(1, client);
    net.close(0, listener);
    net.run_until(|net| net.workers.iter().all(|worker| worker.attachments.sockets() == 0));
    net.run_for_ms(70_000);
    assert_eq!(net.ports_in_use(), 0, "ports are given back after TIME-WAIT");
    assert!(net.frames_are_all_free(), "a frame was lost");
}

/// Requests that ask the kernel for ports take time: one group gets some in each iteration, and the first is last next
/// time.
#[test]
fn a_group_that_opens_much_at_once_gets_its_share_of_each_turn() {
    const MANY: usize = 100;
    let mut net = Net::new();
    let slots: Vec<_> = (0..MANY).map(|_| net.open(1)).collect();
    for &slot in &slots {
        let remote = socket(SERVER, 80);
        assert!(net.apps[1].client.submit(Request { slot, sequence: 0, operation: Operation::Connect { remote } }));
    }
    let mut before = 0;
    net.run_until(|net| {
        let begun = |slot: &&ringway_channel::SlotRef| net.apps[1].client.slot(slot.index).local().port() != 0;
        let count = slots.iter().filter(begun).count();
        assert!(count - std::mem::replace(&mut before, count) <= 64, "one turn's share");
        count == MANY
    });
}

/// SO_LINGER of zero and exit: the worker hears of the death in the iteration in which it would have taken the request.
#[test]
fn a_reset_that_a_program_asked_for_before_its_end_is_no_fin() {
    for by_group in [true, false] {
        let mut net = Net::new();
        let listener = net.listen(0, 80);
        let client = net.connect(1, 80);
        let server = net.accept(0, listener);
        net.run_until(|net| net.apps[1].client.slot(client.index).state() == State::Connected);
        assert!(net.apps[0].client.release(server.index));
        net.apps[0].client.close(server, Some(0));
        if by_group {
            net.detach(0)
        } else {
            net.process_gone(0, 0)
        }
        net.run_until(|net| net.apps[1].client.slot(client.index).flags().has(Flags::HUNG_UP));
        assert_eq!(net.apps[1].client.slot(client.index).error(), Some(Failure::Reset));
    }
}

/// Written data is sent although the connection is reset in the same iteration, by SO_LINGER of zero or because the
/// request was never read. Linux sends it during the write.
#[test]
fn what_was_written_goes_before_a_reset() {
    for unread in [false, true] {
        let mut net = Net::new();
        let listener = net.listen(0, 80);
        let client = net.connect(1, 80);
        let server = net.accept(0, listener);
        net.run_until(|net| net.apps[1].client.slot(client.index).state() == State::Connected);
        if unread {
            net.send(1, client, b"request");
            net.run_until(|net| net.apps[0].client.slot(server.index).unread() > 0);
        }
        net.send_some(0, server, b"answer");
        assert!(net.apps[0].client.release(server.index));
        net.apps[0].client.close(server, if unread { None } else { Some(0) });
        net.run_until(|net| net.apps[1].client.slot(client.index).flags().has(Flags::HUNG_UP));
        assert_eq!(net.apps[1].client.slot(client.index).error(), Some(Failure::Reset));
        let mut got = Vec::new();
        net.receive_into(1, client, &mut got);
        assert_eq!(got, b"answer");
        net.close(1, client);
        net.close(0, listener);
        net.run_until(|net| net.workers.iter().all(|worker| worker.attachments.sockets() == 0));
        net.run_for_ms(3_000);
        assert_eq!(net.ports_in_use(), 0);
        assert!(net.frames_are_all_free(), "a frame was lost");
    }
}

/// RFC 7413: the first connection gets a cookie; the second one is open at once, and its data goes with its SYN.
#[test]
fn fast_open() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let queue = Operation::SetOption { option: SocketOption::FastOpenQueue, value: 16 };
    assert_eq!(net.control(0, listener, queue), ControlAnswer::Done);
    for early in [false, true] {
        let client = net.open(1);
        let fast = Operation::SetOption { option: SocketOption::FastOpenConnect, value: 1 };
        assert_eq!(net.control(1, client, fast), ControlAnswer::Done);
        assert_eq!(net.control(1, client, Operation::Connect { remote: socket(SERVER, 80) }), ControlAnswer::Done);
        assert_eq!(net.apps[1].client.slot(client.index).state() == State::Connected, early);
        net.run_until(|net| net.apps[1].client.slot(client.index).state() == State::Connected);
        assert_eq!(net.send(1, client, b"early words"), 11);
        let server = net.accept(0, listener);
        let mut got = Vec::new();
        net.run_until(|net| {
            net.receive_into(0, server, &mut got);
            got.len() == 11
        });
        assert_eq!(got, b"early words");
        let passive = net.workers[0].core.stack.counters().get(Counter::TcpFastOpenPassive);
        assert_eq!(passive, u64::from(early));
        net.close(0, server);
        net.close(1, client);
        net.run_for_ms(10);
    }
}

/// TCP_FASTOPEN_KEY, before and after `listen`: the keys are the listener's own, and one key replaces two.
#[test]
fn fast_open_keys() {
    let mut net = Net::new();
    let keys = |net: &Net| {
        let mut found = Vec::new();
        let stack = &net.workers[0].core.stack;
        stack.for_each_socket(&mut |socket| found.push(stack.fast_open_keys(Some(socket.id))));
        found
    };
    let submit = |net: &Net, slot, key, backup| {
        let operation = Operation::FastOpenKey { key: [key; 16], backup };
        assert!(net.apps[0].client.submit(Request { slot, sequence: 0, operation }));
    };
    let slot = net.open(0);
    submit(&net, slot, 1, false);
    submit(&net, slot, 2, true);
    let operation = Operation::Listen { local: socket([0, 0, 0, 0], 80), backlog: 16, dual_stack: false };
    assert_eq!(net.control(0, slot, operation), ControlAnswer::Done);
    assert_eq!(keys(&net), [FastOpenKeys { primary: [1; 16], backup: Some([2; 16]) }]);
    submit(&net, slot, 3, false);
    net.run_for_ms(1);
    assert_eq!(keys(&net), [FastOpenKeys { primary: [3; 16], backup: None }]);
    submit(&net, slot, 4, true);
    net.run_for_ms(1);
    assert_eq!(keys(&net), [FastOpenKeys { primary: [3; 16], backup: Some([4; 16]) }]);
}

/// A refused connection fails with that reason.
#[test]
fn no_socket_listens() {
    let mut net = Net::new();
    let client = net.connect(1, 81);
    net.run_until(|net| net.apps[1].client.slot(client.index).state() == State::Closed);
    assert_eq!(net.apps[1].client.slot(client.index).take_error(), Some(Failure::Refused));
    net.close(1, client);
    net.run_for_ms(1);
    assert_eq!(net.ports_in_use(), 0);
}

/// Destinations that no interface of ours leads to, and our own addresses, are left to the kernel.
#[test]
fn other_destinations_are_not_ours() {
    let mut net = Net::new();
    for remote in ["127.0.0.1:80", "192.0.2.1:80", "10.0.0.2:80"] {
        let slot = net.open(1);
        let remote = remote.parse().expect("an address");
        assert_eq!(net.control(1, slot, Operation::Connect { remote }), ControlAnswer::NotOurs);
        net.close(1, slot);
    }
    let slot = net.open(1);
    let local = "127.0.0.1:80".parse().expect("an address");
    assert_eq!(net.control(1, slot, Operation::Listen { local, backlog: 1, dual_stack: false }), ControlAnswer::NotOurs);
}

/// A port belongs to the first group that requested it, until it closes.
#[test]
fn two_groups_cannot_have_one_port() {
    let mut net = Net::new();
    let other = net.attach(0, [7; 16]);
    let listener = net.listen(0, 80);
    let slot = net.open(other);
    let operation = Operation::Listen { local: socket([0, 0, 0, 0], 80), backlog: 5, dual_stack: false };
    assert_eq!(net.control(other, slot, operation), ControlAnswer::Failed(Failure::InUse));
    net.close(0, listener);
    net.run_for_ms(1);
    assert_eq!(net.control(other, slot, operation), ControlAnswer::Done);
}

/// A region that ends first sends the data written to it.
#[test]
fn a_detached_region_still_sends_what_was_written() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    let bytes = pattern(100_000, 3);
    let sent = net.send(0, server, &bytes);
    assert_eq!(sent, bytes.len());
    net.detach(0);
    let mut got = Vec::new();
    net.run_until(|net| {
        net.receive_into(1, client, &mut got);
        net.apps[1].client.slot(client.index).flags().has(Flags::PEER_CLOSED)
    });
    net.receive_into(1, client, &mut got);
    assert!(got == bytes, "{} of {} bytes", got.len(), bytes.len());
}

/// The memory of an ended program with a peer that reads nothing stays until another program needs the space; then the
/// connection is reset, and the memory is free.
#[test]
fn what_ended_programs_have_left_counts_as_their_users() {
    let mut net = Net::on(MemoryOptions::offloading());
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    let bytes = pattern(2_000_000, 3);
    for _ in 0..50 {
        net.send_some(1, client, &bytes);
        net.run_for_ms(1);
    }
    net.detach(1);
    net.run_for_ms(100);
    assert!(net.workers[1].attachments.held_by_ended() > 0, "the peer has not read all");
    net.workers[1].attachments.limit_regions(2, 2);
    net.attach(1, [3; 16]);
    assert!(net.workers[1].attachments.held_by_ended() > 0, "there is room for both");
    net.attach(1, [4; 16]);
    net.run_until(|net| net.apps[0].client.slot(server.index).error() == Some(Failure::Reset));
    assert_eq!(net.workers[1].attachments.held_by_ended(), 0);
    assert_eq!(net.workers[1].core.metrics.value(Work::OrphansReset), 1);
    assert_eq!(net.workers[1].core.metrics.hits().of(Quota::Groups, 0), 1);
}

/// Linux: tcp_max_orphans. A connection that is closed beyond the limit is reset.
#[test]
fn orphans_have_a_limit() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    net.workers[1].core.limit_orphans(3);
    let pairs: Vec<_> = (0..5).map(|_| (net.connect(1, 80), net.accept(0, listener))).collect();
    for &(client, _) in &pairs {
        net.close(1, client);
    }
    net.run_for_ms(10);
    let reset = |net: &Net| pairs.iter().filter(|pair| net.apps[0].client.slot(pair.1.index).error().is_some()).count();
    assert_eq!(reset(&net), 2);
    assert_eq!(net.workers[1].core.metrics.value(Work::OrphansReset), 2);
    assert_eq!(net.workers[1].core.metrics.hits().of(Quota::Orphans, 0), 2);
    for &(_, server) in &pairs {
        net.close(0, server);
    }
    net.close(0, listener);
    net.run_for_ms(70_000);
    assert_eq!(net.ports_in_use(), 0, "each port is given back once");
}

/// Messages of some KiB are copied only by the programs, too.
#[test]
fn messages_of_8_kib_go_from_the_memory_of_their_writer_to_that_of_their_reader() {
    let mut net = Net::on(MemoryOptions::offloading());
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    let all = net.workers[0].attachments.free_rooms();
    for seed in 0..3 {
        let message = pattern(8 << 10, seed);
        let (mut sent, mut got, mut lent) = (0, Vec::new(), 0);
        net.write_some((1, client), &message, &mut sent);
        net.run_until(|net| {
            lent = lent.max(net.workers[1].attachments.lent_chunks());
            net.apps[0].client.slot(server.index).unread() as usize == message.len()
        });
        assert_eq!((sent, lent), (message.len(), 1), "it leaves from where it was written");
        assert_eq!(net.workers[0].attachments.free_rooms(), all - 1, "and has arrived where it is read");
        assert!(!net.workers[0].attachments.yield_to_readers(), "messages do not make the reader run first");
        net.receive_into(0, server, &mut got);
        assert!(got == message);
        net.run_for_ms(100);
        assert_eq!((net.workers[0].attachments.free_rooms(), net.workers[1].attachments.lent_chunks()), (all, 0));
    }
}

/// On a link that carries large packets, bytes leave from the chunks that their writer has filled, and are read to the
/// memory of their slow reader; all chunks come back.
#[test]
fn large_packets_go_from_the_memory_of_their_writer_to_that_of_their_reader() {
    let mut net = Net::on(MemoryOptions::offloading());
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    let all = net.workers[0].attachments.free_rooms();
    let bytes = pattern(3 << 20, 5);
    let (mut sent, mut least, mut most, mut ahead, mut got) = (0, all, 0, 0, Vec::new());
    let mut yield_to_readers = false;
    net.run_until(|net| {
        net.write_some((1, client), &bytes, &mut sent);
        ahead = ahead.max(net.apps[1].client.slot(client.index).send_limit());
        least = least.min(net.workers[0].attachments.free_rooms());
        most = most.max(net.workers[1].attachments.lent_chunks());
        yield_to_readers |= net.workers[0].attachments.yield_to_readers();
        if net.now.as_millis() % 2 == 0 {
            net.receive_into(0, server, &mut got);
        }
        got.len() >= bytes.len()
    });
    assert!(got == bytes, "{} of {} bytes", got.len(), bytes.len());
    assert!(least < all, "nothing was read to the reader's memory");
    assert!(most > 0, "nothing has left from the writer's memory");
    assert!(yield_to_readers, "the slow reader was not given the processor");
    assert!(!net.workers[0].attachments.yield_to_readers(), "nothing more has come");
    assert!(ahead > 256 << 10, "the only writer may write far ahead, not only {ahead} bytes");
    net.run_for_ms(100);
    assert_eq!((net.workers[0].attachments.free_rooms(), net.workers[1].attachments.lent_chunks()), (all, 0));
    net.close(0, server);
    net.close(1, client);
    net.run_for_ms(100);
    assert!(net.frames_are_all_free());
}

/// Data sent from the writer's chunks takes no frame: a writer has all of its own chunks, not a share of the frames.
#[test]
fn a_writer_may_fill_its_own_chunks() {
    let mut net = Net::on(MemoryOptions::offloading());
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    let buffer = Operation::SetOption { option: SocketOption::SendBuffer, value: 8 << 20 };
    assert_eq!(net.control(1, client, buffer), ControlAnswer::Done);
    let bytes = pattern(7 << 19, 6);
    let (mut sent, mut got) = (0, Vec::new());
    while sent < bytes.len() {
        let before = sent;
        net.write_some((1, client), &bytes, &mut sent);
        net.run_for_ms(100);
        assert!(sent > before, "{sent} bytes, and no more");
    }
    let lent = net.workers[1].attachments.lent_chunks();
    assert!(lent > 64, "only {lent} chunks wait for the peer, which reads nothing");
    net.run_until(|net| {
        net.receive_into(0, server, &mut got);
        got.len() >= bytes.len()
    });
    assert!(got == bytes);
}

/// Forty peers that read nothing hold neither all chunks nor all frames of either end: one more connection still works
/// both ways.
#[test]
fn slow_readers_leave_room_for_others() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let mut slow = Vec::new();
    for _ in 0..40 {
        let client = net.connect(1, 80);
        slow.push((client, net.accept(0, listener)));
    }
    let bytes = pattern(100_000, 4);
    for _ in 0..200 {
        for &(_, server) in &slow {
            net.send_some(0, server, &bytes);
        }
        net.run_for_ms(1);
    }
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    let (up, down) = (pattern(200_000, 1), pattern(200_000, 2));
    let got = net.exchange((1, client), (0, server), &up, &down);
    assert!(got == (down, up), "the streams differ");
    let mut read = Vec::new();
    net.run_until(|net| {
        net.receive_into(1, slow[7].0, &mut read);
        read.len() > 300_000
    });
    assert!(read.chunks(bytes.len()).next().is_some_and(|first| bytes.starts_with(first)));
}

/// As many slow readers as there is space for are written to as far as possible, while others connect and are answered,
/// one after the other.
#[test]
fn a_program_that_never_reads_leaves_a_share_to_those_that_drain() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let bytes = pattern(100_000, 4);
    let mut slow = Vec::new();
    for _ in 0..110 {
        let client = net.connect(1, 80);
        let server = net.accept(0, listener);
        for _ in 0..8 {
            net.send_some(0, server, &bytes);
        }
        slow.push((client, server));
        net.run_for_ms(1);
    }
    for round in 0..10 {
        for &(_, server) in &slow {
            net.send_some(0, server, &bytes);
        }
        let client = net.connect(1, 80);
        let server = net.accept(0, listener);
        let (up, down) = (pattern(3_000, round), pattern(100_000, round + 1));
        let got = net.exchange((1, client), (0, server), &up, &down);
        assert!(got == (down, up), "the streams differ");
        net.close(0, server);
        net.close(1, client);
        net.run_for_ms(10);
    }
    let mut read = Vec::new();
    // A peer that reads after all gets data again.
    net.run_until(|net| {
        net.receive_into(1, slow[99].0, &mut read);
        net.send_some(0, slow[99].1, &bytes);
        read.len() > 5 * bytes.len()
    });
}

/// A worker with nothing to do asks for no wake-up at all, idle connections or not.
#[test]
fn an_idle_worker_sleeps_for_ever() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    net.accept(0, listener);
    net.run_for_ms(5_000);
    for worker in &mut net.workers {
        assert!(!worker.attachments.arm(Duration::ZERO));
        assert_eq!(worker.next_timeout(net.now), None, "stack {:?}", worker.core.stack.poll_timeout());
    }
    assert_eq!(net.apps[1].client.slot(client.index).state(), State::Connected);
}

/// An empty end of stream, and a reset, are edges for edge-triggered waiters.
#[test]
fn ends_are_edges() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    let edges = |net: &Net, app: usize, slot: ringway_channel::SlotRef| {
        let shared = net.apps[app].client.slot(slot.index);
        (shared.arrivals(), shared.releases())
    };
    let before = edges(&net, 0, server);
    assert_eq!(net.control(1, client, Operation::Shutdown), ControlAnswer::Done);
    net.run_until(|net| net.apps[0].client.slot(server.index).flags().has(Flags::PEER_CLOSED));
    let ended = edges(&net, 0, server);
    assert!(ended.0 != before.0 && ended.1 == before.1, "{before:?} {ended:?}");
    let before = edges(&net, 1, client);
    assert!(net.apps[0].client.close(server, Some(0)));
    net.run_until(|net| net.apps[1].client.slot(client.index).flags().has(Flags::FAILED));
    let reset = edges(&net, 1, client);
    assert!(reset.0 != before.0 && reset.1 != before.1, "{before:?} {reset:?}");
}

/// A reset of a connection that both ends have closed: a read returns the end, SO_ERROR the reset (Linux, tcp_reset).
#[test]
fn a_reset_behind_both_ends() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    assert_eq!(net.control(1, client, Operation::Shutdown), ControlAnswer::Done);
    net.run_until(|net| net.apps[0].client.slot(server.index).flags().has(Flags::PEER_CLOSED));
    // More than the other end, which does not read, has space for: the FIN waits behind it.
    net.send_some(0, server, &pattern(8_000_000, 1));
    net.run_for_ms(5);
    assert_eq!(net.control(0, server, Operation::Shutdown), ControlAnswer::Done);
    net.close(1, client);
    net.run_until(|net| net.apps[0].client.slot(server.index).flags().has(Flags::HUNG_UP));
    let mut got = Vec::new();
    net.receive_into(0, server, &mut got);
    assert_eq!((got.len(), net.apps[0].client.slot(server.index).take_error()), (0, Some(Failure::Reset)));
}

/// TCP_INFO reaches the application.
#[test]
fn info_is_answered() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    net.accept(0, listener);
    let mut bytes = [0; 2048];
    let len = net.control_bytes(1, client, Operation::Info, &mut bytes);
    assert_eq!(len, InfoRecord::BYTES);
    let info = InfoRecord::from_bytes(&bytes[..len]);
    assert_eq!((info.state, info.mss), (1, 1448));
}

/// A group that writes nonsense into its own region harms no other, and the worker survives.
#[test]
fn hostile_requests_harm_only_their_author() {
    for seed in 0..20 {
        let mut net = Net::new();
        let hostile = net.attach(0, [9; 16]);
        let listener = net.listen(0, 80);
        let client = net.connect(1, 80);
        let server = net.accept(0, listener);
        net.fire_nonsense(hostile, seed, 2_000);
        let (up, down) = (pattern(20_000, 1), pattern(20_000, 2));
        let got = net.exchange((1, client), (0, server), &up, &down);
        assert!(got == (down, up), "seed {seed}: the streams of others differ");
        net.detach(hostile);
        net.run_for_ms(10);
    }
}

/// False envelopes, on sockets that come and go: the worker goes on, others get their bytes, and nothing of the
/// author's is left behind.
#[test]
fn hostile_envelopes_harm_only_their_author() {
    for seed in 0..20 {
        let mut net = Net::new();
        let hostile = net.attach(0, [9; 16]);
        let listener = net.listen(0, 80);
        let client = net.connect(1, 80);
        let server = net.accept(0, listener);
        net.fire_lying_messages(hostile, seed, 500);
        let (up, down) = (pattern(20_000, 1), pattern(20_000, 2));
        let got = net.exchange((1, client), (0, server), &up, &down);
        assert!(got == (down, up), "seed {seed}: the streams of others differ");
        net.detach(hostile);
        net.close(1, client);
        net.close(0, server);
        net.close(0, listener);
        net.run_for_ms(70_000);
        assert!(net.frames_are_all_free(), "seed {seed}: a frame was lost");
    }
}
