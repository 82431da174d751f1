use super::*;
use crate::config::{Config, parse_cidr};
use crate::netlink::LinkRoute;
use crate::plan::tests::kernel;
use crate::plan::{Machine, plan};
use ringway_stack::MacAddress;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn routers_are_asked_first_and_each_from_an_address_of_its_network() {
    let mut kernel = kernel();
    let cidr = |text| parse_cidr(text).expect("valid");
    let route = |destination, gateway: Option<&str>, link| LinkRoute {
        destination: cidr(destination),
        gateway: gateway.map(ip),
        link,
        metric: 0,
        source: None,
    };
    kernel.routes = vec![
        route("10.0.0.0/24", None, 2),
        route("10.9.0.0/24", Some("10.0.3.3"), 5),
        route("0.0.0.0/0", Some("10.0.0.254"), 2),
        route("::/0", Some("fe80::fe"), 2),
    ];
    for (link, neighbor) in [(2, "10.0.0.9"), (2, "10.0.0.254"), (2, "224.0.0.1"), (5, "10.0.3.4"), (2, "10.0.0.10")] {
        kernel.neighbors.insert((link, ip(neighbor)), MacAddress([2, 0, 0, 0, 0, 9]));
    }
    let config = Config::parse("t.toml", "", Vec::new()).expect("valid");
    let planned = &plan(&config, &kernel, &Machine::default()).served[0];
    let expected = [("10.0.0.1", "10.0.0.254"), ("fd00::1", "fe80::fe"), ("10.0.0.1", "10.0.0.9"), ("10.0.0.1", "10.0.0.10")];
    assert_eq!(candidates(&kernel, planned), expected.map(|(own, neighbor)| (ip(own), ip(neighbor))));
}

#[test]
fn what_is_found_is_kept_by_interface_and_way_and_stands_in_the_file() {
    let path = std::env::temp_dir().join(format!("ringway-selftest-{}", std::process::id()));
    let findings = Findings::new(path.clone());
    let one = |attach_mode: &str, outcome| Finding { attach_mode: attach_mode.to_owned(), outcome };
    findings.note("eth0", &[one("native, copy", Outcome::Failed("no answer".to_owned())), one("generic, copy", Outcome::Passed)]);
    findings.note("eth1", &[one("native, copy", Outcome::NotTried("no neighbor is known".to_owned()))]);
    findings.note("eth0", &[one("generic, copy", Outcome::Failed("lost".to_owned()))]);
    assert_eq!(findings.failures("eth0").as_deref(), Some("native, copy: no answer; generic, copy: lost"));
    assert_eq!(findings.failures("eth1"), None, "what was not tried has not failed");
    let text = std::fs::read_to_string(&path).expect("it was written");
    std::fs::remove_file(&path).expect("ours");
    let expected = "eth0\tnative, copy\tFAIL: no answer\neth0\tgeneric, copy\tFAIL: lost\n\
                    eth1\tnative, copy\tNOT TRIED: no neighbor is known\n";
    assert_eq!(text, expected);
}

#[test]
fn a_failed_test_is_told_from_other_errors() {
    assert!(is_failure(&io::Error::other(NonePassed("native, copy: no answer".to_owned()))));
    assert!(!is_failure(&io::Error::other("AF_XDP does not work")));
}
