//! Which rights the threads of a service hold, and that a program under `ringway run` has its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::*;
use crate::http::{fetch, nginx_config, site};

const ON_KERNEL: &[&str] = &[];
const NOBODY: [&str; 6] = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
const NOTHING: u64 = 0;
const KILL: u64 = 1 << 5;
const NET_BIND_SERVICE: u64 = 1 << 10;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const BPF: u64 = 1 << 39;
const IPC_LOCK: u64 = 1 << 14;
const PERFMON: u64 = 1 << 38;
/// The rights of workers, and of the thread that follows interfaces, over AF_PACKET.
const DEVICES: u64 = NET_ADMIN | NET_RAW | BPF | KILL;

/// The lines of a thread's status that concern us.
struct Thread {
    name: String,
    lines: BTreeMap<String, String>,
}

impl Thread {
    fn read(path: PathBuf) -> Thread {
        let status = fs::read_to_string(path.join("status")).expect("the thread runs");
        let pairs = status.lines().filter_map(|line| line.split_once(":\t"));
        let lines: BTreeMap<String, String> = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Thread { name: lines["Name"].clone(), lines }
    }

    fn set(&self, key: &str) -> u64 {
        u64::from_str_radix(&self.lines[key], 16).expect("a mask")
    }

    /// Asserts that it holds `capabilities` and has the filter.
    fn assert_holds(&self, capabilities: u64) {
        let name = &self.name;
        for (set, expected) in [("CapPrm", capabilities), ("CapEff", capabilities), ("CapInh", NOTHING), ("CapAmb", NOTHING)] {
            assert_eq!(self.set(set), expected, "{name}: {set} {:x}", self.set(set));
        }
        assert_eq!(self.lines["NoNewPrivs"], "1", "{name}");
        assert_eq!(self.lines["Seccomp"], "2", "{name} has no filter");
    }
}

fn threads(service: &Process) -> Vec<Thread> {
    let tasks = fs::read_dir(format!("/proc/{}/task", service.pid())).expect("the service runs");
    tasks.flatten().map(|task| Thread::read(task.path())).collect()
}

/// Asserts what each thread of a service holds: `devices` those that open devices. `available` is what it was started with.
fn assert_threads(service: &Process, devices: u64, available: u64) {
    let threads = threads(service);
    assert!(threads.iter().any(|thread| thread.name == "ringway-broker"), "the service has its threads");
    for (number, thread) in threads.iter().enumerate() {
        let opens_devices = ["ringway-w0", "ringway-w1"].contains(&thread.name.as_str()) || thread.name == "ringway-netlink";
        let expected = if opens_devices {
            devices
        } else if ["ringway-cgroups", "ringway-files"].contains(&thread.name.as_str()) {
            NET_ADMIN
        } else if thread.name == "ringway-handove" {
            NET_ADMIN | NET_BIND_SERVICE
        } else if number == 0 {
            KILL
        } else {
            NOTHING
        };
        thread.assert_holds(expected & available);
    }
    // As root one may; a core would hold other programs' bytes.
    let limits = fs::read_to_string(format!("/proc/{}/limits", service.pid())).expect("the service runs");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).expect("Linux");
    assert_eq!(core.split_whitespace().collect::<Vec<_>>()[4..6], ["0", "0"], "{core}");
}

#[test]
fn the_threads_of_a_root_service_hold_what_they_need() {
    let net = Net::new();
    let [large, _] = site(&net);
    let (service, name) = net.serve(Server, &[]);
    let config = nginx_config(&net, 80);
    let mut nginx = net.spawn(Server, &[RINGWAY, "run", "--name", &name, "--", "nginx", "-c", &config]);
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
    assert_threads(&service, DEVICES, u64::MAX);
    assert!(threads(&service).iter().all(|thread| thread.set("CapBnd") == NOTHING), "the bounding set is empty");
}

/// Copies of the command with file capabilities, and a run directory, for user 65534.
struct Unprivileged {
    folder: PathBuf,
    binary: String,
    directory: String,
}

impl Unprivileged {
    fn new() -> Unprivileged {
        let folder = std::env::temp_dir().join(format!("ringway-unprivileged-{}", std::process::id()));
        let (binary, directory) = (folder.join("ringway"), folder.join("run"));
        fs::create_dir_all(&directory).expect("a folder of ours");
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("ours");
        fs::copy(RINGWAY, &binary).expect("room for a copy");
        fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).expect("ours");
        chown(&directory, Some(65534), Some(65534)).expect("we are root");
        Unprivileged { binary: text(&binary), directory: text(&directory), folder }
    }

    fn set(&self, capabilities: &str) {
        let set = Command::new("setcap").args([&format!("{capabilities}+ep"), &self.binary]).status();
        assert!(set.expect("setcap is there (.ci/setup)").success(), "the file system has no capabilities");
    }

    /// `ip netns exec` hides the cgroups that each user of an ordinary machine sees, so they are mounted again.
    fn serve(&self, net: &Net, name: &str, options: &[&str]) -> Process {
        let seeing = ["sh", "-c", "mount -t cgroup2 none /sys/fs/cgroup; exec \"$@\"", "sh"];
        self.serve_in(net, &seeing, name, options)
    }

    fn serve_in(&self, net: &Net, view: &[&str], name: &str, options: &[&str]) -> Process {
        let serve = [view, &NOBODY[..], &[&self.binary, "serve", "--name", name], options].concat();
        net.spawn_with(Server, &serve, &[("RINGWAY_RUN_DIRECTORY", &self.directory)], None)
    }
}

impl Drop for Unprivileged {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).expect("it was made");
    }
}

#[test]
fn an_ordinary_user_serves_with_three_file_capabilities() {
    let net = Net::new();
    let [large, _] = site(&net);
    let user = Unprivileged::new();
    user.set("cap_net_admin,cap_net_raw,cap_bpf");
    let mut service = user.serve(&net, "ordinary", &[]);
    service.wait_for_error_line("ready: TCP on");
    let config = nginx_config(&net, 80);
    let run = [RINGWAY, "run", "--name", "ordinary", "--", "nginx", "-c", &config];
    let mut nginx = net.spawn_with(Server, &run, &[("RINGWAY_RUN_DIRECTORY", &user.directory)], None);
    net.wait_listening(Server, 80, &mut nginx);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
    assert_threads(&service, DEVICES, NET_ADMIN | NET_RAW | BPF);
    // An interface that comes later is served with what was kept.
    net.output(Server, &["ip", "link", "set", INTERFACE, "mtu", "1400"]);
    net.output(Client, &["ip", "link", "set", INTERFACE, "mtu", "1400"]);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
    drop(nginx);
    service.signal(Signal::TERM);
    service.finish(DEADLINE).success();
    let left: BTreeSet<_> = fs::read_dir(&user.directory).expect("ours").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, [".key", ".secret"].map(Into::into).into(), "what outlives services");
}

#[test]
fn an_ordinary_user_that_sees_no_cgroups_leaves_sockets_to_the_kernel_and_says_why() {
    let net = Net::new();
    let [large, _] = site(&net);
    let user = Unprivileged::new();
    user.set("cap_net_admin,cap_net_raw,cap_bpf");
    let mut service = user.serve_in(&net, &[], "blind", &[]);
    service.wait_for_error_line("the kernel serves all sockets (cgroup-bpf): BPF programs of cgroups cannot be read");
    service.wait_for_error_line("ready: TCP on");
    let config = nginx_config(&net, 80);
    let run = [RINGWAY, "run", "--name", "blind", "--", "nginx", "-c", &config];
    let log = [("RINGWAY_RUN_DIRECTORY", &*user.directory), ("RINGWAY_LOG", "fallback")];
    let mut nginx = net.spawn_with(Server, &run, &log, None);
    net.wait_listening(Server, 80, &mut nginx);
    nginx.wait_for_error_line("fallback=cgroup-bpf listen");
    service.wait_for_error_line("the kernel serves sockets of nginx[");
    assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large);
    drop(nginx);
}

#[test]
fn over_af_xdp_it_takes_two_more() {
    let net = Net::new();
    let [large, _] = site(&net);
    let user = Unprivileged::new();
    let config = text(&user.folder.join("ringway.toml"));
    fs::write(&config, "[interface]\ndevice = \"xdp\"\n").expect("a folder of ours");
    user.set("cap_net_admin,cap_net_raw,cap_bpf");
    let ended = user.serve(&net, "xdp", &["--config", &config]).finish(DEADLINE);
    assert!(ended.code() == 1 && ended.stderr.contains("CAP_PERFMON is missing"), "{}", ended.stderr);
    user.set("cap_net_admin,cap_net_raw,cap_bpf,cap_perfmon,cap_ipc_lock");
    let mut service = user.serve(&net, "xdp", &["--config", &config]);
    service.wait_for_error_line("ready: TCP on");
    let config = nginx_config(&net, 80);
    let run = [RINGWAY, "run", "--name", "xdp", "--", "nginx", "-c", &config];
    let mut nginx = net.spawn_with(Server, &run, &[("RINGWAY_RUN_DIRECTORY", &user.directory)], None);
    net.wait_listening(Server, 80, &mut nginx);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
    assert_threads(&service, DEVICES | PERFMON | IPC_LOCK, !(KILL | NET_BIND_SERVICE));
}

#[test]
fn a_missing_capability_is_named_with_its_remedy() {
    let net = Net::new();
    let user = Unprivileged::new();
    let all = ["cap_net_admin", "cap_net_raw", "cap_bpf"];
    for missing in all {
        let others: Vec<&str> = all.into_iter().filter(|other| *other != missing).collect();
        user.set(&others.join(","));
        let ended = user.serve(&net, "lacking", &[]).finish(DEADLINE);
        assert_eq!(ended.code(), 1, "{ended:?}");
        let expected = format!("{} is missing", missing.to_uppercase());
        assert!(ended.stderr.contains(&expected) && ended.stderr.contains("setcap"), "{}", ended.stderr);
        assert_eq!(ended.stderr.matches("is missing").count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn a_program_under_run_has_the_rights_of_its_caller_and_the_service_beside_it_has_not() {
    let net = Net::new();
    let [large, _] = site(&net);
    let look = ["sh", "-c", "grep -E '^(Cap|NoNewPrivs|Seccomp)' /proc/self/status; ulimit -c"];
    assert_eq!(net.output_ringway(Server, &look), net.output(Server, &look));
    let mut nginx = net.spawn_ringway(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_served(Server, 80, &mut nginx);
    net.untouched(Server, || assert_eq!(fetch(&net, Client, ON_KERNEL, &net.url(80, "large.bin")), large));
    assert_threads(&nginx, DEVICES, u64::MAX);
}

/// A signal reaches a program that has become another user, which takes CAP_KILL.
#[test]
fn a_signal_reaches_a_program_of_another_user() {
    let net = Net::new();
    let mut program = net.spawn_ringway(Server, &[&NOBODY[..], &["sh", "-c", "echo runs; exec sleep 50"]].concat());
    net.wait_printed(&mut program, "runs");
    program.signal(Signal::TERM);
    assert_eq!(program.finish(DEADLINE).code(), -15);
}

/// READY=1 once, and a sign again and again while all workers work; the thread that gives it holds nothing either.
#[test]
fn a_supervisor_is_told_that_the_workers_work() {
    let net = Net::new();
    let (path, name) = (net.path("notify"), format!("watched-{}", std::process::id()));
    let socket = UnixDatagram::bind(&path).expect("a socket in our folder");
    socket.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    let (path, serve) = (text(&path), [RINGWAY, "serve", "--name", &name, "--workers", "2"]);
    let environment = [("NOTIFY_SOCKET", path.as_str()), ("WATCHDOG_USEC", "200000")];
    let service = net.spawn_with(Server, &serve, &environment, None);
    let mut told = BTreeMap::<String, u32>::new();
    while told.get("WATCHDOG=1").is_none_or(|signs| *signs < 3) || told.len() < 2 {
        let mut message = [0; 64];
        let len = socket.recv(&mut message).expect("a sign before the deadline");
        *told.entry(String::from_utf8_lossy(&message[..len]).into_owned()).or_default() += 1;
    }
    assert_eq!(told["READY=1"], 1);
    assert!(threads(&service).iter().any(|thread| thread.name == "ringway-watchdo"), "it has its thread");
    assert_threads(&service, DEVICES, u64::MAX);
}
