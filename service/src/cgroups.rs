//! BPF programs of cgroups: the kernel runs them for the sockets of processes in a cgroup, and the stack does not.
//!
//! ```text
//!   broker: pids -> thread "ringway-cgroups": /proc/PID/cgroup -> directory -> BPF_PROG_QUERY, each type -> Finding
//! ```
//! systemd makes IPAddressDeny=, IPAccounting= and RestrictNetworkInterfaces= of programs at ingress and egress. Programs that see a
//! socket's making and its bind are left to the kernel, where the library makes and binds a socket for each (SocketBindDeny=).
//! Promises: what cannot be found out is an objection with a reason. Does not do: telling when programs or processes change cgroups; the
//! broker asks again. The thread alone holds the right to ask.

mod hierarchy;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use ringway_channel::KernelReason;
use ringway_device::steering::attached::in_force;
use ringway_engine::Guard;
use rustix::thread::CapabilitySet;

use crate::config::{Config, DeviceChoice, RuleChoice};
use crate::live::Live;
use crate::privileges;
use hierarchy::{Hierarchy, Place, may_hide, place_of};

/// The remedy for a caller that may not ask.
pub(crate) const REMEDY: &str = "it takes CAP_NET_ADMIN in the first user namespace";

/// The word of programs' logs and of `ringway ss`.
const WORD: &str = KernelReason::CgroupProgram.word();
const UNREADABLE: &str = "BPF programs of cgroups cannot be read";

/// Types of programs that the stack goes around (enum bpf_attach_type), their names as bpftool has them, and what they see. An IPv6 socket
/// may be connected to an IPv4 address, so what sees IPv6 sockets concerns both.
const KINDS: [(u32, &str, Guard); 16] = [
    (0, "cgroup_inet_ingress", Guard::PACKETS),
    (1, "cgroup_inet_egress", Guard::PACKETS),
    (3, "cgroup_sock_ops", TCP),
    (10, "cgroup_inet4_connect", CONNECT_IPV4),
    (11, "cgroup_inet6_connect", CONNECT),
    (14, "cgroup_udp4_sendmsg", Guard::DATAGRAM_IPV4),
    (15, "cgroup_udp6_sendmsg", DATAGRAM),
    (19, "cgroup_udp4_recvmsg", Guard::DATAGRAM_IPV4),
    (20, "cgroup_udp6_recvmsg", DATAGRAM),
    (21, "cgroup_getsockopt", Guard::SOCKETS),
    (22, "cgroup_setsockopt", Guard::SOCKETS),
    (29, "cgroup_inet4_getpeername", IPV4),
    (30, "cgroup_inet6_getpeername", Guard::SOCKETS),
    (31, "cgroup_inet4_getsockname", IPV4),
    (32, "cgroup_inet6_getsockname", Guard::SOCKETS),
    (43, "lsm_cgroup", Guard::SOCKETS),
];
const DATAGRAM: Guard = Guard::DATAGRAM_IPV4.and(Guard::DATAGRAM_IPV6);
const CONNECT_IPV4: Guard = Guard::CONNECT_IPV4.and(Guard::DATAGRAM_IPV4);
const CONNECT: Guard = Guard::CONNECT_IPV4.and(Guard::CONNECT_IPV6).and(DATAGRAM);
const TCP: Guard = Guard::CONNECT_IPV4.and(Guard::CONNECT_IPV6).and(Guard::LISTEN_IPV4).and(Guard::LISTEN_IPV6);
const IPV4: Guard = Guard::LISTEN_IPV4.and(CONNECT_IPV4);

/// The parts of a process's sockets that programs see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) guard: Guard,
    /// The cgroup and the types, or why that is not known.
    pub(crate) why: String,
}

impl Finding {
    /// Unknown means the kernel, which knows.
    fn unknown(why: String) -> Finding {
        Finding { guard: Guard::PACKETS, why }
    }
}

struct Question {
    pids: Vec<u32>,
    answer: SyncSender<Vec<Finding>>,
}

/// Asks the thread.
#[derive(Clone)]
pub(crate) struct Cgroups {
    choice: Live<RuleChoice>,
    questions: Option<Sender<Question>>,
}

impl Cgroups {
    /// Starts the thread, which ends with the last copy of what is returned. To be called while CAP_NET_ADMIN is there.
    pub(crate) fn start(choice: Live<RuleChoice>, reader: Option<Reader>) -> io::Result<(Cgroups, Option<JoinHandle<()>>)> {
        let Some(reader) = reader else { return Ok((Cgroups { choice, questions: None }, None)) };
        let (questions, queue) = channel();
        let thread = privileges::spawn_with(CapabilitySet::NET_ADMIN, "ringway-cgroups", move || serve(&reader, &queue))?;
        Ok((Cgroups { choice, questions: Some(questions) }, Some(thread)))
    }

    /// For services that do not ask.
    #[cfg(test)]
    pub(crate) fn off() -> Cgroups {
        Cgroups { choice: RuleChoice::Ignore.into(), questions: None }
    }

    /// Returns true if there is anything to ask.
    pub(crate) fn is_on(&self) -> bool {
        self.questions.is_some() && self.choice.get() != RuleChoice::Ignore
    }

    /// Returns true if what is seen is the kernel's.
    pub(crate) fn is_respected(&self) -> bool {
        self.choice.get() == RuleChoice::Respect
    }

    /// The parts of each process's sockets that are seen.
    ///
    /// # Blocking
    /// While the thread asks the kernel, tens of microseconds for a process.
    pub(crate) fn of(&self, pids: Vec<u32>) -> Vec<Finding> {
        let Some(questions) = self.questions.as_ref().filter(|_| self.is_on()) else { return Vec::new() };
        let (answer, found) = sync_channel(1);
        let count = pids.len();
        let asked = questions.send(Question { pids, answer });
        let found = asked.ok().and_then(|()| found.recv().ok());
        found.unwrap_or_else(|| vec![Finding::unknown("the thread that reads cgroups has ended".to_owned()); count])
    }

    /// A line for programs that this process has started, if anything of them is seen.
    pub(crate) fn of_this_process(&self) -> Result<(), String> {
        let found = self.of(vec![std::process::id()]).pop().unwrap_or_default();
        if found.guard.is_empty() { Ok(()) } else { Err(self.sentence("programs started here", &found)) }
    }

    /// The line for a program whose sockets are seen.
    pub(crate) fn sentence(&self, program: &str, finding: &Finding) -> String {
        let why = &finding.why;
        match self.is_respected() {
            true => format!("the kernel serves sockets of {program} ({WORD}): {why}: see policy.firewall"),
            false => format!("BPF programs do not see sockets of {program} that Ringway serves: {why}"),
        }
    }
}

/// The effect of BPF programs of cgroups on a program that the caller starts.
pub struct Described {
    /// In words.
    pub line: String,
    /// The remedy, where its sockets are the kernel's, or would be but for the configuration.
    pub remedy: Option<&'static str>,
}

/// See [`Described`].
pub fn describe_caller(config: &Config) -> Described {
    let fine = |line: &str| Described { line: line.to_owned(), remedy: None };
    if config.policy.firewall == RuleChoice::Ignore {
        return fine("BPF programs of cgroups are not looked at: see policy.firewall");
    }
    let Some(reader) = Reader::of(config) else {
        return fine("no cgroup2 file system is in use, so that no cgroup has BPF programs");
    };
    if let Some(line) = reader.ignorance() {
        return Described {
            line,
            remedy: (!reader.is_lenient).then_some("mount cgroup2 where the service runs, or give it CAP_NET_ADMIN"),
        };
    }
    let found = reader.look(std::process::id(), &mut BTreeMap::new());
    if found.guard.is_empty() {
        return fine("this process's cgroup has no BPF programs that see sockets or packets");
    }
    let cgroups = Cgroups { choice: config.policy.firewall.into(), questions: None };
    let line = cgroups.sentence("programs started here", &found);
    Described { line, remedy: Some("start programs in another cgroup (systemd-run --scope)") }
}

/// The cgroup of a process, from the root of version 2; `None`: it cannot be known.
pub(crate) fn name_of(pid: u32) -> Option<String> {
    match place_of(pid) {
        Ok(Some(Place::Cgroup(name))) => Some(name),
        _ => None,
    }
}

fn serve(reader: &Reader, queue: &Receiver<Question>) {
    while let Ok(Question { pids, answer }) = queue.recv() {
        let mut known = BTreeMap::new();
        // `Err`: the broker has ended.
        answer.send(pids.into_iter().map(|pid| reader.look(pid, &mut known)).collect()).ok();
    }
}

/// Looks at cgroups. To be made before rights are given up: see [`Hierarchy::open`].
pub(crate) struct Reader {
    hierarchy: io::Result<Hierarchy>,
    choice: RuleChoice,
    /// A service that has no right to ask serves all the same: its interface is its own.
    is_lenient: bool,
}

impl Reader {
    /// `None`: there can be no programs. The operator may want no look now, and one later.
    pub(crate) fn of(config: &Config) -> Option<Reader> {
        let choice = config.policy.firewall;
        let is_lenient = config.interface.device == DeviceChoice::Tap;
        Hierarchy::open().map(|hierarchy| Reader { hierarchy, choice, is_lenient })
    }

    /// That nothing can be known, and what follows, a line; nothing where no look is wanted.
    pub(crate) fn ignorance(&self) -> Option<String> {
        if self.choice == RuleChoice::Ignore {
            return None;
        }
        let error = self.types(&Place::Cgroup("/".to_owned())).err()?;
        Some(match self.choice == RuleChoice::Respect && !(self.is_lenient && is_refusal(&error)) {
            true => format!("the kernel serves all sockets ({WORD}): {UNREADABLE}: {error}: see policy.firewall"),
            false => format!("{UNREADABLE}, and do not see what Ringway serves: {error}"),
        })
    }

    fn look(&self, pid: u32, known: &mut BTreeMap<Place, Finding>) -> Finding {
        match place_of(pid) {
            Ok(Some(place)) => known.entry(place).or_insert_with_key(|place| self.examine(place)).clone(),
            // It is dead.
            Ok(None) => Finding::default(),
            Err(error) => Finding::unknown(format!("the cgroup of process {pid} cannot be read: {error}")),
        }
    }

    fn examine(&self, place: &Place) -> Finding {
        let of = match place {
            Place::Cgroup(name) => format!("its cgroup {name}"),
            Place::Hidden => "some cgroup, of which it is not known that the program is not in it,".to_owned(),
        };
        match self.types(place) {
            Ok(types) => {
                let guard = types.iter().fold(Guard::NOTHING, |sum, kind| sum | KINDS[*kind].2);
                let names: Vec<&str> = types.iter().map(|kind| KINDS[*kind].1).collect();
                Finding { guard, why: format!("{of} has BPF programs ({})", names.join(", ")) }
            }
            // The cgroup has ended, and its processes have moved or died.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Finding::default(),
            Err(error) if self.is_lenient && is_refusal(&error) => Finding::default(),
            Err(error) => Finding::unknown(format!("BPF programs of {of} cannot be read: {error}")),
        }
    }

    /// Which of [`KINDS`] are in force.
    fn types(&self, place: &Place) -> io::Result<BTreeSet<usize>> {
        let hierarchy = self.hierarchy.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        let mut found = BTreeSet::new();
        match place {
            Place::Cgroup(name) => types_at(hierarchy.directory(name)?.as_fd(), &mut found)?,
            Place::Hidden => hierarchy.for_each(&mut |directory| match may_hide(directory) {
                true => types_at(directory, &mut found),
                false => Ok(()),
            })?,
        }
        Ok(found)
    }
}

fn types_at(directory: BorrowedFd<'_>, found: &mut BTreeSet<usize>) -> io::Result<()> {
    for (number, (kind, ..)) in KINDS.iter().enumerate() {
        if in_force(directory, *kind).map_err(with_remedy)? > 0 {
            found.insert(number);
        }
    }
    Ok(())
}

fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn with_remedy(error: io::Error) -> io::Error {
    if is_refusal(&error) { io::Error::new(error.kind(), format!("{error}; {REMEDY}")) } else { error }
}

#[cfg(test)]
mod tests;
