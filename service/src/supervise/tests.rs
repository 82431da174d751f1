use std::path::PathBuf;
use std::process::Command;

use ringway_channel::Client;
use ringway_channel::attach::path_of_worker;
use ringway_shm::stats::StatsReader;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Service, StartError};
use crate::broker::Admission;
use crate::config::Config;
use crate::netlink::tests::in_fresh_namespace;
use crate::readiness::Opening;
use crate::rundir::{ClaimError, RunDirectory};

const TOKEN: [u8; 16] = [3; 16];

fn config(text: &str) -> Config {
    let small = "[memory]\nframes_large = 2048\nframes_small = 1024\nslots = 256\nchunks_large = 64\nchunks_small = 64\n";
    Config::parse("t.toml", &format!("{small}{text}"), Vec::new()).expect("valid")
}

fn shell(command: &str) {
    let status = Command::new("sh").args(["-ec", command]).status().expect("there is a shell");
    assert!(status.success(), "{command}");
}

/// A run directory that vanishes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("ringway-service-{name}-{}", std::process::id())))
    }

    fn directory(&self) -> RunDirectory {
        RunDirectory::at(self.0.clone())
    }

    fn start(&self, text: &str) -> Result<Service, StartError> {
        self.start_opening(text, Opening::AtStart)
    }

    fn start_opening(&self, text: &str, opening: Opening) -> Result<Service, StartError> {
        Service::start(&config(text), "test", &self.directory(), Admission::Private(TOKEN), opening)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let left: Vec<_> = std::fs::read_dir(&self.0).expect("the service made it").flatten().collect();
        assert!(left.is_empty() || std::thread::panicking(), "files were left: {left:?}");
        std::fs::remove_dir_all(&self.0).expect("ours");
        std::fs::remove_file(self.0.with_extension("secret")).ok();
    }
}

#[test]
fn a_service_starts_serves_and_leaves_nothing() {
    in_fresh_namespace("supervise::tests::namespace_start_and_stop");
}

#[test]
#[ignore = "runs in a namespace of its own, see a_service_starts_serves_and_leaves_nothing"]
fn namespace_start_and_stop() {
    let scratch = Scratch::new("stop");
    shell("ip link add rwa type veth peer name rwb; ip link set rwa up; ip link set rwb up; ip addr add 10.9.0.1/24 dev rwa");
    let service = scratch.start("[worker]\ncore = 0\n").expect("root may serve");
    let names: Vec<&str> = service.served().iter().map(|planned| planned.name.as_str()).collect();
    assert_eq!(names, ["rwa"], "rwb has no IPv4 address");
    match scratch.start("") {
        Err(StartError::Claim(ClaimError::Taken(Some(pid)))) => assert_eq!(pid, std::process::id()),
        other => panic!("{:?}", other.err()),
    }
    let client = Client::attach(&service.socket_path(), TOKEN, 0).expect("the door is open");
    assert!(service.status().is_busy() && client.service_alive());
    let stats = StatsReader::open(&scratch.directory().stats_path("test")).expect("written from the start");
    assert_eq!(stats.pid(), std::process::id());
    service.stop().expect("the worker ends well");
    assert!(!client.service_alive(), "programs see the end");
}

/// Programs without sockets do not pay for devices: no packet socket, no ring and no filter is there before a program attaches,
/// which
/// then finds all of it.
#[test]
fn devices_are_opened_when_the_first_program_attaches() {
    in_fresh_namespace("supervise::tests::namespace_devices_at_first_program");
}

#[test]
#[ignore = "runs in a namespace of its own, see devices_are_opened_when_the_first_program_attaches"]
fn namespace_devices_at_first_program() {
    let scratch = Scratch::new("late");
    shell("ip link add rwa type veth peer name rwb; ip link set rwa up; ip link set rwb up; ip addr add 10.9.0.1/24 dev rwa");
    let service = scratch.start_opening("", Opening::AtFirstProgram).expect("root may serve");
    assert_eq!(service.served().len(), 1, "what will be served is known");
    let packet_sockets = || std::fs::read_to_string("/proc/thread-self/net/packet").expect("there is a list").lines().count() - 1;
    assert_eq!((packet_sockets(), rings_mapped()), (0, 0));
    // The address that comes meanwhile is served as the first one.
    shell("ip addr add 10.9.1.1/24 dev rwa");
    let client = Client::attach(&service.socket_path(), TOKEN, 0).expect("the door is open");
    assert!(packet_sockets() > 0 && rings_mapped() > 0, "whoever is attached has a device");
    let stats = StatsReader::open(&scratch.directory().stats_path("test")).expect("written from the start");
    wait_until(|| stats.interfaces().iter().any(|(_, interface)| interface.name == "rwa"));
    drop(client);
    service.stop().expect("the worker ends well");
    assert_eq!(rings_mapped(), 0);
}

/// An interface that has gone before a program wanted it is a refusal that says so.
#[test]
fn the_first_program_is_told_when_nothing_can_be_opened() {
    in_fresh_namespace("supervise::tests::namespace_nothing_at_first_program");
}

#[test]
#[ignore = "runs in a namespace of its own, see the_first_program_is_told_when_nothing_can_be_opened"]
fn namespace_nothing_at_first_program() {
    let scratch = Scratch::new("gone");
    shell("ip link add rwa type veth peer name rwb; ip link set rwa up; ip link set rwb up; ip addr add 10.9.0.1/24 dev rwa");
    let service = scratch.start_opening("", Opening::AtFirstProgram).expect("root may serve");
    shell("ip link del rwa");
    for _ in 0..2 {
        let error = Client::attach(&service.socket_path(), TOKEN, 0).err().expect("nothing is served").to_string();
        assert!(error.contains("no interface can be served"), "{error}");
    }
    service.stop().expect("the worker ends well");
}

/// Rings of packet sockets that this process has mapped.
fn rings_mapped() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    maps.lines().filter(|line| line.contains("socket:[")).count()
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    let limit = std::time::Duration::from_secs(20);
    let start = std::time::SystemTime::now();
    while !holds() {
        assert!(start.elapsed().unwrap_or_default() < limit, "it never came true");
        std::thread::yield_now();
    }
}

#[test]
fn without_an_interface_the_reasons_are_told() {
    in_fresh_namespace("supervise::tests::namespace_without_interface");
}

#[test]
#[ignore = "runs in a namespace of its own, see without_an_interface_the_reasons_are_told"]
fn namespace_without_interface() {
    let scratch = Scratch::new("none");
    let error = scratch.start("").err().expect("only the loopback is there").to_string();
    assert!(error.contains("lo is the loopback"), "{error}");
    let error = scratch.start("[interface]\nname = \"eth7\"").err().expect("no such interface").to_string();
    assert!(error.contains("eth7 does not exist"), "{error}");
    assert!(scratch.directory().living().expect("readable").is_empty());
}

#[test]
fn a_tap_device_makes_the_stack_a_neighbor() {
    in_fresh_namespace("supervise::tests::namespace_tap_answers_ping");
}

/// The kernel pings the stack, which answers ARP and ICMP echo on an interface of its own.
#[test]
#[ignore = "runs in a namespace of its own, see a_tap_device_makes_the_stack_a_neighbor"]
fn namespace_tap_answers_ping() {
    let scratch = Scratch::new("tap");
    let service = scratch.start("[interface]\ndevice = \"tap\"\naddress = \"10.7.0.2/24\"").expect("root may make one");
    shell("ping -c 2 -i 0.1 -W 3 10.7.0.2");
    service.stop().expect("the worker ends well");
    shell("! ip -o link | grep -q ringway");
}

#[test]
fn idle_is_told_when_the_last_program_has_gone() {
    in_fresh_namespace("supervise::tests::namespace_idle");
}

#[test]
#[ignore = "runs in a namespace of its own, see idle_is_told_when_the_last_program_has_gone"]
fn namespace_idle() {
    let scratch = Scratch::new("idle");
    let service = scratch.start("[interface]\ndevice = \"tap\"\naddress = \"10.7.0.2/24\"").expect("root may make one");
    let binary = std::env::current_exe().expect("the test binary has a path");
    let status = Command::new(binary)
        .args(["--exact", "broker::tests::child_attaches_and_waits", "--ignored"])
        .env("RINGWAY_TEST_PATH", service.socket_path())
        .env("RINGWAY_TEST_TOKEN", TOKEN[0].to_string())
        .env("RINGWAY_TEST_CONTEXTS", "0")
        .stdin(std::process::Stdio::null())
        .status()
        .expect("the test binary runs");
    assert!(status.success());
    let limit = Timespec { tv_sec: 5, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&service.idle_fd(), PollFlags::IN)], Some(&limit)).expect("poll works");
    assert!(ready > 0 && !service.status().is_busy() && !service.has_failed());
    assert_eq!(service.status().attached(), 1);
    service.hush();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&service.idle_fd(), PollFlags::IN)], Some(&now)).expect("poll works"), 0);
    service.stop().expect("the worker ends well");
}

/// Looks at what a worker is about to write: some seconds of them.
const LOOKS_MAX: u32 = 3_000_000;

#[test]
fn each_worker_has_a_door_and_all_end_together() {
    in_fresh_namespace("supervise::tests::namespace_two_workers");
}

#[test]
#[ignore = "runs in a namespace of its own, see each_worker_has_a_door_and_all_end_together"]
fn namespace_two_workers() {
    let scratch = Scratch::new("workers");
    shell("ip link add rwa type veth peer name rwb; ip link set rwa up; ip link set rwb up; ip addr add 10.9.0.1/24 dev rwa");
    let service = scratch.start("[worker]\ncount = 2\n").expect("root may serve");
    let doors = [0, 1].map(|worker| path_of_worker(&service.socket_path(), worker));
    let clients = doors.map(|door| Client::attach(&door, TOKEN, 0).expect("each door is open"));
    assert!(service.status().is_busy());
    assert_eq!(service.status().attached(), 1, "one process");
    for worker in [0, 1] {
        let path = path_of_worker(&scratch.directory().stats_path("test"), worker);
        let stats = StatsReader::open(&path).expect("written from the start");
        // The worker writes them in its first turn, which may come after the start has returned.
        let named = || stats.interfaces().into_iter().map(|(_, interface)| interface.name).collect::<Vec<_>>();
        let turns = (0..LOOKS_MAX).take_while(|_| named().is_empty()).inspect(|_| std::thread::yield_now()).count();
        assert_eq!(named(), ["rwa"], "worker {worker}, after {turns} looks");
    }
    assert_eq!(scratch.directory().living().expect("readable"), ["test"], "one service");
    service.stop().expect("both end well");
    assert!(clients.iter().all(|client| !client.service_alive()), "programs see the end at both");
    // Packets of a device of its own come to one worker.
    let service = scratch.start("[worker]\ncount = 2\n[interface]\ndevice = \"tap\"\naddress = \"10.7.0.2/24\"").expect("root");
    assert!(service.notes().iter().any(|note| note.contains("worker.count")), "{:?}", service.notes());
    assert!(!path_of_worker(&service.socket_path(), 1).exists());
    service.stop().expect("it ends well");
}
