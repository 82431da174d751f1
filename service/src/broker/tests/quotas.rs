//! The broker refuses what goes beyond a limit, and counts it.

use std::io::BufRead;
use std::path::Path;

use ringway_shm::stats::StatsReader;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until a counter of the worker beside a broker's socket is at least `least`, and returns it.
pub(super) fn wait_counted(socket: &Path, name: &str, least: u64) -> u64 {
    let stats = StatsReader::open(&socket.with_extension("stats")).expect("the worker has written it");
    let end = Instant::now() + PATIENCE;
    loop {
        let counters = stats.counters();
        let value = counters.iter().find(|(known, _)| known == name).expect("there is such a counter").1;
        if value >= least {
            return value;
        }
        assert!(Instant::now() < end, "{name} is {value}");
        std::thread::yield_now();
    }
}

fn knock(path: &Path) -> OwnedFd {
    let stranger = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let stranger = stranger.expect("descriptors are left");
    connect(&stranger, &SocketAddrUnix::new(path).expect("short enough")).expect("it is queued");
    stranger
}

#[test]
fn a_process_beyond_those_of_its_group_is_refused_and_counted() {
    let house = House::new("processes", Admission::Private(TOKEN));
    let children: Vec<_> = (0..LIMITS.processes_per_group).map(|_| house.child(TOKEN)).collect();
    assert!(children.iter().all(|(_, told)| told.parse::<u32>().is_ok()), "all of them have numbers");
    let (mut beyond, refused) = house.child(TOKEN);
    beyond.kill().expect("ours");
    beyond.wait().expect("ours");
    assert!(refused.contains("limits.processes_per_group"), "{refused}");
    wait_counted(&house.path, "RingwayQuotaGroupProcessesHits", 1);
    for (mut child, _) in children {
        child.kill().expect("ours");
        child.wait().expect("ours");
    }
    house.wait_idle();
    let (mut child, number) = house.child(TOKEN);
    assert_eq!(number, "0", "there is room again");
    child.kill().expect("ours");
    child.wait().expect("ours");
}

#[test]
fn a_group_beyond_those_of_its_user_is_refused_and_counted() {
    // Root may have any number of groups.
    if rustix::process::getuid().is_root() {
        return;
    }
    let house = House::new("groups", Admission::of_group("there is no such group"));
    let groups: Vec<_> = (0..2u8).map(|token| Client::attach(&house.path, [token; 16], 0).expect("room")).collect();
    match Client::attach(&house.path, [9; 16], 0).map(|_| ()) {
        Err(AttachError::Refused(text)) => assert!(text.contains("limits.groups_per_user"), "{text}"),
        other => panic!("{other:?}"),
    }
    wait_counted(&house.path, "RingwayQuotaUserGroupsHits", 1);
    drop(groups);
}

/// Without a descriptor for a connection the broker looks away from its door for a tenth of a second each time.
#[test]
fn a_broker_without_descriptors_asks_ten_times_a_second() {
    let mut child = Command::new(std::env::current_exe().expect("the test binary has a path"))
        .args(["--exact", "broker::tests::quotas::house_without_descriptors", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test binary runs");
    let mut told = Vec::new();
    let mut output = std::io::BufReader::new(child.stdout.take().expect("piped"));
    output.read_until(b'<', &mut Vec::new()).expect("it says where it is");
    output.read_until(b'!', &mut told).expect("it says where it is");
    told.pop();
    let path = PathBuf::from(String::from_utf8(told).expect("a path"));
    let start = Instant::now();
    let waiting = knock(&path);
    let asked = wait_counted(&path, "RingwayQuotaConnectionsHits", 3);
    let tenths = start.elapsed().as_millis() as u64 / 100;
    assert!(asked <= tenths + 1, "asked {asked} times in {tenths} tenths of a second");
    // From now on it has descriptors.
    child.stdin.as_mut().expect("piped").write_all(b"\n").expect("it reads");
    Client::attach(&path, TOKEN, 0).expect("it listens again");
    drop(waiting);
    drop(child.stdin.take());
    assert!(child.wait().expect("ours").success());
}

#[test]
#[ignore = "the other process of a test in this file"]
fn house_without_descriptors() {
    let house = House::new("descriptors", Admission::Private(TOKEN));
    let before = getrlimit(Resource::Nofile);
    // A new descriptor has the lowest free number; from that on there is none.
    let lowest = std::os::fd::AsRawFd::as_raw_fd(&std::fs::File::open("/dev/null").expect("descriptors are left"));
    setrlimit(Resource::Nofile, Rlimit { current: Some(lowest as u64), ..before }).expect("less is allowed");
    print!("<{}!", house.path.display());
    std::io::stdout().flush().expect("the parent reads");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the parent writes");
    setrlimit(Resource::Nofile, before).expect("the hard limit is as it was");
    std::io::stdin().read_line(&mut line).expect("the parent closes it");
}
