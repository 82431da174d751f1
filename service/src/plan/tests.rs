use ringway_stack::{Autoconfiguration, MacAddress};

use super::{Backend, Machine, Plan, plan};
use crate::config::{Config, parse_cidr};
use crate::netlink::{Address, Link, Policy, Snapshot};

fn config(text: &str) -> Config {
    Config::parse("t.toml", text, Vec::new()).expect("valid")
}

/// lo, eth0 with both families, eth1 down, tun0 without Ethernet, br0 with a link-local address only.
pub(crate) fn kernel() -> Snapshot {
    let link = |index: u32, name: &str| Link {
        index,
        name: name.to_owned(),
        mac: MacAddress([2, 0, 0, 0, 0, index as u8]),
        mtu: 1500,
        up: true,
        loopback: false,
        ethernet: true,
        queued: false,
        kind: String::new(),
        is_in_vrf: false,
    };
    let links = [
        Link { loopback: true, ethernet: false, mtu: 65_536, ..link(1, "lo") },
        link(2, "eth0"),
        Link { up: false, ..link(3, "eth1") },
        Link { ethernet: false, ..link(4, "tun0") },
        link(5, "br0"),
    ];
    let address = |link, text| Address { link, cidr: parse_cidr(text).expect("valid"), tentative: false, deprecated: false };
    Snapshot {
        links: links.into_iter().map(|link| (link.index, link)).collect(),
        addresses: vec![
            address(1, "127.0.0.1/8"),
            address(2, "10.0.0.1/24"),
            address(2, "fe80::1/64"),
            address(2, "fd00::1/64"),
            address(3, "10.0.1.1/24"),
            address(4, "10.0.2.1/24"),
            address(5, "fe80::2/64"),
        ],
        ..Snapshot::default()
    }
}

#[test]
fn auto_serves_what_is_up_and_has_an_address_and_says_why_not_the_rest() {
    let plan = plan(&config(""), &kernel(), &Machine::default());
    assert_eq!(plan.served.len(), 1);
    let eth0 = &plan.served[0];
    assert_eq!((eth0.name.as_str(), eth0.link, eth0.mtu, eth0.backend), ("eth0", 2, 1500, Backend::Packet));
    let addresses = ["10.0.0.1/24", "fd00::1/64"].map(|text| parse_cidr(text).expect("valid"));
    assert_eq!(eth0.addresses, addresses);
    let skipped: Vec<(&str, &str)> =
        plan.skipped.iter().map(|skipped| (skipped.name.as_str(), skipped.reason.as_str())).collect();
    assert_eq!(
        skipped,
        [
            ("lo", "is the loopback, which the kernel serves"),
            ("eth1", "is down"),
            ("tun0", "is not an Ethernet interface"),
            ("br0", "has no address that can be served"),
        ]
    );
}

#[test]
fn what_is_named_is_served_even_before_it_is_up() {
    let plan = plan(
        &config("[interface]\nname = [\"eth1\", \"lo\", \"none\"]\ndevice = \"xdp\"\nmtu = 1400"),
        &kernel(),
        &Machine::default(),
    );
    assert_eq!(plan.served.len(), 1);
    assert_eq!((plan.served[0].name.as_str(), plan.served[0].backend, plan.served[0].mtu), ("eth1", Backend::Xdp, 1400));
    let names: Vec<&str> = plan.skipped.iter().map(|skipped| skipped.name.as_str()).collect();
    assert_eq!(names, ["lo", "none"]);
    assert!(plan.skipped.iter().all(|skipped| skipped.was_named && skipped.guard.is_none()));
}

#[test]
fn a_tap_device_has_its_own_address_and_no_other_interface() {
    let plan = plan(&config("[interface]\ndevice = \"tap\"\naddress = \"10.7.0.2/24\""), &kernel(), &Machine::default());
    assert_eq!(plan.served.len(), 1);
    assert_eq!(plan.served[0].addresses, [parse_cidr("10.7.0.2/24").expect("valid")]);
    assert_eq!(plan.served[0].backend, Backend::Tap);
    assert_eq!(plan.served[0].kernel_side, [parse_cidr("10.7.0.1/24").expect("valid")]);
}

#[test]
fn a_tap_device_may_have_an_ipv6_address_too() {
    let text = "[interface]\ndevice = \"tap\"\naddress = \"10.7.0.1/24\"\naddress6 = \"fd07::1/64\"";
    let sides = |text: &str| {
        let served = plan(&config(text), &kernel(), &Machine::default()).served.remove(0);
        (served.addresses, served.kernel_side)
    };
    let cidrs = |texts: [&str; 2]| texts.map(|text| parse_cidr(text).expect("valid")).to_vec();
    assert_eq!(sides(text), (cidrs(["10.7.0.1/24", "fd07::1/64"]), cidrs(["10.7.0.2/24", "fd07::2/64"])));
    let chosen = format!("{text}\ngateway = \"10.7.0.9\"\ngateway6 = \"fd07::9\"");
    assert_eq!(sides(&chosen).1, cidrs(["10.7.0.9/24", "fd07::9/64"]));
}

#[test]
fn on_a_vlan_the_kernels_end_has_no_address() {
    let text = "[interface]\ndevice = \"tap\"\naddress = \"10.7.0.2/24\"\nvlan = 7\nautoconfiguration = \"stable\"";
    let served = &plan(&config(text), &kernel(), &Machine::default()).served[0];
    assert_eq!((served.vlan, served.kernel_side.len()), (Some(7), 0));
    assert_eq!(served.autoconfiguration, Autoconfiguration::Stable);
}

#[test]
fn an_interface_that_a_firewall_guards_stays_with_the_kernel() {
    let guarded = Machine { rules: crate::firewall::Ruleset::unreadable_for_tests().into(), ..Machine::default() };
    let respectful = plan(&config(""), &kernel(), &guarded);
    assert!(respectful.served.is_empty());
    let eth0 = respectful.skipped.iter().find(|skipped| skipped.name == "eth0").expect("it is named");
    assert_eq!(eth0.guard, Some("firewall"));
    assert!(eth0.reason.contains("without CAP_NET_ADMIN") && eth0.reason.contains("policy.firewall"));
    let warned = plan(&config("[policy]\nfirewall = \"warn\""), &kernel(), &guarded);
    assert!(warned.served[0].warnings[0].contains("eth0 do not pass the firewall"));
}

#[test]
fn policy_routing_leaves_interfaces_to_the_kernel() {
    let mut kernel = kernel();
    kernel.policies.push(Policy { is_ipv4: true, priority: 100, table: Some(200) });
    let eth0 = |plan: &Plan| plan.skipped.iter().find(|skipped| skipped.name == "eth0").expect("it is named").clone();
    let skipped = eth0(&plan(&config(""), &kernel, &Machine::default()));
    assert_eq!(skipped.guard, Some("routing"));
    assert!(skipped.reason.contains("ip -4 rule 100: lookup 200"), "{}", skipped.reason);
    let warned = plan(&config("[policy]\nrouting = \"warn\""), &kernel, &Machine::default());
    assert!(warned.served[0].warnings[0].contains("main routing table alone"));
    assert!(plan(&config("[policy]\nrouting = \"ignore\""), &kernel, &Machine::default()).served[0].warnings.is_empty());
    kernel.policies.clear();
    kernel.links.get_mut(&2).expect("eth0").is_in_vrf = true;
    assert!(eth0(&plan(&config(""), &kernel, &Machine::default())).reason.contains("VRF"));
}

#[test]
fn af_xdp_that_was_not_asked_for_must_pass_its_self_test() {
    let lacking = Machine { lacks_packet: true, ..Machine::default() };
    let served = |text, machine: &Machine| {
        let planned = plan(&config(text), &kernel(), machine).served.remove(0);
        (planned.backend, planned.must_pass)
    };
    assert_eq!(served("", &Machine::default()).0, Backend::Packet);
    assert_eq!(served("", &lacking), (Backend::Xdp, true));
    assert_eq!(served("[interface]\ndevice = \"xdp\"", &Machine::default()), (Backend::Xdp, false));
    assert_eq!(served("[interface]\ndevice = \"packet\"", &lacking).0, Backend::Packet, "what was asked for");
}
