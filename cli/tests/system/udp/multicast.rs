//! Multicast groups of unmodified programs, as mDNS, SSDP and PTP use them: with `policy.multicast` either way, beside other members of the
//! same host, on a device of the stack's own, and when the service dies.

use rustix::process::Signal;

use super::*;

const ON_STACK: &str = "[policy]\nmulticast = \"stack\"\n";
const NUMBERED: &str = include_str!("numbered.py");

/// A counter of the service; tools are told of it some times a second.
fn counter(net: &Net, name: &str) -> u64 {
    let counters = net.output(Server, &[RINGWAY, "nstat", "-az", name]);
    let count = counters.lines().find_map(|line| line.strip_prefix(name));
    count.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).expect("a counter")
}

/// The groups that sockets have joined on the stack.
fn joined(net: &Net) -> u64 {
    counter(net, "RingwayMulticastJoined")
}

/// The numbers that a member has printed.
fn numbers(stdout: &str) -> Vec<u64> {
    stdout.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The script says on Ringway what it says on the kernel, and its sockets have joined so many groups on the stack.
fn says_the_same(config: &str, groups: u64) {
    let net = Net::new();
    let address = net.address(Server);
    net.file("common.py", SCRIPTS_SHARE);
    let script = net.file("multicast.py", include_str!("multicast.py"));
    let config = net.file("ringway.toml", config);
    let reference = play(&net, &script, &address, &[], &[]);
    let (service, name) = net.serve(Server, &["--config", &config]);
    let member = [RINGWAY, "run", "-q", "--name", &name, "--"];
    assert_eq!(play(&net, &script, &address, &member, &[]), reference, "the member on Ringway (left)");
    wait_until("the groups are counted", DEADLINE, || joined(&net) == groups);
    // It keeps the port of closed connections for a while.
    service.signal(Signal::TERM);
    service.finish(DEADLINE);
    let sender = [RINGWAY, "run", "-q", "--config", &config, "--"];
    assert_eq!(play(&net, &script, &address, &[], &sender), reference, "the sender on Ringway (left)");
}

#[test]
fn groups_at_the_kernel() {
    says_the_same("", 0);
}

#[test]
fn groups_on_the_stack() {
    says_the_same(ON_STACK, 6);
}

/// As mDNS: a responder of the kernel and one on Ringway have the same port and group, and each hears every datagram once.
/// The service has begun with the default, and follows the change.
#[test]
fn each_member_of_a_host_hears_everything_once() {
    let net = Net::new();
    let (own, far) = (net.address(Server), net.address(Client));
    let script = net.file("numbered.py", NUMBERED);
    let (_service, name) = net.serve(Server, &[]);
    net.output(Server, &[RINGWAY, "config", "set", "--name", &name, "policy.multicast=stack"]);
    let member = ["python3", &script, "member", "224.0.0.251", "5353", &own, "199"];
    let mut kernels = net.spawn(Server, &member);
    net.wait_printed(&mut kernels, "ready");
    let mut ours = net.spawn(Server, &[&[RINGWAY, "run", "-q", "--name", &name, "--"], &member[..]].concat());
    net.wait_printed(&mut ours, "ready");
    ours.wait_while_running("has joined on the stack", || joined(&net) == 1);
    net.output(Client, &["python3", &script, "sender", "224.0.0.251", "5353", &far, "0", "200"]);
    let expected: Vec<u64> = (0..200).collect();
    wait_until("the stack has received them", DEADLINE, || counter(&net, "UdpInDatagrams") == 200);
    for process in [ours, kernels] {
        assert_eq!(numbers(&process.finish(DEADLINE).success().stdout), expected);
    }
}

/// A service that ends takes nothing with it: the kernel's socket is a member, and hears again.
fn the_kernel_goes_on(end: Signal) {
    let net = Net::new();
    let (own, far) = (net.address(Server), net.address(Client));
    let script = net.file("numbered.py", NUMBERED);
    let config = net.file("ringway.toml", ON_STACK);
    let (service, name) = net.serve(Server, &["--config", &config]);
    let member = ["python3", &script, "member", "224.0.1.129", "319", &own, "19"];
    let mut ours = net.spawn(Server, &[&[RINGWAY, "run", "-q", "--name", &name, "--"], &member[..]].concat());
    net.wait_printed(&mut ours, "ready");
    ours.wait_while_running("has joined on the stack", || joined(&net) == 1);
    let send = |first, count| net.output(Client, &["python3", &script, "sender", "224.0.1.129", "319", &far, first, count]);
    send("0", "10");
    net.wait_printed(&mut ours, "9");
    service.signal(end);
    // The member waits in poll(2) and takes the filter off when the service's connection ends: then the kernel's socket receives.
    ours.wait_while_running("the kernel's socket receives", || {
        send("100", "1");
        net.kernel_counter(Server, "Udp", "InDatagrams") > 0
    });
    send("10", "10");
    let heard = numbers(&ours.finish(DEADLINE).success().stdout);
    assert!(heard.contains(&100), "{heard:?}");
    let wanted: Vec<u64> = heard.into_iter().filter(|number| *number != 100).collect();
    assert_eq!(wanted, (0..20).collect::<Vec<u64>>());
}

#[test]
fn the_kernel_goes_on_when_the_service_is_killed() {
    the_kernel_goes_on(Signal::KILL);
}

/// The service hands its sockets over before.
#[test]
fn the_kernel_goes_on_when_the_service_ends() {
    the_kernel_goes_on(Signal::TERM);
}

/// On a tap device the stack is the member: it reports to the kernel beside it, receives and sends.
#[test]
fn groups_of_a_device_of_the_stacks_own() {
    let net = Net::new();
    let script = net.file("numbered.py", NUMBERED);
    let config = net.file("ringway.toml", "[interface]\ndevice = \"tap\"\naddress = \"10.76.0.2/24\"\n");
    let (_service, name) = net.serve(Server, &["--config", &config]);
    let mut outside = net.spawn(Server, &["python3", &script, "member", "239.255.255.250", "1900", "10.76.0.1", "5"]);
    net.wait_printed(&mut outside, "ready");
    let member = ["python3", &script, "member", "239.1.2.3", "1901", "0.0.0.0", "29", "77"];
    let mut ours = net.spawn(Server, &[&[RINGWAY, "run", "-q", "--name", &name, "--"], &member[..]].concat());
    net.wait_printed(&mut ours, "ready");
    ours.wait_while_running("has joined on the stack", || joined(&net) == 1);
    net.output(Server, &["python3", &script, "sender", "239.1.2.3", "1901", "10.76.0.1", "0", "30"]);
    assert_eq!(numbers(&ours.finish(DEADLINE).success().stdout), (0..30).collect::<Vec<u64>>());
    let sender = ["python3", &script, "sender", "239.255.255.250", "1900", "0.0.0.0", "5", "1"];
    net.output(Server, &[&[RINGWAY, "run", "-q", "--name", &name, "--"], &sender[..]].concat());
    assert_eq!(numbers(&outside.finish(DEADLINE).success().stdout), [5]);
}

/// To all hosts of a network: what is sent to either broadcast address is heard by a program on Ringway and by the kernel's, and is sent by both.
#[test]
fn broadcasts_are_heard_and_sent() {
    let net = Net::new();
    net.file("common.py", SCRIPTS_SHARE);
    let script = net.file("broadcast.py", include_str!("broadcast.py"));
    let address = net.address(Server);
    let ringway = [RINGWAY, "run", "-q", "--"];
    let reference = play(&net, &script, &address, &[], &[]);
    assert_eq!(play(&net, &script, &address, &ringway, &[]), reference, "the server on Ringway (left)");
    assert_eq!(play(&net, &script, &address, &[], &ringway), reference, "the client on Ringway (left)");
}
