//! The broker refuses what goes beyond a limit, and counts it.

use std::io::BufRead;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::Path;

use ringway_channel::SlotRef;
use ringway_channel::attach::Purpose;
use ringway_engine::Quota;
use ringway_shm::stats::{Holder, QuotaRecord, StatsReader};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};
use rustix::thread::set_thread_res_uid;

use super::*;
use crate::config::Adopts;

const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until tools are told that a quota of `holder` is as `is_it` says, and returns what they are told.
fn wait_told(house: &House, holder: &Holder, quota: Quota, is_it: impl Fn(QuotaRecord) -> bool) -> QuotaRecord {
    let stats = StatsReader::open(&house.path.with_extension("stats")).expect("the worker has written it");
    let end = Instant::now() + PATIENCE;
    loop {
        let told = stats.holders().into_iter().find(|told| told.holder == *holder).and_then(|told| told.quotas[quota as usize]);
        match told {
            Some(told) if is_it(told) => return told,
            _ => assert!(Instant::now() < end, "{quota:?} of {holder:?} is {told:?}"),
        }
        std::thread::yield_now();
    }
}

fn this_user() -> Holder {
    Holder::User(getuid().as_raw())
}

/// Attaches. A child that another test makes may hold a closed connection for a moment, between its fork and its exec.
fn attach_in_time(house: &House) -> Client {
    let end = Instant::now() + PATIENCE;
    loop {
        match Client::attach(&house.path, TOKEN, 0) {
            Ok(client) => return client,
            Err(error) => assert!(Instant::now() < end, "there is room again: {error:?}"),
        }
        std::thread::yield_now();
    }
}

/// Waits until a counter of the worker beside a broker's socket is at least `least`, and returns it.
fn wait_counted(socket: &Path, name: &str, least: u64) -> u64 {
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
    let silent = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let silent = silent.expect("descriptors are left");
    connect(&silent, &SocketAddrUnix::new(path).expect("short enough")).expect("it is queued");
    silent
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

#[test]
fn a_silent_connection_beyond_those_of_its_user_is_refused_and_others_are_heard() {
    let house = House::new("silent", Admission::Private(TOKEN));
    let attached = Client::attach(&house.path, TOKEN, 0).expect("nothing is used up");
    let silent: Vec<OwnedFd> = (0..LIMITS.silent_per_user).map(|_| knock(&house.path)).collect();
    let (_, len) = recv(knock(&house.path), &mut [0; 512], RecvFlags::empty()).expect("answered");
    assert!(len > 0, "refused with text");
    assert_eq!(wait_told(&house, &this_user(), Quota::SilentOfUser, |told| told.hits > 0).hits, 1);
    attached.settle().expect("a process that has said hello is heard");
    if getuid().is_root() {
        // The user of a connection is that of the thread that makes it.
        let another = std::thread::scope(|scope| {
            let attach = || {
                let other = rustix::process::Uid::from_raw(65_534);
                set_thread_res_uid(other, other, other).expect("root may");
                Client::attach(&house.path, [8; 16], 0).map(|_| ())
            };
            scope.spawn(attach).join().expect("no panic")
        });
        assert_eq!(
            another.unwrap_err().to_string(),
            "the service refused: this service is private to one program",
            "another user is heard"
        );
    }
    assert_eq!(wait_counted(&house.path, "RingwayQuotaUserSilentHits", 1), 1, "the other user's is none");
    drop(silent);
    attach_in_time(&house);
}

#[test]
fn a_connection_beyond_all_that_there_may_be_is_refused_and_counted() {
    let most = Most { attach: AttachLimits { connections: 3, ..LIMITS }, ..MOST };
    let house = House::limited("connections", Admission::Private(TOKEN), most);
    let attached = Client::attach(&house.path, TOKEN, 0).expect("nothing is used up");
    let silent = [knock(&house.path), knock(&house.path)];
    match Client::attach(&house.path, TOKEN, 0).map(|_| ()) {
        Err(AttachError::Refused(text)) => assert!(text.contains("limits.attach_connections"), "{text}"),
        other => panic!("{other:?}"),
    }
    let told = wait_told(&house, &Holder::Service, Quota::Connections, |told| told.hits > 0);
    assert_eq!(told, QuotaRecord { used: Some(3), limit: Some(3), hits: 1 });
    attached.settle().expect("those that are attached are heard");
    drop(silent);
    attach_in_time(&house);
}

fn show_listener(client: &Client) -> Result<(SlotRef, TcpListener), AttachError> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("ports are left");
    let slot = client.open_slot().expect("a slot is free");
    client.show(slot, Purpose::Listen, listener.as_raw_fd()).map(|()| (slot, listener))
}

/// Shows one socket more than `kept` allows; `quota` of `holder` is what refuses it.
fn show_too_many(name: &str, kept: KeptLimits, holder: &Holder, quota: Quota) {
    let house = House::limited(name, Admission::Private(TOKEN), Most { kept, ..MOST });
    let client = Client::attach(&house.path, TOKEN, 0).expect("nothing is used up");
    let (first, _listener) = show_listener(&client).expect("there may be two");
    let _second = show_listener(&client).expect("there may be two");
    assert_eq!(wait_told(&house, holder, quota, |told| told.used == Some(2)).hits, 0);
    match show_listener(&client).map(|_| ()) {
        Err(AttachError::Refused(text)) => assert!(text.contains(&format!("(limits.{})", quota.info().key)), "{text}"),
        other => panic!("{other:?}"),
    }
    let told = wait_told(&house, holder, quota, |told| told.hits > 0);
    assert_eq!(told, QuotaRecord { used: Some(2), limit: Some(2), hits: 1 });
    assert!(client.release(first.index) && client.close(first, None));
    wait_told(&house, holder, quota, |told| told.used == Some(1));
    let _third = show_listener(&client).expect("one has been given back");
    assert_eq!(wait_told(&house, holder, quota, |told| told.used == Some(2)).hits, 1, "once");
    assert_eq!(wait_counted(&house.path, "RingwayQuotaHits", 1), 1, "of this quota alone");
}

#[test]
fn a_socket_shown_beyond_those_of_its_user_is_refused_and_counted() {
    show_too_many(
        "shown-user",
        KeptLimits { per_user: 2, all: 16, adopts: Adopts::All },
        &this_user(),
        Quota::ShownSocketsOfUser,
    );
}

#[test]
fn a_socket_shown_beyond_all_that_there_may_be_is_refused_and_counted() {
    show_too_many("shown-all", KeptLimits { per_user: 16, all: 2, adopts: Adopts::All }, &Holder::Service, Quota::ShownSockets);
}

/// policy.adopt = "none": what an earlier service has served is refused, with the key that says so.
#[test]
fn listeners_of_an_earlier_service_are_served_where_they_may_be() {
    for adopts in [Adopts::All, Adopts::Listeners, Adopts::Nothing] {
        let (kept, adopts_listeners) = (KeptLimits { adopts, ..MOST.kept }, adopts != Adopts::Nothing);
        let house = House::limited(&format!("adopt-{adopts:?}"), Admission::Private(TOKEN), Most { kept, ..MOST });
        let client = Client::attach(&house.path, TOKEN, 0).expect("it is the group's");
        let listener = TcpListener::bind("127.0.0.1:0").expect("ports are left");
        let slot = client.open_slot().expect("a slot is free");
        match client.show(slot, Purpose::ListenAgain, listener.as_raw_fd()) {
            Err(AttachError::Refused(text)) => assert!(!adopts_listeners && text.contains("(policy.adopt)"), "{text}"),
            other => assert!(adopts_listeners && other.is_ok(), "{other:?}"),
        }
    }
}

/// One process takes five contexts, all that there may be. Another one gets the two that every process has, and no third.
fn take_too_many_contexts(name: &str, wake_fds: WakeFdLimits, holder: &Holder, quota: Quota) {
    let house = House::limited(name, Admission::Private(TOKEN), Most { wake_fds, ..MOST });
    let (mut taker, number) = house.child_with_contexts(TOKEN, 5);
    assert_eq!(number, "0", "there may be five");
    assert_eq!(wait_told(&house, holder, quota, |told| told.used == Some(5)).hits, 0);
    let (mut second, refused) = house.child_with_contexts(TOKEN, 3);
    assert!(refused.starts_with("2 contexts,") && refused.contains(&format!("(limits.{})", quota.info().key)), "{refused}");
    let told = wait_told(&house, holder, quota, |told| told.hits > 0);
    assert_eq!(told, QuotaRecord { used: Some(7), limit: Some(5), hits: 1 });
    taker.kill().expect("ours");
    taker.wait().expect("ours");
    wait_told(&house, holder, quota, |told| told.used == Some(2));
    let (mut third, number) = house.child_with_contexts(TOKEN, 3);
    assert!(number.parse::<u32>().is_ok(), "three have been given back: {number}");
    assert_eq!(wait_told(&house, holder, quota, |told| told.used == Some(5)).hits, 1, "once");
    assert_eq!(wait_counted(&house.path, "RingwayQuotaHits", 1), 1, "of this quota alone");
    for child in [&mut second, &mut third] {
        child.kill().expect("ours");
        child.wait().expect("ours");
    }
}

#[test]
fn a_wait_context_beyond_those_of_its_user_is_refused_and_counted() {
    let limits = WakeFdLimits { per_user: 5, all: 64 };
    take_too_many_contexts("contexts-user", limits, &this_user(), Quota::WaitContextsOfUser);
}

#[test]
fn a_wait_context_beyond_all_that_there_may_be_is_refused_and_counted() {
    take_too_many_contexts("contexts-all", WakeFdLimits { per_user: 64, all: 5 }, &Holder::Service, Quota::WaitContexts);
}
