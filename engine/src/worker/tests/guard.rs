//! Ports and connections that the host's packet filters forbid.

use ringway_channel::{ControlAnswer, Failure, Flags, KernelReason, Operation, SlotRef, SocketOption, State};
use ringway_stack::CongestionControl;

use super::harness::{App, DENIED, Net, RULED, SLOW, WAITS, socket};
use crate::guard::Guard;
use crate::quota::GroupQuotas;
use crate::verdict::{Allowance, Ruling, Terms, Verdict};
use crate::worker::Worker;

impl Net {
    /// Why the kernel gets a listener's connections, in the word of tools.
    fn kernel_reason(&mut self, app: usize, listener: SlotRef) -> Option<&'static str> {
        let App { worker, region, .. } = self.apps[app];
        let Worker { attachments, core, .. } = &mut self.workers[worker];
        attachments.kernel_path_of(region, listener.index, core).map(|path| path.reason.word())
    }

    /// The rates at which a worker's connections may send.
    fn rates(&self, worker: usize) -> Vec<u64> {
        let core = &self.workers[worker].core;
        let mut ids = Vec::new();
        core.stack
            .for_each_socket(&mut |socket| ids.extend((socket.state == ringway_stack::State::Established).then_some(socket.id)));
        ids.into_iter().filter_map(|id| core.stack.info_at(core.now, id)).map(|info| info.pacing_rate_max).collect()
    }

    /// The value of an option as it was set.
    fn option(&mut self, app: usize, slot: SlotRef, option: SocketOption) -> Option<u32> {
        let mut bytes = [0; 8];
        let len = self.control_bytes(app, slot, Operation::Option { option }, &mut bytes);
        (len == 8).then(|| u64::from_le_bytes(bytes) as u32)
    }
}

#[test]
fn a_guarded_port_is_not_served_and_a_guarded_connection_not_opened() {
    let mut net = Net::new();
    net.guard(0, &[80]);
    let slot = net.open(0);
    let listen = |port| Operation::Listen { local: socket([0; 4], port), backlog: 1, dual_stack: false };
    assert_eq!(net.control(0, slot, listen(80)), ControlAnswer::Failed(Failure::Guarded));
    let datagrams = Operation::Datagram { local: socket([0; 4], 80), dual_stack: false };
    assert_eq!(net.control(0, slot, datagrams), ControlAnswer::Failed(Failure::Guarded));
    assert_eq!(net.control(0, slot, listen(81)), ControlAnswer::Done);
    let client = net.open(1);
    let connect = |port| Operation::Connect { remote: socket(super::SERVER, port) };
    assert_eq!(net.control(1, client, connect(80)), ControlAnswer::Failed(Failure::Guarded));
    assert_eq!(net.ports_in_use(), 1, "a port that is not used is given back");
    assert_eq!(net.control(1, client, connect(81)), ControlAnswer::Done);
}

/// The service does not know the kernel's connections of the port yet.
#[test]
fn a_listener_whose_port_waits_is_the_kernels_and_then_served() {
    let mut net = Net::new();
    net.guard(0, &[WAITS]);
    let listener = net.listen(0, WAITS);
    assert_eq!(net.ports_in_use(), 0);
    net.guard(0, &[]);
    assert_eq!(net.ports_in_use(), 1);
    net.connect(1, WAITS);
    net.accept(0, listener);
}

#[test]
fn a_listener_that_is_guarded_is_the_kernels_until_it_is_not() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    net.run_until(|net| net.apps[1].client.slot(client.index).state() == State::Connected);
    assert_eq!(net.ports_in_use(), 2);
    net.guard(0, &[80]);
    assert_eq!(net.ports_in_use(), 1, "packets go to the kernel");
    net.run_for_ms(10);
    // It ends without a packet to its peer.
    assert_eq!(net.apps[0].client.slot(server.index).error(), Some(Failure::TimedOut));
    assert_eq!(net.apps[1].client.slot(client.index).error(), None);
    net.guard(0, &[81]);
    assert_eq!(net.ports_in_use(), 2);
    net.guard(0, &[80]);
    net.close(0, server);
    net.close(0, listener);
    net.run_for_ms(70_000);
    assert_eq!(net.ports_in_use(), 1, "the client's alone");
    net.guard(0, &[]);
    let listener = net.listen(0, 80);
    net.connect(1, 80);
    net.accept(0, listener);
}

#[test]
fn an_open_connection_that_is_guarded_times_out_without_a_packet() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    net.run_until(|net| net.apps[1].client.slot(client.index).state() == State::Connected);
    net.guard(1, &[81]);
    assert_eq!(net.apps[1].client.slot(client.index).error(), None);
    net.guard(1, &[80]);
    net.run_for_ms(10);
    assert_eq!(net.apps[1].client.slot(client.index).error(), Some(Failure::TimedOut));
    assert_eq!(net.apps[0].client.slot(server.index).error(), None);
    assert_eq!(net.ports_in_use(), 1, "the server's");
    // No application has it any more, but it has not ended.
    net.guard(1, &[]);
    let client = net.connect(1, 80);
    net.accept(0, listener);
    net.run_until(|net| net.apps[1].client.slot(client.index).state() == State::Connected);
    net.close(1, client);
    net.run_for_ms(10);
    net.guard(1, &[80]);
    net.run_for_ms(10);
    assert_eq!(net.ports_in_use(), 1);
}

#[test]
fn a_datagram_socket_that_is_guarded_is_given_back() {
    let mut net = Net::new();
    let slot = net.open(0);
    let datagrams = Operation::Datagram { local: socket([0; 4], 53), dual_stack: false };
    assert_eq!(net.control(0, slot, datagrams), ControlAnswer::Done);
    net.guard(0, &[80]);
    assert_eq!(net.ports_in_use(), 1);
    net.guard(0, &[53]);
    assert_eq!(net.ports_in_use(), 0);
    assert_eq!(net.apps[0].client.slot(slot.index).take_error(), Some(Failure::Guarded));
    assert_eq!(net.refused(0), [(53, 0, "firewall", 1)], "tools are told of it");
    net.guard(0, &[]);
    assert_eq!(net.ports_in_use(), 0, "it is the kernel's for good");
    assert_eq!(net.refused(0), [(53, 0, "firewall", 1)]);
    net.close(0, slot);
    net.run_for_ms(1);
}

/// A rule of the configuration has a word of its own, and one that denies leaves nothing to the kernel.
#[test]
fn rules_of_the_configuration_refuse_in_their_own_words() {
    let mut net = Net::new();
    net.guard(0, &[RULED, DENIED]);
    net.guard(1, &[RULED, DENIED]);
    let listen = |port| Operation::Listen { local: socket([0; 4], port), backlog: 1, dual_stack: false };
    let datagrams = |port| Operation::Datagram { local: socket([0; 4], port), dual_stack: false };
    let connect = |port| Operation::Connect { remote: socket(super::SERVER, port) };
    for (port, failure) in [(RULED, Failure::Rule), (DENIED, Failure::Denied)] {
        let slot = net.open(0);
        assert_eq!(net.control(0, slot, listen(port)), ControlAnswer::Failed(failure));
        assert_eq!(net.control(0, slot, datagrams(port)), ControlAnswer::Failed(failure));
        let client = net.open(1);
        assert_eq!(net.control(1, client, connect(port)), ControlAnswer::Failed(failure));
    }
    assert_eq!(net.ports_in_use(), 0, "ports are given back");
    assert_eq!(net.refused(0), [(RULED, 0, "rule", 1), (RULED, 0, "rule", 1)], "what is denied is not the kernel's");
}

#[test]
fn a_listener_that_a_rule_takes_says_so() {
    let mut net = Net::new();
    let listener = net.listen(0, RULED);
    assert_eq!(net.kernel_reason(0, listener), None);
    net.guard(0, &[RULED]);
    assert_eq!(net.kernel_reason(0, listener), Some("rule"));
    let waits = net.listen(0, WAITS);
    net.guard(0, &[WAITS]);
    assert_eq!((net.kernel_reason(0, listener), net.kernel_reason(0, waits)), (None, None), "what is served stays so");
    net.close(0, waits);
    net.run_for_ms(1);
    let waits = net.listen(0, WAITS);
    assert_eq!(net.kernel_reason(0, waits), Some("port-waits"));
}

/// Filters are about packets, rules of the configuration about sockets: what is open goes on, and its holder is asked for its kernel socket.
#[test]
fn a_rule_that_comes_takes_new_connections_and_asks_for_the_open_ones() {
    let mut net = Net::new();
    let listener = net.listen(0, RULED);
    let client = net.connect(1, RULED);
    let server = net.accept(0, listener);
    net.run_until(|net| net.apps[1].client.slot(client.index).state() == State::Connected);
    let port = net.apps[1].client.slot(client.index).local().port();
    net.guard(0, &[RULED]);
    net.guard(1, &[RULED]);
    assert_eq!(net.left(), [(RULED, vec![port])], "the port, and the connection that stays");
    assert_eq!(net.ports_in_use(), 2, "packets of the connection still come");
    for (app, slot) in [(0, server), (1, client)] {
        let slot = net.apps[app].client.slot(slot.index);
        assert!(slot.flags().has(Flags::WANTED));
        assert_eq!(slot.error(), None);
    }
    assert_eq!(net.send(1, client, b"goes on"), 7);
    let mut arrived = Vec::new();
    net.run_until(|net| {
        net.receive_into(0, server, &mut arrived);
        arrived == b"goes on"
    });
    net.guard(0, &[]);
    assert_eq!(net.left(), [], "the listener has new ones again");
    let second = net.connect(1, RULED);
    assert_eq!(net.apps[1].client.slot(second.index).error(), None);
}

#[test]
fn a_rule_that_comes_to_deny_lets_go_on_what_is_open() {
    let mut net = Net::new();
    let listener = net.listen(0, DENIED);
    let client = net.connect(1, DENIED);
    let server = net.accept(0, listener);
    let datagrams = net.open(0);
    let bind = Operation::Datagram { local: socket([0; 4], DENIED), dual_stack: false };
    assert_eq!(net.control(0, datagrams, bind), ControlAnswer::Done);
    net.guard(0, &[DENIED]);
    net.run_for_ms(10);
    assert_eq!((net.left(), net.kernel_reason(0, listener)), (vec![], None));
    for (app, slot) in [(0, server), (1, client), (0, datagrams)] {
        let slot = net.apps[app].client.slot(slot.index);
        assert_eq!((slot.error(), slot.flags().has(Flags::WANTED)), (None, false));
    }
}

#[test]
fn a_group_that_a_rule_leaves_to_the_kernel_opens_nothing_until_it_is_served_again() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    let bound = net.open(0);
    let datagrams = |port| Operation::Datagram { local: socket([0; 4], port), dual_stack: false };
    assert_eq!(net.control(0, bound, datagrams(53)), ControlAnswer::Done);
    let listen = |port| Operation::Listen { local: socket([0; 4], port), backlog: 1, dual_stack: false };
    let connect = Operation::Connect { remote: socket(super::SERVER, 80) };
    let opens = |net: &mut Net, failure| {
        for operation in [listen(81), datagrams(54), connect] {
            let slot = net.open(0);
            assert_eq!(net.control(0, slot, operation), ControlAnswer::Failed(failure));
        }
    };
    net.rule(0, Ruling { verdict: Verdict::Deny, ..Ruling::default() });
    opens(&mut net, Failure::Denied);
    assert_eq!((net.left(), net.kernel_reason(0, listener)), (vec![], None), "what is open goes on");
    net.rule(0, Ruling { verdict: Verdict::Kernel(KernelReason::Rule), ..Ruling::default() });
    opens(&mut net, Failure::Rule);
    assert_eq!((net.left().len(), net.kernel_reason(0, listener)), (1, Some("rule")));
    assert!(net.apps[0].client.slot(server.index).flags().has(Flags::WANTED));
    assert_eq!(net.apps[0].client.slot(bound.index).take_error(), Some(Failure::Rule), "the kernel's socket goes on");
    net.rule(0, Ruling::default());
    assert_eq!((net.left(), net.kernel_reason(0, listener)), (vec![], None));
    let second = net.connect(1, 80);
    net.run_until(|net| net.apps[1].client.slot(second.index).state() == State::Connected);
    assert_eq!(net.apps[1].client.slot(client.index).error(), None);
}

/// The program's queue holds one connection; the others wait in the stack.
#[test]
fn connections_that_wait_to_be_accepted_get_the_new_terms() {
    let mut net = Net::new();
    let listener = net.open(0);
    let listen = Operation::Listen { local: socket([0; 4], 80), backlog: 1, dual_stack: false };
    assert_eq!(net.control(0, listener, listen), ControlAnswer::Done);
    for _ in 0..3 {
        net.connect(1, 80);
        net.run_for_ms(50);
    }
    let waiting = net.rates(0).len();
    assert!(waiting >= 2, "{waiting}");
    let terms = Terms { rate_max: 1_000_000, ..Terms::default() };
    net.rule(0, Ruling { allowance: Allowance { terms, ..Allowance::default() }, ..Ruling::default() });
    for _ in 0..waiting {
        net.accept(0, listener);
    }
    assert_eq!(net.rates(0), vec![1_000_000; waiting]);
}

/// A quota that shrinks takes nothing away; one that grows counts for groups that are there.
#[test]
fn quotas_change_while_groups_are_there() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let listen = |port| Operation::Listen { local: socket([0; 4], port), backlog: 1, dual_stack: false };
    for (sockets, answer) in [(1, ControlAnswer::Failed(Failure::NoResources)), (2, ControlAnswer::Done)] {
        net.set_quotas(0, GroupQuotas { sockets, ..GroupQuotas::default() });
        let slot = net.open(0);
        assert_eq!(net.control(0, slot, listen(81)), answer);
    }
    net.connect(1, 80);
    net.run_for_ms(100);
    assert!(net.apps[0].client.accept(listener).is_none(), "there is no room for a third");
    net.set_quotas(0, GroupQuotas::default());
    net.accept(0, listener);
}

#[test]
fn what_a_rule_allows_a_group_changes_with_it() {
    let mut net = Net::new();
    let few = Ruling { allowance: Allowance { sockets: 1, ..Allowance::default() }, ..Ruling::default() };
    net.listen(0, 80);
    net.rule(0, few);
    let listen = |port| Operation::Listen { local: socket([0; 4], port), backlog: 1, dual_stack: false };
    let slot = net.open(0);
    assert_eq!(net.control(0, slot, listen(81)), ControlAnswer::Failed(Failure::NoResources));
    net.rule(0, Ruling::default());
    net.listen(0, 81);
}

/// Terms hold for what is accepted and what is opened, and a program cannot ask for a higher rate.
#[test]
fn connections_are_served_on_the_terms_of_their_rule() {
    let mut net = Net::new();
    let listener = net.listen(0, SLOW);
    let client = net.connect(1, SLOW);
    let server = net.accept(0, listener);
    net.run_until(|net| net.apps[1].client.slot(client.index).state() == State::Connected);
    for (app, slot) in [(0, server), (1, client)] {
        let bbr = CongestionControl::ALL.iter().position(|&algorithm| algorithm == CongestionControl::Bbr);
        assert_eq!(net.option(app, slot, SocketOption::Congestion), bbr.map(|at| at as u32));
        assert_eq!(net.option(app, slot, SocketOption::PacingRate), Some(1_000_000));
        for (wanted, held) in [(u32::MAX, 1_000_000), (5_000_000, 1_000_000), (1_000, 1_000)] {
            let set = Operation::SetOption { option: SocketOption::PacingRate, value: wanted };
            assert_eq!(net.control(app, slot, set), ControlAnswer::Done);
            assert_eq!(net.option(app, slot, SocketOption::PacingRate), Some(held));
        }
    }
}

/// Terms change with the rules, for what is open too; what the program has asked for holds again.
#[test]
fn terms_change_with_the_rules() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    let paced = Operation::SetOption { option: SocketOption::PacingRate, value: 5_000_000 };
    assert_eq!(net.control(0, server, paced), ControlAnswer::Done);
    let seen =
        |net: &mut Net, slot| (net.option(0, slot, SocketOption::Congestion), net.option(0, slot, SocketOption::PacingRate));
    let number = |wanted| CongestionControl::ALL.iter().position(|&algorithm| algorithm == wanted).map(|at| at as u32);
    let before = [seen(&mut net, listener), seen(&mut net, server)];
    let terms = Terms { congestion_control: Some(CongestionControl::Bbr), rate_max: 1_000_000, ..Terms::default() };
    net.guard(0, &[]);
    net.rule(0, Ruling { allowance: Allowance { terms, ..Allowance::default() }, ..Ruling::default() });
    for slot in [listener, server] {
        assert_eq!(seen(&mut net, slot), (number(CongestionControl::Bbr), Some(1_000_000)));
    }
    net.guard(0, &[]);
    net.rule(0, Ruling::default());
    assert_eq!([seen(&mut net, listener), seen(&mut net, server)], before);
    assert_eq!(before[1].1, Some(5_000_000));
    assert_eq!(net.apps[1].client.slot(client.index).error(), None);
}

#[test]
fn what_programs_of_a_cgroup_see_is_the_kernels_for_that_group_alone() {
    let mut net = Net::new();
    net.confine(0, Guard::LISTEN_IPV4 | Guard::DATAGRAM_IPV4);
    let slot = net.open(0);
    let listen = Operation::Listen { local: socket([0; 4], 80), backlog: 1, dual_stack: false };
    assert_eq!(net.control(0, slot, listen), ControlAnswer::Failed(Failure::CgroupProgram));
    let datagrams = Operation::Datagram { local: socket([0; 4], 53), dual_stack: false };
    assert_eq!(net.control(0, slot, datagrams), ControlAnswer::Failed(Failure::CgroupProgram));
    let connect = |port| Operation::Connect { remote: socket(super::SERVER, port) };
    net.confine(1, Guard::CONNECT_IPV6);
    let client = net.open(1);
    assert_eq!(net.control(1, client, connect(80)), ControlAnswer::Done, "IPv4 is not concerned");
    net.confine(1, Guard::CONNECT_IPV4);
    let client = net.open(1);
    assert_eq!(net.control(1, client, connect(81)), ControlAnswer::Failed(Failure::CgroupProgram));
    let slot = net.open(1);
    assert_eq!(net.control(1, slot, listen), ControlAnswer::Done);
}

#[test]
fn programs_that_see_new_sockets_leave_open_connections_and_those_that_see_packets_do_not() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    net.run_until(|net| net.apps[1].client.slot(client.index).state() == State::Connected);
    assert_eq!(net.ports_in_use(), 2);
    net.confine(0, Guard::SOCKETS);
    net.run_for_ms(10);
    assert_eq!(net.apps[0].client.slot(server.index).error(), None);
    net.confine(0, Guard::PACKETS);
    net.run_for_ms(10);
    assert_eq!(net.apps[0].client.slot(server.index).error(), Some(Failure::TimedOut));
    assert_eq!(net.apps[1].client.slot(client.index).error(), None, "another group is not concerned");
    assert_eq!(net.ports_in_use(), 1, "the kernel's listener gets packets at once");
    net.close(0, server);
    net.run_for_ms(70_000);
    assert_eq!(net.ports_in_use(), 1, "the listener's port is the kernel's");
}

/// Or a listener that is the kernel's would get all connections again.
#[test]
fn a_handshake_under_way_takes_no_port_back() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    net.run_until(|net| net.workers[0].core.is_opening(super::SERVER.into(), 80));
    net.confine(0, Guard::PACKETS);
    let server = net.accept(0, listener);
    net.run_for_ms(10);
    assert_eq!(net.apps[0].client.slot(server.index).error(), Some(Failure::TimedOut));
    assert_eq!(net.apps[1].client.slot(client.index).error(), None);
    assert_eq!(net.ports_in_use(), 1, "the client's");
}

/// A server that always has connections would never follow.
#[test]
fn new_connections_are_the_kernels_when_programs_come_to_see_them_though_others_are_open() {
    let mut net = Net::new();
    let listener = net.listen(0, 80);
    let client = net.connect(1, 80);
    let server = net.accept(0, listener);
    net.run_until(|net| net.apps[1].client.slot(client.index).state() == State::Connected);
    let peer = net.apps[1].client.slot(client.index).local().port();
    net.confine(0, Guard::LISTEN_IPV6);
    assert_eq!(net.left(), []);
    net.confine(0, Guard::LISTEN_IPV4);
    assert_eq!(net.left(), [(80, vec![peer])], "the port, and the connection that stays");
    assert_eq!(net.kernel_reason(0, listener), Some("cgroup-bpf"));
    net.rule(0, Ruling::default());
    assert_eq!(net.left(), [(80, vec![peer])], "a look at the rules takes nothing back");
    assert_eq!(net.send(1, client, b"goes on"), 7);
    let mut arrived = Vec::new();
    net.run_until(|net| {
        net.receive_into(0, server, &mut arrived);
        arrived == b"goes on"
    });
}

#[test]
fn a_datagram_socket_is_given_back_when_a_program_comes_to_see_it() {
    let mut net = Net::new();
    let slot = net.open(0);
    let datagrams = Operation::Datagram { local: socket([0; 4], 53), dual_stack: false };
    assert_eq!(net.control(0, slot, datagrams), ControlAnswer::Done);
    net.confine(0, Guard::LISTEN_IPV4);
    assert_eq!(net.ports_in_use(), 1);
    net.confine(0, Guard::DATAGRAM_IPV4);
    assert_eq!(net.ports_in_use(), 0);
    assert_eq!(net.apps[0].client.slot(slot.index).take_error(), Some(Failure::CgroupProgram));
    assert_eq!(net.refused(0), [(53, 0, "cgroup-bpf", 1)], "tools are told of it");
}

#[test]
fn tools_are_told_of_the_latest_refusals_of_a_group_and_why() {
    let mut net = Net::new();
    let listen = |port| Operation::Listen { local: socket([0; 4], port), backlog: 1, dual_stack: false };
    let connect = |port| Operation::Connect { remote: socket(super::SERVER, port) };
    net.guard(0, &[81]);
    for port in [81, 80, 81] {
        let slot = net.open(0);
        net.control(0, slot, listen(port));
    }
    assert_eq!(net.refused(0), [(81, 0, "firewall", 2)], "what is served is not told of");
    net.confine(1, Guard::CONNECT_IPV4);
    for port in 1..20 {
        let slot = net.open(1);
        assert_eq!(net.control(1, slot, connect(port)), ControlAnswer::Failed(Failure::CgroupProgram));
    }
    let latest: Vec<_> = (12..20).map(|port| (0, port, "cgroup-bpf", 1)).collect();
    assert_eq!(net.refused(1), latest, "a group that asks for many has its latest");
    net.guard(0, &[]);
    let slot = net.open(0);
    assert_eq!(net.control(0, slot, listen(81)), ControlAnswer::Done);
    assert_eq!(net.refused(0), [], "it is served now");
}
