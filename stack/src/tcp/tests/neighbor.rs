//! ACKs keep the neighbor confirmed (RFC 4861 §7.3.1), on every path of the stack.

use super::ethernet::ethernet;
use super::rig::*;
use crate::config::{StackConfig, TcpOptions};
use crate::family::{Family, in_both_families};
use crate::wire::tcp::{ACK, PSH, SYN};

/// Runs a request every 200 ms for three minutes, each answered, each answer acknowledged by the next request, of a peer
/// that answers no request for its link address after the handshake. Returns the number of answers, and of such requests.
fn three_minutes(family: Family, slow_path_alone: bool) -> (u32, u32) {
    let mut rig = Rig::over(family, StackConfig { seed: 7, ..StackConfig::default() }, ethernet(family.mtu()));
    if slow_path_alone {
        rig.stack.take_the_long_way();
    }
    let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
    let syn = seg(SYN, 0, 0).mss(MSS as u16).scale(3).sack_permitted().time(rig.now.as_millis() as u32, 0);
    rig.accept_with(options, syn);
    let peer = rig.peer.as_mut().expect("the link is Ethernet");
    (peer.answers, peer.requests) = (false, 0);
    let (mut next, mut acked, mut answered, mut echo) = (1, 1, 0, rig.echo);
    for _ in 0..900 {
        rig.wait_ms(200);
        let clock = rig.now.as_millis() as u32;
        rig.receive(seg(ACK | PSH, next, acked).data(100).time(clock, echo));
        next += 100;
        rig.events();
        rig.stack.read_with(rig.id, 100, &mut |_| {}).expect("the connection is open");
        rig.send(acked, 100);
        for segment in rig.sent().iter().filter(|segment| !segment.payload.is_empty()) {
            echo = segment.options.timestamps.expect("as before").value;
            acked = acked.max(segment.seq + segment.payload.len() as u32);
            answered += 1;
        }
    }
    assert_eq!(rig.stack.fast_segments() == 0, slow_path_alone, "the intended path was taken");
    (answered, rig.peer.map_or(0, |peer| peer.requests))
}

/// RFC 4861 §7.3.1
fn acks_on_the_fast_path_confirm_the_neighbor(family: Family) {
    assert_eq!(three_minutes(family, true), (900, 0));
    assert_eq!(three_minutes(family, false), (900, 0));
}

in_both_families! {
    acks_on_the_fast_path_confirm_the_neighbor
}
