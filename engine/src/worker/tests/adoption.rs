//! Connections of the kernel's that go on in a slot.

use std::sync::mpsc::Receiver;

use ringway_channel::{Flags, SlotRef};
use ringway_shm::{Duration, GroupSet};
use ringway_stack::SocketAddress;
use ringway_stack::handover::{ConnectionImage, Quiet};

use super::harness::{Net, Recorder, pattern};
use crate::attach::{AdoptionCommand, HandoverCommand};
use crate::command::{RegionId, Reply};
use crate::handover::{Left, NotAdopted};
use crate::metrics::Work;

type Answer = Result<(), NotAdopted>;

fn ask(net: &mut Net, command: impl FnOnce(RegionId, Reply<Answer>) -> AdoptionCommand) -> Answer {
    let (reply, answer): (_, Receiver<Answer>) = Reply::pair();
    let command = command(net.apps[0].region, reply);
    net.workers[0].attachments.obey_adoption(command, &mut net.workers[0].core);
    answer.try_recv().expect("it is answered at once")
}

fn expect(net: &mut Net, ends: [SocketAddress; 2]) -> Answer {
    ask(net, |_, reply| AdoptionCommand::Expect(ends, reply))
}

fn adopt(net: &mut Net, slot: SlotRef, quiet: Quiet) -> Answer {
    ask(net, |region, reply| AdoptionCommand::Adopt(region, slot, quiet, reply))
}

/// What a kernel would tell of a connection that has gone home while nothing was under way.
fn quiet(image: &ConnectionImage) -> Quiet {
    let (terms, receiving, sending) = (&image.terms, &image.receiving, &image.sending);
    assert!(sending.extents.is_empty() && receiving.unread.is_empty(), "nothing is under way");
    Quiet {
        local: image.local,
        remote: image.remote,
        mss: terms.mss,
        send_scale: terms.send_scale,
        receive_scale: terms.receive_scale,
        sack: terms.sack,
        timestamp: terms.timestamps.map(|clock| clock.now),
        rcv_nxt: receiving.nxt,
        edge: receiving.edge,
        snd_nxt: sending.nxt,
        wnd: sending.wnd,
        wl1: sending.wl1,
        max_window: sending.max_window,
        srtt_us: image.deadlines.srtt_us,
        rttvar_us: image.deadlines.rttvar_us,
    }
}

/// A connection that the kernel has got, its peer's end, and the listener that had accepted it.
fn gone_home() -> (Net, Quiet, SlotRef, SlotRef) {
    gone_home_from(Net::new(), Net::listen)
}

fn gone_home_from(mut net: Net, listen: fn(&mut Net, usize, u16) -> SlotRef) -> (Net, Quiet, SlotRef, SlotRef) {
    let listener = listen(&mut net, 0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    net.run_for_ms(500);
    let departed = net.hand_over(0, |region, reply| HandoverCommand::Depart(region, server, None, reply));
    let departure = departed.try_recv().expect("it is answered at once").expect("it is open").expect("it is a connection");
    let image = departure.image.clone();
    let late = net.hand_over(0, |region, reply| HandoverCommand::Arrived(region, server, departure.image, reply));
    late.try_recv().expect("it is answered at once");
    net.close(0, server);
    net.run_for_ms(2_000);
    (net, quiet(&image), client, listener)
}

#[test]
fn a_connection_goes_on_in_a_fresh_slot() {
    let (mut net, quiet, client, _) = gone_home();
    let ends = [quiet.local, quiet.remote];
    assert_eq!(expect(&mut net, ends), Ok(()));
    assert_eq!(expect(&mut net, ends), Err(NotAdopted::Known), "it is expected already");
    let slot = net.open(0);
    assert_eq!(adopt(&mut net, slot, quiet), Ok(()));
    assert_eq!(adopt(&mut net, slot, quiet), Err(NotAdopted::Unknown), "the slot is in use");
    assert_eq!(net.workers[0].core.metrics.value(Work::SocketsAdopted), 1);
    assert!(!net.apps[0].client.slot(slot.index).flags().has(Flags::MOVED));
    let (up, down) = (pattern(300_000, 1), pattern(300_000, 2));
    let (mut sent_up, mut sent_down, mut read_up, mut read_down) = (0, 0, Vec::new(), Vec::new());
    net.run_until(|net| {
        net.write_some((1, client), &up, &mut sent_up);
        net.write_some((0, slot), &down, &mut sent_down);
        net.receive_into(1, client, &mut read_down);
        net.receive_into(0, slot, &mut read_up);
        read_up.len() >= up.len() && read_down.len() >= down.len()
    });
    assert!(read_up == up && read_down == down, "the streams differ");
    net.close(1, client);
    net.close(0, slot);
    net.run_for_ms(300_000);
    assert!(net.frames_are_all_free(), "a frame was lost");
}

#[test]
fn what_no_listener_serves_stays() {
    let (mut net, quiet, client, listener) = gone_home();
    let other = SocketAddress { port: 81, ..quiet.local };
    assert_eq!(expect(&mut net, [other, quiet.remote]), Err(NotAdopted::NotServed));
    let stale = net.open(0);
    net.close(0, stale);
    net.run_for_ms(5);
    assert_eq!(expect(&mut net, [quiet.local, quiet.remote]), Ok(()));
    assert_eq!(adopt(&mut net, stale, quiet), Err(NotAdopted::Unknown));
    net.close(0, listener);
    net.run_for_ms(5);
    let slot = net.open(0);
    assert_eq!(adopt(&mut net, slot, quiet), Err(NotAdopted::NotServed), "its listener has gone");
    // The kernel goes on: the silence ends.
    let give_up = AdoptionCommand::GiveUp([quiet.local, quiet.remote]);
    net.workers[0].attachments.obey_adoption(give_up, &mut net.workers[0].core);
    net.run_for_ms(2_000);
    assert!(!net.workers[0].core.stack.release_hold(quiet.local, quiet.remote), "it has ended");
    net.close(1, client);
}

/// Packets of the flow come to the worker that has its group now.
#[test]
fn a_flow_of_another_worker_stays() {
    let others = Recorder::default();
    let (mut net, quiet, client, _) = gone_home_from(Net::divided(&others), Net::listen_everywhere);
    let ends = [quiet.local, quiet.remote];
    assert_eq!(expect(&mut net, ends), Ok(()));
    let give_up = AdoptionCommand::GiveUp(ends);
    net.workers[0].attachments.obey_adoption(give_up, &mut net.workers[0].core);
    others.others().groups = GroupSet::NONE;
    assert_eq!(expect(&mut net, ends), Err(NotAdopted::Elsewhere));
    net.close(1, client);
}

/// What crosses when the service ends is waited for, and nothing else begins to.
#[test]
fn a_worker_that_leaves_waits_for_what_it_expects_and_expects_no_more() {
    let (mut net, quiet, _, _) = gone_home();
    let ends = [quiet.local, quiet.remote];
    assert_eq!(expect(&mut net, ends), Ok(()));
    let (drain, limit) = (Duration::ZERO, Duration::from_secs(5));
    let left = net.hand_over(0, |_, reply| HandoverCommand::Leave { drain, limit, reply });
    net.run_for_ms(1_000);
    assert!(left.try_recv().is_err(), "one is on its way");
    let other = SocketAddress { port: 5, ..quiet.remote };
    assert_eq!(expect(&mut net, [quiet.local, other]), Err(NotAdopted::NotServed));
    let give_up = AdoptionCommand::GiveUp(ends);
    net.workers[0].attachments.obey_adoption(give_up, &mut net.workers[0].core);
    net.run_for_ms(100);
    assert_eq!(left.try_recv(), Ok(Left { connections: 0 }));
}
