use super::difference;
use super::unit::{DropIn, FIRST_LINE, Shown, full_name};

#[test]
fn units_have_names() {
    assert_eq!(full_name("nginx").as_deref(), Ok("nginx.service"));
    assert_eq!(full_name("redis@a-b.service").as_deref(), Ok("redis@a-b.service"));
    for wrong in ["", ".service", "../etc/x", "a b", "ssh.socket", "..", &"a".repeat(300)] {
        assert!(full_name(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_unit_that_could_not_use_it_is_refused_with_the_reason() {
    let objection = |text: &str| Shown::read(text).objection().unwrap_or_default();
    let fine = "LoadState=loaded\nPrivateNetwork=no\nRestrictAddressFamilies=\nRootDirectory=\nIPAddressDeny=\nEnvironment=\n";
    assert_eq!(objection(fine), "");
    for (property, part) in [
        ("LoadState=not-found", "no such unit"),
        ("PrivateNetwork=yes", "network of its own"),
        ("RestrictAddressFamilies=AF_INET AF_INET6", "AF_UNIX"),
        ("RestrictAddressFamilies=~AF_UNIX", "AF_UNIX"),
        ("RootDirectory=/srv/jail", "/srv/jail"),
        ("IPAddressDeny=::/0 0.0.0.0/0", "do not see"),
        ("Environment=A=b LD_PRELOAD=/usr/lib/libjemalloc.so", "LD_PRELOAD"),
    ] {
        assert!(objection(&format!("{fine}{property}\n")).contains(part), "{property}");
    }
    for allowed in [
        "RestrictAddressFamilies=AF_INET AF_UNIX",
        "RestrictAddressFamilies=~AF_PACKET",
        "Environment=LD_PRELOAD=/x/libringway_preload.so",
    ] {
        assert_eq!(objection(&format!("{fine}{allowed}\n")), "", "{allowed}");
    }
}

#[test]
fn a_drop_in_keeps_its_token() {
    let mut drop_in = DropIn {
        library: "/usr/lib/ringway/libringway_preload.so".into(),
        service: "default".to_owned(),
        directory: None,
        service_unit: Some("ringway.service".to_owned()),
        group: Some("ringway".to_owned()),
        group_token: "0f".repeat(16),
    };
    let text = drop_in.text();
    assert!(text.starts_with(FIRST_LINE) && text.contains("\nSupplementaryGroups=ringway\n"), "{text}");
    assert_eq!(DropIn::token_in(&text), Some(drop_in.group_token.as_str()));
    drop_in.service = "other".to_owned();
    let change = difference("/x".as_ref(), &text, &drop_in.text());
    let lines = "-Environment=RINGWAY_SOCKET=default\n+Environment=RINGWAY_SOCKET=other\n";
    assert_eq!(change, format!("--- /x\n+++ /x\n{lines}"));
    (drop_in.service_unit, drop_in.directory) = (None, Some("/srv/run".into()));
    let text = drop_in.text();
    assert!(!text.contains("[Unit]") && text.contains("\nEnvironment=RINGWAY_RUN_DIRECTORY=/srv/run\n"), "{text}");
}

#[test]
fn a_unit_in_a_network_namespace_waits_for_the_service_of_that() {
    let unit_of = |path: &str| Shown::read(&format!("LoadState=loaded\nNetworkNamespacePath={path}\n")).service_unit();
    assert_eq!(unit_of("").as_deref(), Some("ringway.service"));
    assert_eq!(unit_of("/run/netns/red").as_deref(), Some("ringway@red.service"));
    assert_eq!(unit_of("/proc/77/ns/net"), None);
}
