use super::wire::Message;
use super::*;
use crate::netlink::wire::{finish, header};

const ETH0: Link<'_> = Link { index: 2, name: "eth0" };
const PREROUTING: u32 = 0;
const INPUT: u32 = 1;
const INET: u8 = 1;
const IP: u8 = 2;
const BRIDGE: u8 = 7;

/// An attribute, as the kernel writes it.
fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + payload.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn string(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, &[text.as_bytes(), &[0]].concat())
}

fn number(kind: u16, number: u32) -> Vec<u8> {
    attribute(kind, &number.to_be_bytes())
}

fn expression(name: &str, data: &[Vec<u8>]) -> Vec<u8> {
    attribute(1, &[string(1, name), attribute(2, &data.concat())].concat())
}

fn verdict(code: i32, chain: Option<&str>) -> Vec<u8> {
    let chain = chain.map(|chain| string(2, chain)).unwrap_or_default();
    let verdict = attribute(2, &[number(1, code.cast_unsigned()), chain].concat());
    expression("immediate", &[number(1, 0), attribute(2, &verdict)])
}

/// `meta KEY == VALUE` (operator 0) or `!=` (1).
fn meta(key: u32, operator: u32, value: &[u8]) -> Vec<u8> {
    let load = expression("meta", &[number(2, key), number(1, 1)]);
    [load, expression("cmp", &[number(1, 1), number(2, operator), attribute(3, &attribute(1, value))])].concat()
}

fn message(kind: u16, family: u8, body: &[Vec<u8>]) -> Vec<u8> {
    let mut message = header(10 << 8 | kind, 2, 1);
    message.extend([family, 0, 0, 0]);
    message.extend(body.concat());
    finish(message)
}

fn base(family: u8, name: &str, hook: u32, policy: u32, devices: &[&str]) -> Vec<u8> {
    let devices: Vec<u8> = devices.iter().flat_map(|device| string(1, device)).collect();
    let devices = if devices.is_empty() { Vec::new() } else { attribute(4, &devices) };
    let hook = attribute(4, &[number(1, hook), number(2, 0), devices].concat());
    message(3, family, &[string(1, "filter"), string(3, name), hook, number(5, policy), string(7, "filter")])
}

fn called(family: u8, name: &str) -> Vec<u8> {
    message(3, family, &[string(1, "filter"), string(3, name)])
}

fn rule(family: u8, chain: &str, expressions: &[Vec<u8>]) -> Vec<u8> {
    message(6, family, &[string(1, "filter"), string(2, chain), attribute(4, &expressions.concat())])
}

/// The rules that a kernel lists with these messages.
fn ruleset(messages: &[Vec<u8>]) -> Ruleset {
    let mut chains: Vec<Chain> = Vec::new();
    for received in wire::messages(&messages.concat()) {
        match received.message {
            Message::Chain(chain) => chains.push(chain),
            Message::Rule(placed) => {
                let chain = chains.iter_mut().find(|chain| chain.name == placed.chain && chain.family == placed.family);
                chain.expect("its chain comes first").rules.push(placed.rule);
            }
            Message::Done(_) | Message::Error(_) => {}
        }
    }
    Ruleset { chains, everywhere: None }
}

fn objection(messages: &[Vec<u8>]) -> Option<String> {
    ruleset(messages).objection(ETH0)
}

/// What one rule of an input chain that accepts is against, if anything.
fn against(expressions: &[Vec<u8>]) -> Option<String> {
    let objection = objection(&[base(INET, "input", INPUT, 1, &[]), rule(INET, "input", expressions)])?;
    Some(objection.strip_prefix("table inet filter, chain input: ").expect("its place first").to_owned())
}

#[test]
fn chains_that_only_accept_are_no_obstacle() {
    assert_eq!(objection(&[]), None);
    assert_eq!(against(&[]), None);
    assert_eq!(against(&[expression("counter", &[]), verdict(1, None)]), None);
    let established = [expression("ct", &[number(1, 1), number(2, 0)]), expression("bitwise", &[]), meta(15, 0, &[2])];
    assert_eq!(against(&[&established[..], &[verdict(1, None)]].concat()), None);
}

#[test]
fn a_policy_or_a_rule_that_could_refuse_is_named_with_its_place() {
    let drops = objection(&[base(INET, "input", INPUT, 0, &[])]);
    assert_eq!(drops.as_deref(), Some("table inet filter, chain input: policy drop"));
    assert_eq!(against(&[verdict(0, None)]).as_deref(), Some("drops"));
    assert_eq!(against(&[verdict(3 | 7 << 16, None)]).as_deref(), Some("queues"));
    assert_eq!(against(&[verdict(77, None)]).as_deref(), Some("an unknown verdict"));
    assert_eq!(against(&[expression("reject", &[])]).as_deref(), Some("rejects"));
    assert_eq!(against(&[expression("nat", &[])]).as_deref(), Some("nat"));
    assert_eq!(against(&[expression("target", &[string(1, "LOG")])]).as_deref(), Some("LOG"));
    assert_eq!(against(&[expression("of tomorrow", &[])]).as_deref(), Some("of tomorrow"));
    assert_eq!(
        against(&[expression("meta", &[number(2, 3), number(3, 1)])]).as_deref(),
        Some("meta that writes or decides by a map")
    );
    assert_eq!(against(&[expression("lookup", &[number(3, 0)])]).as_deref(), Some("lookup that writes or decides by a map"));
}

#[test]
fn rules_for_other_interfaces_and_protocols_are_no_obstacle() {
    let drop = || verdict(0, None);
    let name = |text: &str| {
        let mut name = text.as_bytes().to_vec();
        name.resize(16, 0);
        name
    };
    assert_eq!(against(&[meta(6, 0, &name("docker0")), drop()]), None);
    assert!(against(&[meta(6, 0, &name("eth0")), drop()]).is_some());
    assert!(against(&[meta(6, 1, &name("lo")), drop()]).is_some());
    // A packet that arrives has no interface by which it leaves, one that leaves none by which it came: any name is another.
    assert!(against(&[meta(7, 1, &name("eth0")), drop()]).is_some());
    assert_eq!(against(&[meta(7, 0, &name("eth0")), drop()]), None);
    let leaving = |rules: &[Vec<u8>]| objection(&[base(INET, "output", 3, 1, &[]), rule(INET, "output", rules)]);
    assert!(leaving(&[meta(6, 1, &name("eth0")), drop()]).is_some());
    assert_eq!(leaving(&[meta(7, 1, &name("eth0")), drop()]), None);
    // In a bridge's chain the interfaces are its ports.
    let bridged = [base(BRIDGE, "input", INPUT, 1, &[]), rule(BRIDGE, "input", &[meta(6, 0, &name("port0")), drop()])];
    assert!(objection(&bridged).is_some());
    // The comparison looks at a register of an earlier expression.
    let loads = [(6, 1), (16, 2)].map(|(key, register)| expression("meta", &[number(2, key), number(1, register)]));
    let first = expression("cmp", &[number(1, 1), number(2, 0), attribute(3, &attribute(1, &name("eth0")))]);
    assert!(against(&[&loads[..], &[first, drop()]].concat()).is_some());
    assert_eq!(against(&[meta(6, 0, b"wlan"), drop()]), None);
    assert!(against(&[meta(6, 0, b"eth"), drop()]).is_some());
    assert_eq!(against(&[meta(4, 0, &3u32.to_ne_bytes()), drop()]), None);
    assert!(against(&[meta(4, 0, &2u32.to_ne_bytes()), drop()]).is_some());
    let icmp = [1];
    assert_eq!(against(&[meta(16, 0, &icmp), drop()]), None);
    assert!(against(&[meta(16, 0, &[6]), drop()]).is_some());
    assert!(against(&[meta(16, 1, &icmp), drop()]).is_some());
    // What was loaded is gone when another expression has loaded something else.
    let other = expression("payload", &[number(1, 1)]);
    let load = expression("meta", &[number(2, 16), number(1, 1)]);
    let compare = expression("cmp", &[number(1, 1), number(2, 0), attribute(3, &attribute(1, &icmp))]);
    assert!(against(&[load, other, compare, drop()]).is_some());
}

#[test]
fn the_chains_that_a_rule_calls_count() {
    let calls = |chain: &str| vec![base(INET, "input", INPUT, 1, &[]), rule(INET, "input", &[verdict(-3, Some(chain))])];
    let with = |more: &[Vec<u8>]| objection(&[calls("more"), more.to_vec()].concat());
    assert_eq!(with(&[called(INET, "more")]), None);
    let drops = with(&[called(INET, "more"), rule(INET, "more", &[verdict(0, None)])]);
    assert_eq!(drops.as_deref(), Some("table inet filter, chain input: drops"));
    assert!(with(&[]).expect("unknown is an objection").contains("not listed"));
    // The kernel has no loops; a list that was read while it changed may have one.
    assert_eq!(with(&[called(INET, "more"), rule(INET, "more", &[verdict(-4, Some("more"))])]), None);
    // A chain that nobody calls says nothing.
    assert_eq!(objection(&[called(INET, "alone"), rule(INET, "alone", &[verdict(0, None)])]), None);
}

#[test]
fn only_hooks_that_see_packets_of_the_interface_count() {
    assert_eq!(objection(&[base(IP, "forward", FORWARD, 0, &[])]), None);
    assert!(objection(&[base(IP, "prerouting", PREROUTING, 0, &[])]).is_some());
    assert!(objection(&[base(BRIDGE, "input", INPUT, 0, &[])]).is_some());
    // Family arp.
    assert_eq!(objection(&[base(3, "input", INPUT, 0, &[])]), None);
    assert_eq!(objection(&[base(NETDEV, "ingress", 0, 0, &["eth1"])]), None);
    assert!(objection(&[base(NETDEV, "ingress", 0, 0, &["eth1", "eth0"])]).is_some());
}

#[test]
fn rules_that_cannot_be_read_are_an_objection() {
    assert_eq!(
        Ruleset::unreadable_for_tests().objection(ETH0).as_deref(),
        Some("the rules cannot be read without CAP_NET_ADMIN")
    );
}

#[test]
fn a_chain_that_makes_no_sense_is_an_error_and_not_left_out() {
    let shortened = message(3, INET, &[string(1, "filter"), string(3, "input"), attribute(5, &[0])]);
    let received = wire::messages(&shortened);
    assert!(matches!(received[..], [wire::Received { message: Message::Error(errno), .. }] if errno < 0), "{received:?}");
}

#[test]
fn a_cut_message_is_skipped() {
    let whole = [base(INET, "input", INPUT, 0, &[]), rule(INET, "input", &[verdict(0, None)])].concat();
    for len in 0..whole.len() {
        assert!(count_messages(&whole[..len]) <= 1);
    }
    assert_eq!(count_messages(&whole), 2);
}
