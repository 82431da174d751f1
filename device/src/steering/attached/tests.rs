//! Programs and filters that a test attaches to an interface of its own are found, and Ringway's filter is not among them.
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;

use super::super::{Protocol, Redirect, SocketMap, Steering, XdpMode};
use super::{filters_at, in_force, programs_at, root_of_cgroups, socket_lookups_in, xdp_at};
use crate::interface::{Interface, set_up};
use crate::testing::{in_namespace, ip};

const INGRESS: u32 = 0;

/// One end of a veth pair; the number of its interface.
fn wire() -> u32 {
    ip("link add left type veth peer name right");
    set_up("left", None, None).expect("it was made above");
    Interface::open("left").expect("it was made above").index
}

/// Underscores are blanks inside of a word.
fn tc(arguments: &str) {
    let words = arguments.split(' ').map(|word| word.replace('_', " "));
    let status = std::process::Command::new("tc").args(words).status();
    assert!(status.expect("iproute2 is installed").success(), "tc {arguments}");
}

#[test]
fn what_is_no_cgroup_is_an_error_and_an_unknown_type_has_no_programs() {
    let file = File::open("/proc/self/status").expect("Linux");
    assert!(in_force(file.as_fd(), INGRESS).is_err());
    assert_eq!(in_force(file.as_fd(), u32::MAX).ok(), Some(0));
}

/// The options of cgroup2, which all its mounts share; `None`: it is mounted nowhere.
fn cgroup_options() -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("Linux");
    mounts.lines().find_map(|line| line.split_once(" - cgroup2 ")).map(|(_, options)| options.to_owned())
}

#[test]
fn the_root_of_cgroups_is_a_cgroup_and_leaves_the_options_of_all_mounts() {
    let before = cgroup_options();
    let root = root_of_cgroups().expect("root may");
    assert!(in_force(root.as_fd(), INGRESS).is_ok(), "it is a cgroup");
    assert_eq!(cgroup_options(), before);
}

#[test]
fn a_namespace_without_socket_lookups_has_none() {
    in_namespace(|| {
        let here = File::open("/proc/thread-self/ns/net").expect("Linux");
        assert_eq!(socket_lookups_in(here.as_fd()).expect("root may ask"), 0);
    });
}

#[test]
fn programs_are_found_by_the_numbers_that_were_announced() {
    in_namespace(|| {
        let index = wire();
        assert_eq!(programs_at(index).expect("root may ask"), []);
        let steering = Steering::new(4).expect("root may use BPF");
        let mut announced = Vec::new();
        let mut announce = |number| {
            announced.push(number);
            Ok(())
        };
        let attachment = steering.hide_announced(index, &mut announce).expect("root");
        assert_eq!(programs_at(index).expect("root may ask"), announced);
        assert_eq!(announced.len(), 1);
        drop(attachment);
        assert_eq!(programs_at(index).expect("root may ask"), []);
        let refused = steering.hide_announced(index, &mut |_| Err(std::io::Error::other("full")));
        assert!(refused.is_err() && programs_at(index).expect("root may ask").is_empty(), "nothing is attached unannounced");
    });
}

#[test]
fn filters_of_others_are_named_and_ours_are_not() {
    in_namespace(|| {
        let index = wire();
        assert_eq!(filters_at(index).expect("anybody may ask"), [""; 0]);
        let steering = Steering::new(4).expect("root may use BPF");
        steering.port_filter().expect("a descriptor").own(Protocol::Tcp, IpAddr::V4(Ipv4Addr::LOCALHOST), 1, 1).expect("room");
        let ours = steering.hide_by_filter(index).expect("root");
        assert_eq!(filters_at(index).expect("anybody may ask"), [""; 0], "it is Ringway's");
        // A classic program that takes nothing: every kernel that takes Ringway's filter takes it.
        tc("filter add dev left egress pref 7 bpf bytecode 1,6_0_0_0, flowid 1:1");
        assert_eq!(filters_at(index).expect("anybody may ask"), ["egress filter bpf pref 7"]);
        tc("filter del dev left egress pref 7");
        drop(ours);
        assert_eq!(filters_at(index).expect("anybody may ask"), [""; 0]);
    });
}

#[test]
fn an_xdp_program_is_found_by_its_number() {
    in_namespace(|| {
        let index = wire();
        assert_eq!(xdp_at(index).expect("it is there"), None);
        let sockets = SocketMap::new(1, 1).expect("root may use BPF");
        let attachment = Redirect::All.attach(index, &sockets, XdpMode::Generic).expect("root");
        assert!(xdp_at(index).expect("it is there").is_some());
        drop(attachment);
        assert_eq!(xdp_at(index).expect("it is there"), None);
        assert!(xdp_at(9_999).is_err(), "there is no such interface");
    });
}
