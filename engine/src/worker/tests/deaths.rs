//! Sockets of processes that die.

use ringway_channel::{ControlAnswer, Failure, Flags, Operation, SocketOption};

use super::harness::Net;

/// Sockets of a dead process are closed as the kernel does: FIN if everything was read, otherwise RST.
#[test]
fn a_dead_process_closes_its_connections() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let (read, unread) = (net.connect(1, 80), net.connect(1, 80));
    let (first, second) = (net.accept(0, listener), net.accept(0, listener));
    assert_ne!(first, second);
    let sent = net.send(1, unread, b"never read");
    assert_eq!(sent, 10);
    net.run_for_ms(5);
    let process = net.apps[0].client.process();
    net.process_gone(0, process);
    net.run_until(|net| {
        let flags = |slot: ringway_channel::SlotRef| net.apps[1].client.slot(slot.index).flags();
        flags(read).has(Flags::PEER_CLOSED) && flags(unread).has(Flags::FAILED)
    });
    assert_eq!(net.apps[1].client.slot(unread.index).take_error(), Some(Failure::Reset));
    assert_eq!(net.apps[1].client.slot(read.index).error(), None);
    assert_eq!(net.workers[0].attachments.sockets(), 0, "all slots are free again");
}

/// SO_LINGER of zero holds for the socket: a process that dies resets it, and a listener's connections have it from the start.
#[test]
fn a_dead_process_resets_connections_that_it_would_have_reset() {
    for by_group in [true, false] {
        let mut net = Net::new();
        let listener = net.listen(0, 80);
        let reset_at_close = |value| Operation::SetOption { option: SocketOption::ResetAtClose, value };
        let before = net.connect(1, 80);
        let first = net.accept(0, listener);
        assert_eq!(net.control(0, listener, reset_at_close(1)), ControlAnswer::Done);
        let clients = [before, net.connect(1, 80), net.connect(1, 80)];
        let (_, last) = (net.accept(0, listener), net.accept(0, listener));
        assert_eq!(net.control(0, first, reset_at_close(1)), ControlAnswer::Done);
        assert_eq!(net.control(0, last, reset_at_close(0)), ControlAnswer::Done);
        if by_group {
            net.detach(0)
        } else {
            let process = net.apps[0].client.process();
            net.process_gone(0, process);
        }
        let ended = |net: &Net| clients.map(|client| net.apps[1].client.slot(client.index).flags());
        net.run_until(|net| ended(net).iter().all(|flags| flags.has(Flags::PEER_CLOSED) || flags.has(Flags::FAILED)));
        let errors = clients.map(|client| net.apps[1].client.slot(client.index).error());
        assert_eq!(errors, [Some(Failure::Reset), Some(Failure::Reset), None]);
    }
}

/// A death is reported twice when parent and child have both told of the child. By then its number may be another's.
#[test]
fn a_death_that_is_told_again_ends_nothing_of_the_next_holder() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    net.connect(1, 80);
    let server = net.accept(0, listener);
    let (process, region) = (net.apps[0].client.process(), net.apps[0].region);
    let worker = &mut net.workers[0];
    for pid in [0, std::process::id() + 1] {
        worker.attachments.process_gone(region, process, pid, &mut worker.core);
    }
    assert_eq!(net.send(0, server, b"lives"), 5);
    let before = net.workers[0].attachments.sockets();
    net.process_gone(0, process);
    assert!(net.workers[0].attachments.sockets() < before, "its own death");
}
