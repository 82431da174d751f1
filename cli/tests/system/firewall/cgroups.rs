//! BPF programs of others, of cgroups, of interfaces and of the network namespace: what they see is the kernel's, which runs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{ON_KERNEL, fails, kernel_segments, wait_served_again};
use crate::harness::*;
use crate::http::{fetch, nginx_config, site};
use crate::pid_namespaces::{serve_apart, serve_connections, spawn_python};

const SCRIPT: &str = include_str!("cgroup.py");
/// enum bpf_attach_type
const EGRESS: u32 = 1;
const BIND_IPV4: u32 = 8;
const CONNECT_IPV4: u32 = 10;
const SOCKET_LOOKUP: u32 = 36;
const XDP: u32 = 37;
const NETFILTER: u32 = 45;
const TCX_INGRESS: u32 = 46;
/// Results that let a packet go on: of a socket lookup and of TCX (TC_ACT_UNSPEC), and of XDP.
const PASSES: i32 = 1;
const TCX_NEXT: i32 = -1;
const XDP_PASSES: i32 = 2;
const ACCEPTS: i32 = 1;
/// IPv4, input, before iptables.
const HOOK_INPUT: &str = "2,1,-10";
const REFUSES: u32 = 0;
const ALLOWS: u32 = 1;

/// A cgroup of the test's own.
struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// `None`: there are none here.
    fn new() -> Option<Cgroup> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("Linux");
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
        let name = format!("ringway-test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(mount).join(name);
        match fs::create_dir(&path) {
            Ok(()) => Some(Cgroup { path }),
            Err(error) => {
                eprintln!("skipped: no cgroup can be made: {error}");
                None
            }
        }
    }

    fn attach(&self, kind: u32, verdict: u32) {
        let arguments = ["attach", &text(&self.path), &kind.to_string(), &verdict.to_string()];
        let status = Command::new("python3").args(["-c", SCRIPT]).args(arguments).status();
        assert!(status.expect("python3 is there").success(), "attach {kind}");
    }

    /// As [`attach`](Cgroup::attach), while the process lives.
    fn hold(&self, net: &Net, kind: u32, verdict: u32) -> Process {
        let numbers = [kind, verdict].map(|number| number.to_string());
        let mut process = net.spawn_here(&["python3", "-c", SCRIPT, "hold", &text(&self.path), &numbers[0], &numbers[1]]);
        net.wait_printed(&mut process, "attached");
        process
    }

    /// Starts a program in it. `ip netns exec` hides the file system of cgroups, so the process enters from outside.
    fn spawn(&self, net: &Net, arguments: &[&str]) -> Process {
        let gate = net.path("gate");
        let wait = format!("until [ -e {} ]; do sleep 0.01; done; exec \"$@\"", text(&gate));
        fs::remove_file(&gate).ok();
        let log = [("RINGWAY_LOG", "fallback")];
        let process = net.spawn_with(Server, &[&["sh", "-c", &wait, "sh"], arguments].concat(), &log, None);
        fs::write(self.path.join("cgroup.procs"), process.pid().to_string()).expect("the process runs");
        fs::write(&gate, "").expect("a file in our folder");
        process
    }
}

impl Drop for Cgroup {
    /// Its processes end with the test's, a moment before or after.
    fn drop(&mut self) {
        wait_until("the cgroup is empty", DEADLINE, || fs::remove_dir(&self.path).is_ok());
    }
}

#[test]
fn what_a_program_at_egress_sees_is_the_kernels() {
    let Some(cgroup) = Cgroup::new() else { return };
    let net = Net::new();
    let [large, _] = site(&net);
    cgroup.attach(EGRESS, ALLOWS);
    let mut nginx = cgroup.spawn(&net, &ringway(&["nginx", "-c", &nginx_config(&net, 80)]));
    net.wait_listening(Server, 80, &mut nginx);
    nginx.wait_for_error_line("fallback=cgroup-bpf listen");
    nginx.wait_for_error_line("has BPF programs (cgroup_inet_egress)");
    let before = kernel_segments(&net);
    assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large);
    assert!(kernel_segments(&net) > before + 10, "the kernel's TCP has carried it");
    cgroup.attach(EGRESS, REFUSES);
    assert_eq!(fails(&net, &net.url(80, "large.bin")), 28, "the kernel obeys the program");
    let dry = cgroup.spawn(&net, &[RINGWAY, "run", "--dry-run", "--", "true"]).finish(DEADLINE);
    assert!(dry.stdout.contains("cgroup: the kernel serves sockets of programs started here"), "{}", dry.stdout);
    drop(nginx);
}

#[test]
fn a_program_that_comes_later_and_sees_packets_ends_what_is_open() {
    let Some(cgroup) = Cgroup::new() else { return };
    let net = Net::new();
    let [large, _] = site(&net);
    let mut nginx = cgroup.spawn(&net, &ringway(&["nginx", "-c", &nginx_config(&net, 80)]));
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
    // Handshakes are under way when it comes.
    let url = net.url(80, "small.txt");
    let _load = net.spawn(Client, &["wrk", "-t", "1", "-c", "20", "-d", "4", "-H", "Connection: close", &url]);
    cgroup.attach(EGRESS, REFUSES);
    nginx.wait_while_running("obeys the program", || fails(&net, &net.url(80, "large.bin")) == 28);
    nginx.wait_for_error_line("has BPF programs (cgroup_inet_egress)");
    drop(nginx);
}

#[test]
fn a_program_that_sees_connect_concerns_no_listener() {
    let Some(cgroup) = Cgroup::new() else { return };
    let net = Net::new();
    let [large, _] = site(&net);
    cgroup.attach(CONNECT_IPV4, REFUSES);
    let mut nginx = cgroup.spawn(&net, &ringway(&["nginx", "-c", &nginx_config(&net, 80)]));
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
    let mut other = net.spawn(Client, &["nginx", "-c", &nginx_config(&net, 81)]);
    net.wait_listening(Client, 81, &mut other);
    let url = format!("http://{}:81/large.bin", net.address(Client));
    let curl = cgroup.spawn(&net, &ringway(&["curl", "-sS", "-o", "/dev/null", "--max-time", "5", &url])).finish(DEADLINE);
    assert_eq!(curl.code(), 7, "{}", curl.stderr);
    assert!(curl.stderr.contains("fallback=cgroup-bpf connect"), "{}", curl.stderr);
    let mut warned = ringway(&["curl", "-sS", "-o", "/dev/null", "--max-time", "5", &url]);
    warned.insert(0, "RINGWAY_POLICY_FIREWALL=ignore");
    warned.insert(0, "env");
    assert_eq!(cgroup.spawn(&net, &warned).finish(DEADLINE).code(), 0, "the operator takes it on");
    drop(nginx);
}

#[test]
fn a_program_that_has_gone_leaves_the_sockets_of_new_programs_to_ringway() {
    let Some(cgroup) = Cgroup::new() else { return };
    let net = Net::new();
    let [large, _] = site(&net);
    let (_service, name) = net.serve(Server, &[]);
    let nginx = |port| [RINGWAY, "run", "--name", &name, "--", "nginx", "-c", &nginx_config(&net, port)].map(str::to_owned);
    let program = cgroup.hold(&net, EGRESS, ALLOWS);
    let arguments = nginx(80);
    let mut first = cgroup.spawn(&net, &arguments.each_ref().map(String::as_str));
    net.wait_listening(Server, 80, &mut first);
    first.wait_for_error_line("fallback=cgroup-bpf listen");
    let listed = net.output(Server, &[RINGWAY, "ss", "-Htln", "--name", &name]);
    assert!(listed.contains("0.0.0.0:80") && listed.contains("path:kernel reason:cgroup-bpf"), "{listed}");
    let before = kernel_segments(&net);
    assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large);
    assert!(kernel_segments(&net) > before + 10, "the kernel's TCP has carried it");
    drop(program);
    let arguments = nginx(81);
    let mut second = cgroup.spawn(&net, &arguments.each_ref().map(String::as_str));
    net.wait_served(Server, 81, &mut second);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(81, "large.bin")), large));
    drop((first, second));
}

/// A service in a PID namespace of its own has no number for the programs outside: they may be in any cgroup that has such processes.
#[test]
fn a_cgroup_in_which_an_unseen_program_cannot_be_does_not_concern_it() {
    let Some(cgroup) = Cgroup::new() else { return };
    let net = Net::new();
    cgroup.attach(EGRESS, ALLOWS);
    let Some((_service, name)) = serve_apart(&net) else { return };
    serve_connections(&net, &name, &[]);
    let _there = cgroup.spawn(&net, &["sleep", "1000"]);
    let listens = "import socket; socket.create_server(('0.0.0.0', 4301))";
    let refused = spawn_python(&net, &name, &[], listens).finish(DEADLINE);
    assert!(refused.code() == 1 && refused.stderr.contains("Network is down"), "{}", refused.stderr);
}

#[test]
fn a_program_that_refuses_bind_is_obeyed_because_the_kernel_binds_too() {
    let Some(cgroup) = Cgroup::new() else { return };
    let net = Net::new();
    cgroup.attach(BIND_IPV4, REFUSES);
    let script = "import socket; socket.socket().bind(('', 80))";
    let bind = cgroup.spawn(&net, &ringway(&["python3", "-c", script])).finish(DEADLINE);
    assert!(bind.code() == 1 && bind.stderr.contains("Operation not permitted"), "{}", bind.stderr);
}

/// Attaches a program to the server's interface or its network namespace while it runs.
fn hold(net: &Net, target: &str, kind: u32, verdict: i32) -> Process {
    let mut process = net.spawn(Server, &["python3", "-c", SCRIPT, "hold", target, &kind.to_string(), &verdict.to_string()]);
    net.wait_printed(&mut process, "attached");
    process
}

/// Waits until the kernel's TCP carries a download. A worker that works has programs looked at.
fn wait_kernels(net: &Net, nginx: &mut Process, url: &str) {
    nginx.wait_while_running("leaves the interface to the kernel", || {
        // A download that is under way ends.
        let before = kernel_segments(net);
        fails(net, url) == 0 && kernel_segments(net) > before + 10
    });
}

#[test]
fn an_interface_with_others_programs_is_the_kernels_until_they_have_gone() {
    let net = Net::new();
    let [large, _] = site(&net);
    let url = net.url(80, "large.bin");
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &url), large));
    let places =
        [("/proc/self/ns/net", SOCKET_LOOKUP, PASSES, "sk_lookup program"), (INTERFACE, TCX_INGRESS, TCX_NEXT, "tcx program")];
    for (target, kind, verdict, words) in places {
        let program = hold(&net, target, kind, verdict);
        wait_kernels(&net, &mut nginx, &url);
        nginx.wait_for_error_line(words);
        nginx.wait_while_running("ss names the reason", || {
            let listed = net.output(Server, &[RINGWAY, "ss", "-Htln", "sport", "=", ":80"]);
            listed.contains("path:kernel reason:not-ours")
        });
        let listed = net.output(Server, &[RINGWAY, "ss", "-Htln"]);
        let row = listed.lines().find(|line| line.starts_with(&format!("interface:{INTERFACE} "))).unwrap_or_default();
        assert!(row.contains("path:kernel reason:interface-bpf count:1") && row.contains(words), "{listed}");
        let dry = net.run(Server, &[RINGWAY, "run", "--dry-run", "--", "true"]);
        assert!(dry.code() == 1 && dry.stdout.contains(words), "{}", dry.stdout);
        drop(program);
        wait_served_again(&net, &mut nginx, &url, &large);
    }
    drop(nginx);
}

/// A connection that asks for its download when the file named last is there.
const LATE: &str = "
import os, socket, sys, time
with socket.create_connection((sys.argv[1], 80), timeout=30) as c:
    print('connected', flush=True)
    while not os.path.exists(sys.argv[2]): time.sleep(0.01)
    c.sendall(b'GET /large.bin HTTP/1.0\\r\\n\\r\\n')
    print(sum(map(len, iter(lambda: c.recv(65536), b''))))";

#[test]
fn connections_of_the_kernel_go_on_when_an_interface_is_served_again() {
    let net = Net::new();
    let [large, _] = site(&net);
    let url = net.url(80, "large.bin");
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    let program = hold(&net, INTERFACE, TCX_INGRESS, TCX_NEXT);
    wait_kernels(&net, &mut nginx, &url);
    let gate = text(&net.path("ask"));
    let mut client = net.spawn(Client, &["python3", "-c", LATE, &net.address(Server), &gate]);
    net.wait_printed(&mut client, "connected");
    drop(program);
    nginx.wait_for_error_line("(af_packet, vnet headers) too");
    // Others do not wait for its end.
    wait_served_again(&net, &mut nginx, &url, &large);
    fs::write(&gate, "").expect("a file in our folder");
    let got: usize = client.finish(DEADLINE).success().stdout.lines().last().expect("a number").parse().expect("a number");
    assert!(got > large.len(), "the head and all of the body: {got}");
    drop(nginx);
}

/// Kernels that list no hooks show the program to the start of a service alone.
#[test]
fn what_passes_a_bpf_program_at_a_hook_of_netfilter_is_the_kernels() {
    let net = Net::new();
    let [large, _] = site(&net);
    let program = hold(&net, HOOK_INPUT, NETFILTER, ACCEPTS);
    let log = [("RINGWAY_LOG", "fallback")];
    let mut nginx = net.spawn_with(Server, &ringway(&["nginx", "-c", &nginx_config(&net, 80)]), &log, None);
    net.wait_listening(Server, 80, &mut nginx);
    nginx.wait_for_error_line("the kernel serves TCP port 80: the firewall does not let all packets pass (BPF program ");
    nginx.wait_for_error_line("fallback=firewall listen");
    let before = kernel_segments(&net);
    assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large);
    assert!(kernel_segments(&net) > before + 10, "the kernel's TCP has carried it");
    let listed = net.output(Server, &[RINGWAY, "ss", "-Htln", "sport", "=", ":80"]);
    assert!(listed.contains("path:kernel reason:firewall"), "{listed}");
    let dry = net.run(Server, &[RINGWAY, "run", "--dry-run", "--", "true"]);
    assert!(dry.stdout.contains("of netfilter at ip input: what it does is not known"), "{}", dry.stdout);
    drop(program);
    let mut other = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 81)]);
    net.wait_served(Server, 81, &mut other);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(81, "large.bin")), large));
    drop((nginx, other));
}

#[test]
fn an_xdp_program_of_others_sees_packets_before_ringway() {
    let net = Net::new();
    let [large, _] = site(&net);
    let passes = hold(&net, INTERFACE, XDP, XDP_PASSES);
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
    nginx.wait_for_error_line("pass its XDP program");
    drop(passes);
    let _drops = hold(&net, INTERFACE, XDP, 1);
    assert_eq!(fails(&net, &net.url(80, "large.bin")), 28, "what XDP drops comes to neither");
    drop(nginx);
}

#[test]
fn the_operator_may_take_programs_on() {
    let Some(cgroup) = Cgroup::new() else { return };
    let net = Net::new();
    let [large, _] = site(&net);
    cgroup.attach(EGRESS, ALLOWS);
    let _program = hold(&net, INTERFACE, TCX_INGRESS, TCX_NEXT);
    for (port, choice) in [(80, "warn"), (81, "ignore")] {
        let variable = format!("RINGWAY_POLICY_FIREWALL={choice}");
        let mut arguments = vec!["env", &variable];
        let config = nginx_config(&net, port);
        arguments.extend(ringway(&["nginx", "-c", &config]));
        let mut nginx = cgroup.spawn(&net, &arguments);
        net.wait_served(Server, port, &mut nginx);
        net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(port, "large.bin")), large));
        if choice == "warn" {
            nginx.wait_for_error_line("go around its BPF programs or filters (tcx program");
            nginx.wait_for_error_line("BPF programs do not see sockets of");
        }
        drop(nginx);
    }
}
