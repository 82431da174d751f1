use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ringway_device::netlink::{self, put};

use super::wire::Message;
use super::*;
use crate::config::RuleChoice;

const INPUT: u32 = 1;
const PREROUTING: u32 = 0;
const FORWARD: u32 = 2;
const OUTPUT: u32 = 3;
const ACCEPT: u32 = 1;
const DROP: u32 = 0;
const ETH0: Link<'_> = Link { index: 2, name: "eth0" };

fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, kind, payload);
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

fn verdict_data(code: i32, chain: Option<&str>) -> Vec<u8> {
    let chain = chain.map(|chain| string(2, chain)).unwrap_or_default();
    attribute(2, &[number(1, code.cast_unsigned()), chain].concat())
}

fn verdict(code: i32, chain: Option<&str>) -> Vec<u8> {
    expression("immediate", &[number(1, 0), attribute(2, &verdict_data(code, chain))])
}

fn accept() -> Vec<u8> {
    verdict(1, None)
}

fn drop() -> Vec<u8> {
    verdict(0, None)
}

fn data(kind: u16, value: &[u8]) -> Vec<u8> {
    attribute(kind, &attribute(1, value))
}

fn compare(operator: u32, value: &[u8]) -> Vec<u8> {
    expression("cmp", &[number(1, 1), number(2, operator), data(3, value)])
}

/// `meta KEY == VALUE` (operator 0) or `!=` (1).
fn meta(key: u32, operator: u32, value: &[u8]) -> Vec<u8> {
    [expression("meta", &[number(2, key), number(1, 1)]), compare(operator, value)].concat()
}

/// Loads `len` bytes at `offset` of the header of IP (1) or of the transport (2).
fn payload(base: u32, offset: u32, len: u32) -> Vec<u8> {
    expression("payload", &[number(1, 1), number(2, base), number(3, offset), number(4, len)])
}

fn tcp() -> Vec<u8> {
    meta(16, 0, &[6])
}

/// `tcp dport PORT`
fn to_port(port: u16) -> Vec<u8> {
    [tcp(), payload(2, 2, 2), compare(0, &port.to_be_bytes())].concat()
}

/// `ip saddr ADDRESS`
fn from(ip: [u8; 4]) -> Vec<u8> {
    [meta(15, 0, &[2]), payload(1, 12, 4), compare(0, &ip)].concat()
}

/// `ct state ...`
fn state(bits: u32) -> Vec<u8> {
    let load = expression("ct", &[number(2, 0), number(1, 1)]);
    let mask = [number(1, 1), number(2, 1), number(3, 4), data(4, &bits.to_ne_bytes()), data(5, &[0; 4])].concat();
    [load, expression("bitwise", &[mask]), compare(1, &[0; 4])].concat()
}

const ESTABLISHED_RELATED: u32 = 6;
const INVALID: u32 = 1;
const NEW: u32 = 8;

/// Finds the loaded key in a set; `map`: and obeys its verdict.
fn lookup(set: &str, map: bool, inverted: u32) -> Vec<u8> {
    let register = if map { number(3, 0) } else { Vec::new() };
    expression("lookup", &[string(1, set), number(2, 1), register, number(5, inverted)])
}

fn message(kind: u16, family: u8, body: &[Vec<u8>]) -> Vec<u8> {
    netlink::message(10 << 8 | kind, 2, 1, &[&[family, 0, 0, 0], &body.concat()[..]].concat())
}

fn base_at(family: u8, (hook, priority): (u32, i32), policy: u32, devices: &[&str]) -> Vec<u8> {
    let devices: Vec<u8> = devices.iter().flat_map(|device| string(1, device)).collect();
    let devices = if devices.is_empty() { Vec::new() } else { attribute(4, &devices) };
    let hook = attribute(4, &[number(1, hook), number(2, priority.cast_unsigned()), devices].concat());
    message(3, family, &[string(1, "filter"), string(3, "base"), hook, number(5, policy), string(7, "filter")])
}

fn base(family: u8, hook: u32, policy: u32) -> Vec<u8> {
    base_at(family, (hook, 0), policy, &[])
}

fn called(name: &str) -> Vec<u8> {
    message(3, INET, &[string(1, "filter"), string(3, name)])
}

fn rule(chain: &str, expressions: &[Vec<u8>]) -> Vec<u8> {
    rule_of(INET, chain, expressions)
}

fn rule_of(family: u8, chain: &str, expressions: &[Vec<u8>]) -> Vec<u8> {
    message(6, family, &[string(1, "filter"), string(2, chain), attribute(4, &expressions.concat())])
}

/// A set, and its elements: flags, key, and what else it has.
fn set(name: &str, flags: u32, key_len: u32, elements: &[(u32, &[u8], Vec<u8>)]) -> Vec<u8> {
    let kind = if elements.iter().any(|(_, _, data)| !data.is_empty()) { number(6, 0xffff_ff00) } else { Vec::new() };
    let head = message(9, INET, &[string(1, "filter"), string(2, name), number(3, flags), number(5, key_len), kind]);
    let element =
        |(flags, key, more): &(u32, &[u8], Vec<u8>)| attribute(1, &[data(1, key), number(3, *flags), more.clone()].concat());
    let listed: Vec<u8> = elements.iter().flat_map(element).collect();
    [head, message(12, INET, &[string(1, "filter"), string(2, name), attribute(3, &listed)])].concat()
}

fn flow(beginning: Beginning, port: LocalPort) -> Flow {
    let ip = Some("10.0.0.1".parse().expect("an address"));
    Flow { transport: Transport::Tcp, beginning, is_ipv4: true, ip, port, peer: None, peer_port: None }
}

fn listens(port: u16) -> Flow {
    flow(Beginning::Theirs, LocalPort::Is(port))
}

fn connects() -> Flow {
    flow(Beginning::Ours, LocalPort::Upper)
}

fn judge(messages: &[Vec<u8>], flow: Flow) -> Judgment {
    judge_messages(&messages.concat(), flow, false).expect("they fit together")
}

/// Returns the verdict of an input chain with `policy` and these rules.
fn asked(policy: u32, rules: &[&[Vec<u8>]], flow: Flow) -> Judgment {
    let rules = rules.iter().map(|expressions| rule("base", expressions));
    judge(&[base(INET, INPUT, policy)].into_iter().chain(rules).collect::<Vec<_>>(), flow)
}

fn refused(how: &str) -> Judgment {
    Judgment::Refuse(format!("table inet filter, chain base: {how}"))
}

fn unknown(why: &str) -> Judgment {
    Judgment::Unknown(format!("table inet filter, chain base: {why}"))
}

fn name(text: &str) -> Vec<u8> {
    let mut name = text.as_bytes().to_vec();
    name.resize(16, 0);
    name
}

/// The firewall of an ordinary server.
fn server() -> Vec<Vec<u8>> {
    let ports = set("ports", 0, 2, &[22u16, 80, 443].map(u16::to_be_bytes).each_ref().map(|key| (0, &key[..], Vec::new())));
    vec![
        base(INET, INPUT, DROP),
        ports,
        rule("base", &[state(ESTABLISHED_RELATED), accept()]),
        rule("base", &[state(INVALID), drop()]),
        rule("base", &[meta(6, 0, &name("lo")), accept()]),
        rule("base", &[tcp(), payload(2, 2, 2), lookup("ports", false, 0), expression("counter", &[]), accept()]),
    ]
}

#[test]
fn an_ordinary_server_serves_what_its_firewall_allows() {
    for port in [22, 80, 443] {
        assert_eq!(judge(&server(), listens(port)), Judgment::Accept);
    }
    assert_eq!(judge(&server(), listens(81)), refused("policy drop"));
    assert_eq!(judge(&server(), connects()), Judgment::Accept);
    let datagrams = Flow { transport: Transport::Udp, ..listens(53) };
    assert_eq!(judge(&server(), datagrams), refused("policy drop"));
    // One that is answered may send no more: it is not refused, and not served.
    let new = [base(INET, INPUT, DROP), rule("base", &[state(NEW), accept()])];
    let later = "policy drop, for datagrams behind the first";
    assert_eq!(judge(&new, datagrams), unknown(later));
    let ipv6 = Flow { is_ipv4: false, ip: Some("fd00::1".parse().expect("an address")), ..listens(80) };
    assert_eq!(judge(&server(), ipv6), Judgment::Accept);
}

#[test]
fn what_depends_on_the_peer_is_unknown_until_the_peer_is_known() {
    let rules: &[&[Vec<u8>]] = &[&[from([10, 0, 0, 7]), to_port(5432), accept()]];
    let unknown = unknown("policy drop, which depends on the peer's address");
    assert_eq!(asked(DROP, rules, listens(5432)), unknown);
    assert_eq!(asked(DROP, rules, listens(80)), refused("policy drop"));
    let from = |ip: [u8; 4]| Flow { peer: Some(IpAddr::from(ip)), ..listens(5432) };
    assert_eq!(asked(DROP, &[&[self::from([10, 0, 0, 7]), accept()]], from([10, 0, 0, 7])), Judgment::Accept);
    assert_eq!(asked(DROP, rules, from([10, 0, 0, 8])), refused("policy drop"));
}

#[test]
fn actions_matter_only_where_a_packet_comes_to_them() {
    let log = || expression("log", &[]);
    assert_eq!(asked(DROP, &[&[to_port(80), accept()], &[log(), drop()]], listens(80)), Judgment::Accept);
    assert_eq!(asked(DROP, &[&[to_port(80), accept()], &[log(), drop()]], listens(81)), unknown("logs"));
    assert_eq!(asked(ACCEPT, &[&[to_port(81), expression("nat", &[])]], listens(80)), Judgment::Accept);
    assert_eq!(asked(ACCEPT, &[&[to_port(80), expression("nat", &[])]], listens(80)), unknown("nat"));
    assert_eq!(asked(ACCEPT, &[&[expression("reject", &[])]], listens(80)), refused("rejects"));
    for (action, words) in [
        (expression("target", &[string(1, "LOG")]), "LOG"),
        (expression("of tomorrow", &[]), "of tomorrow"),
        (verdict(3 | 7 << 16, None), "queues"),
        (verdict(77, None), "an unknown verdict"),
        (expression("meta", &[number(2, 3), number(3, 1)]), "meta"),
        (lookup("none", false, 0), "looks into a set that was not listed"),
    ] {
        assert_eq!(asked(ACCEPT, &[&[action]], listens(80)), unknown(words));
    }
    // What holds from time to time may accept, or stand before a refusal.
    let limit = || expression("limit", &[]);
    assert_eq!(asked(ACCEPT, &[&[limit(), accept()]], listens(80)), Judgment::Accept);
    assert_eq!(asked(DROP, &[&[limit(), accept()]], listens(80)), unknown("policy drop, which depends on a rate"));
    assert_eq!(asked(ACCEPT, &[&[limit(), drop()]], listens(80)), unknown("drops, which depends on a rate"));
}

#[test]
fn comparisons_hold_as_far_as_the_bits_are_known() {
    let drops = |conditions: &[Vec<u8>], flow| asked(ACCEPT, &[&[conditions.concat(), drop()]], flow) != Judgment::Accept;
    let dport = |more: &[Vec<u8>]| [&[tcp(), payload(2, 2, 2)], more].concat();
    let range = |operator: u32| {
        expression("range", &[number(1, 1), number(2, operator), data(3, &80u16.to_be_bytes()), data(4, &90u16.to_be_bytes())])
    };
    for (port, inside) in [(79, false), (80, true), (90, true), (91, false)] {
        assert_eq!(drops(&dport(&[range(0)]), listens(port)), inside);
        assert_eq!(drops(&dport(&[range(1)]), listens(port)), !inside);
    }
    // EQ, NEQ, LT, LTE, GT, GTE
    for (operator, holds) in [
        (0, [false, true, false]),
        (1, [true, false, true]),
        (2, [true, false, false]),
        (3, [true, true, false]),
        (4, [false, false, true]),
        (5, [false, true, true]),
    ] {
        for (port, holds) in [79, 80, 81].into_iter().zip(holds) {
            assert_eq!(drops(&dport(&[compare(operator, &80u16.to_be_bytes())]), listens(port)), holds, "{operator} {port}");
        }
    }
    // Connections come from upper ports: whatever is said of others does not concern them.
    assert!(!drops(&dport(&[compare(0, &81u16.to_be_bytes())]), connects()));
    assert!(drops(&dport(&[compare(0, &40_000u16.to_be_bytes())]), connects()));
    // Prefixes, bits of flags, ports turned round.
    let prefix = |prefix: [u8; 4]| {
        let mask = [number(1, 1), number(2, 1), number(3, 4), data(4, &[255, 0, 0, 0]), data(5, &[0; 4])].concat();
        [meta(15, 0, &[2]), payload(1, 16, 4), expression("bitwise", &[mask]), compare(0, &prefix)].concat()
    };
    assert!(drops(&[prefix([10, 0, 0, 0])], listens(80)));
    assert!(!drops(&[prefix([11, 0, 0, 0])], listens(80)));
    let mask = [number(1, 1), number(2, 1), number(3, 1), data(4, &[0x17]), data(5, &[0])].concat();
    let not_first = [tcp(), payload(2, 13, 1), expression("bitwise", &[mask]), compare(1, &[2]), state(NEW)];
    assert!(!drops(&not_first, listens(80)));
    let swapped = [number(1, 1), number(2, 1), number(3, 0), number(4, 2), number(5, 2)].concat();
    assert!(drops(
        &dport(&[expression("byteorder", std::slice::from_ref(&swapped)), compare(0, &80u16.to_le_bytes())]),
        listens(80)
    ));
    assert!(!drops(&dport(&[expression("byteorder", &[swapped]), compare(0, &80u16.to_be_bytes())]), listens(80)));
}

#[test]
fn rules_for_other_interfaces_and_protocols_are_no_obstacle() {
    let is_free = |condition: Vec<u8>| asked(ACCEPT, &[&[condition, drop()]], listens(80)) == Judgment::Accept;
    assert!(is_free(meta(6, 0, &name("docker0"))));
    assert!(!is_free(meta(6, 0, &name("eth0"))));
    assert!(!is_free(meta(6, 1, &name("lo"))));
    // A packet that arrives has no interface by which it leaves: any name is another.
    assert!(!is_free(meta(7, 1, &name("eth0"))));
    assert!(is_free(meta(7, 0, &name("eth0"))));
    assert!(is_free(meta(6, 0, b"wlan")));
    assert!(!is_free(meta(6, 0, b"eth")));
    assert!(is_free(meta(4, 0, &3u32.to_ne_bytes())));
    assert!(!is_free(meta(4, 0, &2u32.to_ne_bytes())));
    let icmp = [1];
    assert!(is_free(meta(16, 0, &icmp)));
    assert!(!is_free(meta(16, 0, &[6])));
    assert!(!is_free(meta(16, 1, &icmp)));
    // What was loaded is gone when another expression has loaded something else.
    let load = expression("meta", &[number(2, 16), number(1, 1)]);
    assert!(!is_free([load, payload(1, 1, 1), compare(0, &icmp)].concat()));
    // In a bridge's chain the interfaces are its ports.
    let bridged = [base(BRIDGE, INPUT, ACCEPT), rule_of(BRIDGE, "base", &[meta(6, 0, &name("port0")), drop()])];
    assert!(matches!(judge(&bridged, listens(80)), Judgment::Unknown(_)));
}

#[test]
fn the_chains_that_a_rule_calls_count() {
    let with = |code: i32, more: &[Vec<u8>]| {
        let calls = [base(INET, INPUT, DROP), called("more"), called("last"), rule("base", &[verdict(code, Some("more"))])];
        judge(&[&calls[..], more, &[rule("base", &[to_port(80), accept()])]].concat(), listens(80))
    };
    let (jump, goto, back) = (-3, -4, -5);
    assert_eq!(with(jump, &[]), Judgment::Accept);
    assert_eq!(with(goto, &[]), refused("policy drop"));
    assert_eq!(with(jump, &[rule("more", &[drop()])]), refused("drops"));
    assert_eq!(with(jump, &[rule("more", &[verdict(back, None)]), rule("more", &[drop()])]), Judgment::Accept);
    assert_eq!(with(jump, &[rule("more", &[verdict(goto, Some("last"))]), rule("more", &[drop()])]), Judgment::Accept);
    assert_eq!(with(jump, &[rule("more", &[verdict(jump, Some("last"))]), rule("last", &[accept()])]), Judgment::Accept);
    assert_eq!(
        with(jump, &[rule("more", &[verdict(jump, Some("none"))])]),
        unknown("calls the chain none, which was not listed")
    );
    // The kernel has no loops; a list that was read while it changed may have one.
    assert_eq!(with(jump, &[rule("more", &[verdict(jump, Some("more"))])]), unknown("chains call each other in a circle"));
    // A chain that no rule calls says nothing.
    assert_eq!(judge(&[called("alone"), rule("alone", &[drop()])], listens(80)), Judgment::Accept);
}

#[test]
fn only_hooks_that_see_packets_of_the_interface_count() {
    let is_free = |chain: Vec<u8>| judge(&[chain], listens(80)) == Judgment::Accept;
    assert!(is_free(base(IP, FORWARD, DROP)));
    assert!(!is_free(base(IP, PREROUTING, DROP)));
    assert!(!is_free(base(IP, OUTPUT, DROP)));
    assert!(is_free(base(IP6, PREROUTING, DROP)));
    assert!(!is_free(base(BRIDGE, INPUT, DROP)));
    // Family arp.
    assert!(is_free(base(3, INPUT, DROP)));
    assert!(is_free(base_at(NETDEV, (0, 0), DROP, &["eth1"])));
    assert!(!is_free(base_at(NETDEV, (0, 0), DROP, &["eth1", "eth0"])));
    // Before conntrack nothing is established.
    for (priority, expected) in [(-300, false), (-100, true)] {
        let rules =
            [base_at(INET, (PREROUTING, priority), DROP, &[]), rule("base", &[state(ESTABLISHED_RELATED | NEW), accept()])];
        assert_eq!(judge(&rules, listens(80)) == Judgment::Accept, expected);
    }
}

/// A match in iptables' own form.
fn xt_match(name: &str, revision: u32, info: &[u8]) -> Vec<u8> {
    expression("match", &[string(1, name), number(2, revision), attribute(3, info)])
}

fn words(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// `-m conntrack --ctstate ...`
fn xt_state(states: u16) -> Vec<u8> {
    let mut info = vec![0; 164];
    info[146..148].copy_from_slice(&1u16.to_ne_bytes());
    info[150..152].copy_from_slice(&states.to_ne_bytes());
    xt_match("conntrack", 3, &info)
}

/// `-m tcp --dport LOW:HIGH`, inverted or not.
fn xt_port(low: u16, high: u16, inverts: u8) -> Vec<u8> {
    xt_match("tcp", 0, &[words(&[0, u16::MAX, low, high]), vec![0, 0, 0, inverts]].concat())
}

#[test]
fn matches_of_iptables_are_understood() {
    let states = |states: u32| [xt_state(states as u16), accept()].concat();
    let with = |condition: &[u8], flow| {
        let rules: &[&[Vec<u8>]] = &[&[states(ESTABLISHED_RELATED)], &[tcp(), condition.to_vec(), accept()]];
        asked(DROP, rules, flow)
    };
    assert_eq!(with(&xt_port(80, 80, 0), listens(80)), Judgment::Accept);
    assert_eq!(with(&xt_port(80, 80, 0), listens(81)), refused("policy drop"));
    assert_eq!(with(&xt_port(80, 80, 2), listens(80)), refused("policy drop"));
    assert_eq!(with(&xt_port(80, 80, 0), connects()), Judgment::Accept);
    let multiport = |invert: u8| {
        let ports = words(&[22, 80, 90, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let flags = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        xt_match("multiport", 1, &[&[1, 3], &ports[..], &flags, &[invert]].concat())
    };
    for (port, inside) in [(22, true), (23, false), (80, true), (85, true), (90, true), (91, false)] {
        assert_eq!(with(&multiport(0), listens(port)) == Judgment::Accept, inside, "{port}");
        assert_eq!(with(&multiport(1), listens(port)) == Judgment::Accept, !inside, "{port}");
    }
    // --syn
    let syn = xt_match("tcp", 0, &[words(&[0, u16::MAX, 0, u16::MAX]), vec![0, 0x17, 0x02, 0]].concat());
    assert_eq!(with(&syn, listens(80)), Judgment::Accept);
    // --dst-type LOCAL, and not.
    let local = |flags: u32| xt_match("addrtype", 1, &[&words(&[0, 4])[..], &flags.to_ne_bytes()].concat());
    assert_eq!(with(&local(0), listens(80)), Judgment::Accept);
    assert_eq!(with(&local(2), listens(80)), refused("policy drop"));
    assert_eq!(with(&xt_match("comment", 0, &[0; 256]), listens(80)), Judgment::Accept);
    let other = xt_match("recent", 1, &[0; 240]);
    assert_eq!(with(&other, listens(80)), unknown("policy drop, which depends on a match of iptables"));
    for len in 0..12 {
        assert!(matches!(with(&xt_match("tcp", 0, &vec![0; len]), listens(80)), Judgment::Unknown(_)));
    }
}

#[test]
fn whether_an_address_is_the_machines_is_known_of_its_own() {
    let fib = |flags: u32| {
        let load = expression("fib", &[number(1, 1), number(2, 3), number(3, flags)]);
        [load, compare(0, &2u32.to_ne_bytes()), drop()].concat()
    };
    let (of_source, of_destination) = (1, 2);
    assert_eq!(asked(ACCEPT, &[&[fib(of_destination)]], listens(80)), refused("drops"));
    assert_eq!(asked(ACCEPT, &[&[fib(of_source)]], listens(80)), unknown("drops, which depends on the route to the peer"));
}

const INTERVAL: u32 = 4;
const TIMEOUT: u32 = 0x10;
const END: u32 = 1;
const CATCHALL: u32 = 2;

#[test]
fn sets_of_intervals_find_what_lies_in_them() {
    let bounds: [(u32, [u8; 2]); 4] =
        [(END, 0u16.to_be_bytes()), (0, 80u16.to_be_bytes()), (END, 91u16.to_be_bytes()), (0, 8000u16.to_be_bytes())];
    let elements = bounds.each_ref().map(|(flags, key)| (*flags, &key[..], Vec::new()));
    let drops = |port, inverted| {
        let rules = [
            base(INET, INPUT, ACCEPT),
            set("ports", INTERVAL, 2, &elements),
            rule("base", &[tcp(), payload(2, 2, 2), lookup("ports", false, inverted), drop()]),
        ];
        judge(&rules, listens(port)) == refused("drops")
    };
    for (port, inside) in [(79, false), (80, true), (90, true), (91, false), (7999, false), (8000, true), (65535, true)] {
        assert_eq!(drops(port, 0), inside, "{port}");
        assert_eq!(drops(port, 1), !inside, "{port}");
    }
}

#[test]
fn sets_of_peers_matter_as_soon_as_they_have_members() {
    let with = |flags, elements: &[(u32, &[u8], Vec<u8>)], flow| {
        let rules = [
            base(INET, INPUT, ACCEPT),
            set("banned", flags, 4, elements),
            rule("base", &[meta(15, 0, &[2]), payload(1, 12, 4), lookup("banned", false, 0), drop()]),
        ];
        judge(&rules, flow)
    };
    let banned: &[(u32, &[u8], Vec<u8>)] = &[(0, &[10, 0, 0, 7], Vec::new())];
    assert_eq!(with(0, &[], listens(80)), Judgment::Accept);
    assert_eq!(with(0, banned, listens(80)), unknown("drops, which depends on the peer's address"));
    let known = |ip: [u8; 4]| Flow { peer: Some(ip.into()), ..listens(80) };
    assert_eq!(with(0, banned, known([10, 0, 0, 8])), Judgment::Accept);
    assert_eq!(with(0, banned, known([10, 0, 0, 7])), refused("drops"));
    assert_eq!(with(TIMEOUT, &[], known([10, 0, 0, 8])), unknown("drops, which depends on a set that changes"));
    let many: Vec<Vec<u8>> = (0..4u32).map(|last| (0x0a00_0000 + last).to_be_bytes().to_vec()).collect();
    let many: Vec<_> = many.iter().map(|key| (0, &key[..], Vec::new())).collect();
    assert_eq!(with(0, &many, known([10, 0, 0, 3])), refused("drops"));
}

#[test]
fn maps_of_verdicts_decide() {
    let verdict = |code, chain| attribute(2, &verdict_data(code, chain));
    let with = |elements: &[(u32, &[u8], Vec<u8>)], flow| {
        let rules = [
            base(INET, INPUT, DROP),
            called("web"),
            set("map", 8, 2, elements),
            rule("base", &[state(ESTABLISHED_RELATED), accept()]),
            rule("base", &[tcp(), payload(2, 2, 2), lookup("map", true, 0)]),
            rule("web", &[accept()]),
        ];
        judge(&rules, flow)
    };
    let (http, https) = (80u16.to_be_bytes(), 443u16.to_be_bytes());
    let map: &[(u32, &[u8], Vec<u8>)] = &[(0, &http, verdict(-3, Some("web"))), (0, &https, verdict(0, None))];
    assert_eq!(with(map, listens(80)), Judgment::Accept);
    assert_eq!(with(map, listens(443)), refused("drops"));
    assert_eq!(with(map, listens(22)), refused("policy drop"));
    assert_eq!(with(map, connects()), Judgment::Accept);
    let otherwise: &[(u32, &[u8], Vec<u8>)] = &[(0, &https, verdict(0, None)), (CATCHALL, &[0, 0], verdict(1, None))];
    assert_eq!(with(otherwise, listens(80)), Judgment::Accept);
    assert_eq!(with(otherwise, listens(443)), refused("drops"));
}

#[test]
fn more_rules_than_can_be_looked_at_are_unknown() {
    let many = rule("base", &(0..2_000).map(|_| expression("counter", &[])).collect::<Vec<_>>());
    let rules: Vec<Vec<u8>> = [base(INET, INPUT, ACCEPT)].into_iter().chain((0..120).map(|_| many.clone())).collect();
    assert_eq!(judge(&rules, listens(80)), unknown("has more rules than are looked at"));
}

#[test]
fn rules_that_cannot_be_read_are_an_objection() {
    let ruleset = Ruleset::unreadable_for_tests();
    assert_eq!(ruleset.objection(), Some("the rules cannot be read without CAP_NET_ADMIN"));
    assert!(matches!(ruleset.judge(ETH0, listens(80)), Judgment::Unknown(_)));
}

#[test]
fn a_chain_that_makes_no_sense_is_an_error_and_not_left_out() {
    let shortened = message(3, INET, &[string(1, "filter"), string(3, "input"), attribute(5, &[0])]);
    let received = wire::messages(&shortened);
    assert!(matches!(received[..], [wire::Received { message: Message::Error(errno), .. }] if errno < 0), "{received:?}");
    let rule_without_chain = rule("none", &[drop()]);
    assert_eq!(judge_messages(&rule_without_chain, listens(80), false), None);
}

#[test]
fn a_cut_message_is_skipped() {
    let whole = [base(INET, INPUT, DROP), rule("base", &[drop()])].concat();
    for len in 0..whole.len() {
        assert!(count_messages(&whole[..len]) <= 1);
    }
    assert_eq!(count_messages(&whole), 2);
}

#[test]
fn the_gate_answers_for_all_links_until_the_rules_change() {
    let rules = |messages: &[Vec<u8>]| Arc::new(listed_in(&messages.concat()).expect("they fit together"));
    let links = vec![(2, "eth0".to_owned()), (3, "eth1".to_owned())];
    let gate = Gate::new(RuleChoice::Respect, rules(&server()), links.clone());
    let ip = IpAddr::from([10, 0, 0, 1]);
    let (local, peer) = (SocketAddr::new(ip, 40_000), SocketAddr::from(([10, 0, 0, 2], 80)));
    let serves = |gate: &Gate, port| gate.judge_port(Transport::Tcp, ip, port).serves();
    assert!(serves(&gate, 80) && !serves(&gate, 81) && !gate.judge_port(Transport::Udp, ip, 40_000).serves());
    assert!(gate.judge_connection(local, peer).serves());
    assert!(!gate.install(RuleChoice::Respect, rules(&server()), links.clone()), "they are the same");
    let lines = gate.describe(&[80, 81].into());
    assert!(lines[1] == "TCP port 80 passes and is served" && lines[2].contains("policy drop"), "{lines:?}");
    // One of two links is closed to it.
    let other = [&server()[..2], &[rule("base", &[meta(6, 0, &name("eth1")), drop()])], &server()[2..]].concat();
    assert!(gate.install(RuleChoice::Respect, rules(&other), links));
    assert!(!serves(&gate, 80) && !gate.judge_connection(local, peer).serves());
    assert!(gate.install(RuleChoice::Respect, rules(&other), vec![(2, "eth0".to_owned())]));
    assert!(!serves(&gate, 80) && gate.judge_connection(local, peer).serves(), "the kernel may have connections");
    assert_eq!(gate.held(), [(ip, 80)].into(), "81 is forbidden still");
    gate.let_go(&gate.held());
    assert!(serves(&gate, 80) && !gate.holds());
    gate.hold_port(ip, 82);
    assert!(gate.holds() && gate.waits(ip, 82) && gate.held() == [(ip, 82)].into());
    gate.let_go(&gate.held());
    assert!(!gate.holds() && !gate.waits(ip, 82));
    // A rule about one peer concerns connections to that peer.
    let to_peer = [meta(15, 0, &[2]), payload(1, 16, 4), compare(0, &[10, 0, 0, 2]), drop()];
    gate.install(RuleChoice::Respect, rules(&[base(INET, OUTPUT, ACCEPT), rule("base", &to_peer)]), vec![(2, "eth0".to_owned())]);
    assert!(!gate.judge_connection(local, peer).serves());
    assert!(gate.judge_connection(local, SocketAddr::from(([10, 0, 0, 3], 80))).serves());
    for (choice, expected) in [(RuleChoice::Warn, true), (RuleChoice::Respect, false)] {
        let gate = Gate::new(choice, rules(&server()), vec![(2, "eth0".to_owned())]);
        assert_eq!(serves(&gate, 81), expected);
    }
}

#[test]
fn ports_that_a_choice_gives_back_wait_for_the_kernels_connections() {
    let rules = Arc::new(listed_in(&server().concat()).expect("they fit together"));
    let links = vec![(2, "eth0".to_owned())];
    let gate = Gate::new(RuleChoice::Respect, rules.clone(), links.clone());
    let ip = IpAddr::from([10, 0, 0, 1]);
    let serves = |port| gate.judge_port(Transport::Tcp, ip, port).serves();
    assert!(serves(80) && !serves(81), "the rules refuse 81");
    assert!(gate.install(RuleChoice::Warn, rules.clone(), links.clone()));
    assert!(!serves(81) && gate.held() == [(ip, 81)].into(), "the kernel may have connections");
    // They wait on, whatever comes meanwhile.
    assert!(gate.install(RuleChoice::Ignore, Arc::default(), links.clone()));
    assert_eq!(gate.held(), [(ip, 81)].into());
    gate.let_go(&gate.held());
    assert!(serves(81) && !gate.holds());
    assert!(gate.install(RuleChoice::Respect, rules, links));
    assert!(serves(80) && !serves(81) && !gate.holds());
}
