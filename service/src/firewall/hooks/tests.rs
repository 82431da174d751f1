//! A program at a hook concerns what passes the hook in its family, whatever it does; other functions at a hook are passed over.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::*;
use crate::firewall::{Beginning, Flow, Judgment, Link, LocalPort, Ruleset, Transport};

fn attributes(all: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    all.iter().for_each(|(kind, payload)| put(&mut bytes, *kind, payload));
    bytes
}

/// An answer of the kernel about a function of this type at the hook input.
fn answer(family: u8, kind: u32, priority: i32) -> Vec<u8> {
    let program = attributes(&[(NFNLA_HOOK_BPF_ID, &77u32.to_be_bytes())]);
    let info = attributes(&[(NFNLA_HOOK_INFO_DESC, &program), (NFNLA_HOOK_INFO_TYPE, &kind.to_be_bytes())]);
    let all = attributes(&[
        (NFNLA_HOOK_HOOKNUM, &1u32.to_be_bytes()),
        (NFNLA_HOOK_PRIORITY, &priority.to_be_bytes()),
        (4, b"nf_hook_run_bpf\0"),
        (NFNLA_HOOK_CHAIN_INFO, &info),
    ]);
    [&[family, 0, 0, 0], all.as_slice()].concat()
}

const INPUT: HookProgram = HookProgram { family: IP, hook: 1, priority: -5, program: 77 };

#[test]
fn answers_about_programs_are_read_and_others_passed_over() {
    assert_eq!(read(HOOK_GET, &answer(IP, TYPE_BPF, -5)), Some(INPUT));
    assert_eq!(read(HOOK_GET, &answer(IP, 1, -5)), None, "a chain of nf_tables");
    assert_eq!(read(HOOK_GET + 1, &answer(IP, TYPE_BPF, -5)), None, "another message");
    let whole = answer(IP, TYPE_BPF, -5);
    for len in 0..whole.len() {
        // Nothing panics, whatever is missing.
        read(HOOK_GET, &whole[..len]);
    }
}

fn judge(program: HookProgram, flow: Flow) -> Judgment {
    let ruleset = Ruleset { chains: vec![chain(&program)], ..Ruleset::default() };
    ruleset.judge(Link { index: 2, name: "eth0" }, flow)
}

fn listener(ip: IpAddr) -> Flow {
    let (beginning, port) = (Beginning::Theirs, LocalPort::Is(80));
    Flow { transport: Transport::Tcp, beginning, is_ipv4: ip.is_ipv4(), ip: Some(ip), port, peer: None, peer_port: None }
}

#[test]
fn what_passes_the_hook_of_a_program_is_the_kernels() {
    let (ipv4, ipv6) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)));
    let why = Judgment::Unknown("BPF program 77 of netfilter at ip input: what it does is not known".to_owned());
    assert_eq!(judge(INPUT, listener(ipv4)), why);
    assert_eq!(judge(INPUT, listener(ipv6)), Judgment::Accept, "it sees IPv4");
    for hook in [0, 3, 4] {
        let judgment = judge(HookProgram { hook, ..INPUT }, listener(ipv4));
        assert!(matches!(judgment, Judgment::Unknown(_)), "packets of a connection go both ways: {hook}");
    }
    assert_eq!(judge(HookProgram { hook: 2, ..INPUT }, listener(ipv4)), Judgment::Accept, "what is forwarded is not taken");
}
