//! In a namespace of its own, over an interface that nothing arrives at: what stands in the kernel, and what is left of it.
use super::*;
use crate::interface::Interface;
use crate::steering::Steering;
use crate::testing::{in_namespace, ip};
use std::process::Command;

/// A classic program that lets everything pass, for filters that are not ours.
const PASS: &str = "1,6 0 0 0";

fn tc(arguments: &str) -> String {
    let words = arguments.split(' ').map(|word| if word == "PASS" { PASS } else { word });
    let output = Command::new("tc").args(words).output().expect("iproute2 is there");
    assert!(output.status.success(), "tc {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("tc writes text")
}

fn filters() -> String {
    tc("filter show dev left ingress")
}

fn interface() -> (Steering, u32) {
    ip("link add left type veth peer name right");
    (Steering::new(8).expect("root may use BPF"), Interface::open("left").expect("made above").index)
}

#[test]
fn a_clean_end_leaves_nothing() {
    in_namespace(|| {
        let (steering, index) = interface();
        let filter = Filter::attach(steering.tables(), index).expect("root");
        let there = filters();
        assert!(there.contains("pref 1 bpf") && there.contains("handle 0x52570001 ringway direct-action"), "{there}");
        drop(filter);
        assert!(!tc("qdisc show dev left").contains("clsact"));
    });
}

#[test]
fn what_others_have_there_stays() {
    in_namespace(|| {
        let (steering, index) = interface();
        tc("qdisc add dev left clsact");
        drop(Filter::attach(steering.tables(), index).expect("root"));
        assert!(tc("qdisc show dev left").contains("clsact"), "it is not ours");
        tc("qdisc del dev left clsact");
        let filter = Filter::attach(steering.tables(), index).expect("root");
        tc("filter add dev left egress pref 7 bpf bytecode PASS");
        drop(filter);
        assert_eq!(filters(), "");
        assert!(tc("filter show dev left egress").contains("bytecode"), "another's filter came later");
    });
}

/// Two services share an interface; what a dead one has left is replaced, what a living one has is not.
#[test]
fn a_handle_belongs_to_a_living_process() {
    in_namespace(|| {
        let (steering, index) = interface();
        let attach = || Filter::attach(steering.tables(), index).expect("root");
        let (first, second) = (attach(), attach());
        assert_eq!((first.handle, second.handle), (HANDLE_BASE + 1, HANDLE_BASE + 2));
        // As kill -9 does: the descriptors close, the filter stays.
        first.abandon();
        assert!(filters().contains("0x52570001"));
        let third = attach();
        assert_eq!(third.handle, HANDLE_BASE + 1);
        assert_eq!(filters().matches("ringway direct-action").count(), 2);
        drop((second, third));
        assert_eq!(filters(), "");
    });
}

#[test]
fn a_filter_of_another_protocol_in_the_first_place_is_an_error() {
    in_namespace(|| {
        let (steering, index) = interface();
        tc("qdisc add dev left clsact");
        tc("filter add dev left ingress pref 1 protocol ip bpf bytecode PASS");
        let error = Filter::attach(steering.tables(), index).expect_err("the place is taken");
        assert!(error.to_string().contains("pref 1"), "{error}");
        assert!(filters().contains("bytecode"));
    });
}
