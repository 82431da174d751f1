mod quotas;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringway_channel::attach::{AttachError, Credentials, WakeFdKind};
use ringway_channel::{Client, Shape, Usage};
use ringway_engine::{Host, PortError, Ports, RegionId, Transport, WorkerConfig, WorkerThread};
use ringway_shm::ArenaConfig;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::thread::CapabilitySet;

use super::account::Account;
use super::admission::{Admission, Standing};
use super::{
    AttachLimits, BrokerConfig, BrokerStatus, Desk, HandoverThread, Handovers, KeptLimits, WakeFdLimits, WakeFds, start,
};
use crate::cgroups::Cgroups;
use crate::config::Adopts;
use crate::config::rules::Rules;
use crate::executables::Executables;
use crate::host::{Fork, Forks};
use crate::netlink::Snapshot;
use crate::policy::Policy;
use crate::ports::NoSteering;
use crate::readiness::Readiness;

const TOKEN: [u8; 16] = [7; 16];
const SHAPE: Shape =
    Shape { slots: 256, rx_large: 16, rx_small: 16, tx_large: 16, tx_small: 16, tx_bulk: 4, rx_bulk: 4, rx_middle: 4 };

const LIMITS: AttachLimits = AttachLimits { groups_per_user: 2, processes_per_group: 4, connections: 32, silent_per_user: 16 };

#[test]
fn names_that_programs_give_themselves_do_nothing_to_a_terminal() {
    assert_eq!(super::members::name_of(b"\x1b[2Jrm\x07 \xff\n"), "?[2Jrm? \u{fffd}");
    assert_eq!(super::members::name_of("ngin\u{e9}\u{9b}\n".as_bytes()), "ngin\u{e9}?");
}

struct NoPorts;

impl Ports for NoPorts {
    fn reserve(&mut self, _: IpAddr, _: u16) -> Result<u16, PortError> {
        Err(PortError::InUse)
    }
    fn release(&mut self, _: IpAddr, _: u16) {}
    fn own(&mut self, _: Transport, _: IpAddr, _: u16) -> Result<(), PortError> {
        Err(PortError::NoSteering)
    }
    fn disown(&mut self, _: Transport, _: IpAddr, _: u16) {}
}

struct TestHost(Forks);

impl Host for TestHost {
    fn resolve(&mut self, _: u32, _: IpAddr) {}
    fn forked(&mut self, region: RegionId, process: u32, pid: u32) {
        self.0.push(Fork { region, process, pid });
    }
}

/// A broker and a worker without interfaces.
struct House {
    path: PathBuf,
    stop: Arc<OwnedFd>,
    idle: Arc<OwnedFd>,
    status: Arc<BrokerStatus>,
    broker: Option<JoinHandle<()>>,
    worker: Option<WorkerThread>,
}

/// Bounds of what brokers hold.
#[derive(Clone, Copy)]
struct Most {
    attach: AttachLimits,
    wake_fds: WakeFdLimits,
    kept: KeptLimits,
}

const MOST: Most = Most {
    attach: LIMITS,
    wake_fds: WakeFdLimits { per_user: 64, all: 64 },
    kept: KeptLimits { per_user: 16, all: 16, adopts: Adopts::All },
};

fn wake_fd() -> Arc<OwnedFd> {
    Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("descriptors are left"))
}

impl House {
    fn new(name: &str, admission: Admission) -> House {
        House::limited(name, admission, MOST)
    }

    fn limited(name: &str, admission: Admission, most: Most) -> House {
        let forks = Forks::new().expect("descriptors are left");
        let path = std::env::temp_dir().join(format!("ringway-broker-{name}-{}.sock", std::process::id()));
        let config = WorkerConfig {
            name: "test-worker".to_owned(),
            arena: ArenaConfig { large: 512, small: 512 },
            shape: SHAPE,
            stats_path: Some(path.with_extension("stats")),
            ..WorkerConfig::default()
        };
        let worker = ringway_engine::spawn(config, Box::new(NoPorts), Box::new(TestHost(forks.clone()))).expect("memory is left");
        let (stop, idle, status) = (wake_fd(), wake_fd(), Arc::<BrokerStatus>::default());
        let wake_fds = WakeFds::new(most.wake_fds);
        let desk = Desk::start(&stop, most.kept).expect("threads are left").0;
        let account = Account::new(wake_fds.clone(), desk.clone(), status.clone(), most.attach);
        worker.handle.show_usage(account.source()).expect("the worker runs");
        let broker = BrokerConfig {
            number: 0,
            admission: admission.into(),
            shape: SHAPE,
            limits: most.attach.into(),
            policy: Policy::new(&Rules::default(), &Snapshot::default(), 1).expect("descriptors are left"),
            seals: super::Seals::new(&[3; 32], "test", None),
            worker: worker.handle.clone(),
            forks,
            wake_fds,
            desk,
            handovers: Handovers::start(
                HandoverThread::new(CapabilitySet::empty()).expect("threads are left"),
                Box::new(NoSteering),
                most.kept,
            )
            .0,
            cgroups: Cgroups::off(),
            executables: Executables::off(),
            readiness: Readiness::new(true).expect("descriptors are left"),
            stop: stop.clone(),
            status: status.clone(),
            idle: idle.clone(),
        };
        let broker = start(&path, broker).expect("the path is free");
        House { path, stop, idle, status, broker: Some(broker), worker: Some(worker) }
    }

    fn wait_idle(&self) {
        let limit = Timespec { tv_sec: 5, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&self.idle.as_fd(), PollFlags::IN)], Some(&limit)).expect("poll works");
        assert!(ready > 0, "the broker never became idle");
        rustix::io::read(&*self.idle, &mut [0; 8]).expect("readable");
        assert!(!self.status.is_busy());
    }

    /// A process of its own that attaches and tells its number.
    fn child(&self, token: [u8; 16]) -> (Child, String) {
        self.child_with_contexts(token, 0)
    }

    /// The same, and the process takes wait contexts. Where it gets fewer, it tells their number and the refusal.
    fn child_with_contexts(&self, token: [u8; 16], contexts: u32) -> (Child, String) {
        let mut child = Command::new(std::env::current_exe().expect("the test binary has a path"))
            .args(["--exact", "broker::tests::child_attaches_and_waits", "--ignored", "--nocapture"])
            .env("RINGWAY_TEST_PATH", &self.path)
            .env("RINGWAY_TEST_TOKEN", token[0].to_string())
            .env("RINGWAY_TEST_CONTEXTS", contexts.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test binary runs");
        let mut told = String::new();
        let output = child.stdout.as_mut().expect("piped");
        while !told.ends_with('!') {
            let mut letter = [0];
            output.read_exact(&mut letter).expect("the child tells");
            told.push(char::from(letter[0]));
        }
        let told = told.rsplit('<').next().expect("one part at least").trim_end_matches('!').to_owned();
        (child, told)
    }
}

impl Drop for House {
    fn drop(&mut self) {
        rustix::io::write(&*self.stop, &1u64.to_ne_bytes()).expect("an eventfd takes a write");
        self.broker.take().expect("once").join().expect("the broker does not panic");
        let worker = self.worker.take().expect("once");
        worker.handle.stop().expect("the worker runs");
        worker.join().expect("the worker ends well");
        std::fs::remove_file(&self.path).expect("the broker made it");
        std::fs::remove_file(self.path.with_extension("stats")).expect("the worker made it");
    }
}

#[test]
#[ignore = "the other process of tests in this file"]
fn child_attaches_and_waits() {
    let path = PathBuf::from(std::env::var_os("RINGWAY_TEST_PATH").expect("set by the parent"));
    let token = std::env::var("RINGWAY_TEST_TOKEN").expect("set by the parent").parse().expect("a number");
    let contexts: u32 = std::env::var("RINGWAY_TEST_CONTEXTS").expect("set by the parent").parse().expect("a number");
    let client = Client::attach(&path, [token; 16], 0);
    let mut kept = Vec::new();
    let mut open = |client: &Client| client.open_context(Usage::OneThread, WakeFdKind::Epoll).map(|context| kept.push(context));
    match client.as_ref().map(|client| (client.process(), (0..contexts).try_for_each(|_| open(client)))) {
        Ok((number, Ok(()))) => print!("<{number}!"),
        Ok((_, Err(refusal))) => print!("<{} contexts, {refusal}!", kept.len()),
        Err(error) => print!("<{error}!"),
    }
    std::io::stdout().flush().expect("the parent reads");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("the parent closes it");
}

#[test]
fn processes_of_a_group_share_a_region_and_leave_it_when_they_die() {
    let house = House::new("share", Admission::Private(TOKEN));
    let (mut first, number) = house.child(TOKEN);
    let (mut second, other) = house.child(TOKEN);
    assert_eq!((number.as_str(), other.as_str()), ("0", "1"));
    assert!(house.status.is_busy());
    first.kill().expect("ours");
    first.wait().expect("ours");
    let client = Client::attach(&house.path, TOKEN, 0).expect("the group lives");
    assert!(client.process() != 1, "the number of a living process is not given again");
    second.kill().expect("ours");
    second.wait().expect("ours");
    assert_eq!(house.status.attached(), 3);
    assert!(house.status.is_busy(), "this process is attached");
}

#[test]
fn the_last_process_takes_its_group_along() {
    let house = House::new("last", Admission::Private(TOKEN));
    let (mut first, _) = house.child(TOKEN);
    let (mut second, _) = house.child(TOKEN);
    for child in [&mut first, &mut second] {
        child.kill().expect("ours");
    }
    for child in [&mut first, &mut second] {
        child.wait().expect("ours");
    }
    house.wait_idle();
    let (mut third, number) = house.child(TOKEN);
    assert_eq!(number, "0", "a new region");
    drop(third.stdin.take());
    third.wait().expect("ours");
    house.wait_idle();
}

/// A server that has given up its rights would not be admitted as what it is.
#[test]
fn a_member_of_an_earlier_service_is_admitted() {
    let earlier = House::new("earlier", Admission::Private(TOKEN));
    let membership = Client::attach(&earlier.path, TOKEN, 0).expect("it is the group's").membership();
    assert_eq!(membership.owner, rustix::process::getuid().as_raw());
    let later = House::new("later", Admission::Private([8; 16]));
    let again = |membership| Client::attach_again(&later.path, TOKEN, membership, 0).map(|client| client.membership());
    assert!(again(Default::default()).is_err(), "this one knows another group");
    let forged = ringway_channel::attach::Membership { owner: membership.owner + 1, ..membership };
    assert!(again(forged).is_err());
    assert_eq!(again(membership).expect("it was a member"), membership);
}

#[test]
fn a_private_service_knows_one_token() {
    let house = House::new("private", Admission::Private(TOKEN));
    match Client::attach(&house.path, [8; 16], 0).map(|_| ()) {
        Err(AttachError::Refused(text)) => assert_eq!(text, "this service is private to one program"),
        other => panic!("{other:?}"),
    }
    assert_eq!(house.status.refused(), 1);
    assert!(!house.status.is_busy());
}

#[test]
fn a_refused_handover_leaves_the_program_its_connection() {
    let house = House::new("handover", Admission::Private(TOKEN));
    let client = Client::attach(&house.path, TOKEN, 0).expect("nothing is used up");
    let slot = client.open_slot().expect("a slot is free");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("ports are left");
    assert!(matches!(client.hand_over(slot, socket.as_raw_fd()), Err(AttachError::Refused(_))));
    client.settle().expect("it is heard");
    assert_eq!((house.status.refused(), house.status.violations()), (0, 0));
}

#[test]
fn nonsense_is_refused_and_counted() {
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
    };
    let house = House::new("nonsense", Admission::Private(TOKEN));
    let address = SocketAddrUnix::new(&house.path).expect("short enough");
    for message in [&b"GET / HTTP/1.0"[..], &[0; 256], &[0xff; 300]] {
        let unknown = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let unknown = unknown.expect("descriptors are left");
        connect(&unknown, &address).expect("somebody listens");
        send(&unknown, message, SendFlags::empty()).expect("taken");
        let mut answer = [0; 512];
        let (_, len) = recv(&unknown, &mut answer, RecvFlags::empty()).expect("answered");
        assert!(len > 0, "refused with text");
        let (_, len) = recv(&unknown, &mut answer, RecvFlags::empty()).expect("closed");
        assert_eq!(len, 0, "and closed");
    }
    assert_eq!(house.status.violations(), 3);
    Client::attach(&house.path, TOKEN, 0).expect("others are served");
}

#[test]
fn admission_follows_user_group_and_token() {
    let peer = |uid| Credentials { pid: std::process::id(), uid, gid: 4_000_000 };
    let private = Admission::Private(TOKEN);
    let users = Admission::Users { uid: 1000, gid: Some(77), group: "ringway".to_owned() };
    let mut found = BTreeMap::new();
    let mut ask = |what: &'static str, admission: &Admission, token: u8, owner, peer| {
        found.insert(what, admission.decide(&[token; 16], owner, peer, &[4_000_001, 78]).is_ok());
    };
    ask("1 private, its token", &private, 7, None, peer(5));
    ask("2 private, another token", &private, 8, None, peer(5));
    ask("3 system, root", &users, 8, None, peer(0));
    ask("4 system, its user", &users, 8, None, peer(1000));
    ask("5 system, a member", &users, 8, None, Credentials { gid: 77, ..peer(5) });
    ask("6 system, an unknown user", &users, 8, None, peer(5));
    let kin = |owner| Some(Standing { owner, is_kin: true });
    let none = |owner| Some(Standing { owner, is_kin: false });
    ask("7 same user", &users, 8, none(5), peer(5));
    ask("8 another user", &users, 8, none(5), peer(6));
    ask("9 root's program that gave up its rights", &users, 8, kin(0), peer(33));
    let others = Admission::Users { uid: 1000, gid: Some(78), group: "others".to_owned() };
    ask("a a member by a supplementary group", &others, 8, None, peer(5));
    ask("b another user that has root's token", &users, 8, none(0), peer(33));
    let allowed: String = found.iter().filter(|(_, allowed)| **allowed).map(|(what, _)| &what[..1]).collect();
    assert_eq!(allowed, "134579a");
}
