//! Answers of the rules to workers: whether a port may be served or a connection opened, and on which terms. Rules of the configuration
//! (`config::rules`) are asked before those of the packet filters.
//!
//! Answers are kept until the rules or the links change, and what holds for all connections is found out when they do: a worker
//! that opens a connection takes a lock that is held briefly, and looks at rules only where they tell peers apart.
//! A port that comes back from the kernel waits until the filters know the kernel's connections of it, whose packets would come to the stack.
//! Promises: what is asked never waits for the kernel. Does not do: telling workers that the rules have changed.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use ringway_channel::KernelReason;
use ringway_engine::{Transport, Verdict};

use super::{Beginning, Flow, Judgment, Link, LocalPort, Ruleset};
use crate::config::RuleChoice;
use crate::policy::Policy;
use crate::ports::listeners::listening;

/// The first of the ports that are judged together.
const UPPER: u16 = 0x8000;
/// Answers that are kept at most of each kind.
const KEPT_MAX: usize = 16_384;
/// Lines about ports that are said for one set of rules.
const LINES_MAX: usize = 32;

/// See the module's text.
#[derive(Clone)]
pub(crate) struct Gate {
    /// Those of the configuration.
    policy: Policy,
    now: Arc<RwLock<Arc<Rules>>>,
    /// Ports of TCP that a worker could not own for the number of the kernel's connections.
    many: Arc<Mutex<BTreeSet<(IpAddr, u16)>>>,
    on_hold: Arc<OnHold>,
}

/// Called in a worker's thread when a port waits from now on; must not block.
pub(crate) type OnHold = dyn Fn() + Send + Sync;

/// A port of TCP that any peer may connect to.
const PORT: Flow = Flow {
    transport: Transport::Tcp,
    beginning: Beginning::Theirs,
    is_ipv4: true,
    ip: None,
    port: LocalPort::Upper,
    peer: None,
    peer_port: None,
};

/// A link that is served: number and name.
pub(crate) type NamedLink = (u32, String);

/// The rules that are in force, and what was found out.
#[derive(Default)]
struct Rules {
    choice: RuleChoice,
    ruleset: Arc<Ruleset>,
    links: Vec<NamedLink>,
    /// For IPv4 and IPv6: whether every connection from an upper port may be opened.
    all_open: [bool; 2],
    /// The same of every upper port of UDP; the words: none may be served.
    all_datagrams: [Option<Result<(), String>>; 2],
    ports: Mutex<HashMap<(Transport, IpAddr, u16), Option<String>>>,
    /// By local address and remote port: whether all such connections from upper ports may be opened.
    peers: Mutex<HashMap<(IpAddr, u16), bool>>,
    said: Mutex<BTreeSet<(Transport, Beginning, u16)>>,
    /// Addresses and ports of TCP that may be served when the kernel's connections of them are known.
    held: BTreeSet<(IpAddr, u16)>,
}

impl Gate {
    /// With the rules that are in force at the start.
    pub(crate) fn new(choice: RuleChoice, ruleset: Arc<Ruleset>, links: Vec<NamedLink>) -> Gate {
        let now = Arc::new(RwLock::new(Arc::new(Rules::new(choice, ruleset, links))));
        Gate { policy: Policy::default(), now, many: Arc::default(), on_hold: Arc::new(|| {}) }
    }

    /// The same behind these rules of the configuration; `on_hold` looks after ports that wait.
    pub(crate) fn behind(self, policy: Policy, on_hold: Arc<OnHold>) -> Gate {
        Gate { policy, on_hold, ..self }
    }

    /// From now on these rules count, as `choice` says; ports that come back from the kernel are held until [`let_go`](Gate::let_go).
    /// `false`: nothing is different from before.
    pub(crate) fn install(&self, choice: RuleChoice, ruleset: Arc<Ruleset>, links: Vec<NamedLink>) -> bool {
        let before = self.rules();
        if before.choice == choice && before.ruleset == ruleset && before.links == links {
            return false;
        }
        let mut rules = Rules::new(choice, ruleset, links);
        let comes_back = |(ip, port): &(IpAddr, u16)| rules.refusal_of_port(Transport::Tcp, *ip, *port).is_none();
        let held = before.kernels().into_iter().filter(comes_back).collect();
        rules.held = held;
        self.put(rules);
        true
    }

    /// The kernel has listened at these addresses, which are about to be served: its connections go on.
    pub(crate) fn hold(&self, ips: &[IpAddr]) {
        let before = self.rules();
        let ports = listening();
        let held = ips.iter().flat_map(|ip| ports.iter().map(|port| (*ip, *port))).chain(before.held.iter().copied()).collect();
        self.hold_only(&before, held);
    }

    /// The kernel has many connections of this port, which is about to be served. A worker says so.
    pub(crate) fn hold_port(&self, ip: IpAddr, port: u16) {
        lock(&self.many).insert((ip, port));
        (self.on_hold)();
    }

    /// Returns true if [`hold_port`](Gate::hold_port) has named the port and [`let_go`](Gate::let_go) has not.
    pub(crate) fn waits(&self, ip: IpAddr, port: u16) -> bool {
        lock(&self.many).contains(&(ip, port))
    }

    /// Returns true if ports wait until the kernel's connections of them are known.
    pub(crate) fn holds(&self) -> bool {
        !self.rules().held.is_empty() || !lock(&self.many).is_empty()
    }

    /// Those that wait.
    pub(crate) fn held(&self) -> BTreeSet<(IpAddr, u16)> {
        let many = lock(&self.many);
        self.rules().held.union(&many).copied().collect()
    }

    /// These may be served from now on.
    pub(crate) fn let_go(&self, known: &BTreeSet<(IpAddr, u16)>) {
        let before = self.rules();
        self.hold_only(&before, before.held.difference(known).copied().collect());
        lock(&self.many).retain(|end| !known.contains(end));
    }

    fn hold_only(&self, before: &Rules, held: BTreeSet<(IpAddr, u16)>) {
        let said = Mutex::new(lock(&before.said).clone());
        self.put(Rules { held, said, ..Rules::new(before.choice, before.ruleset.clone(), before.links.clone()) });
    }

    fn put(&self, rules: Rules) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// The rules of the configuration.
    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Judges a port of the machine's, whatever peer its packets are of.
    pub(crate) fn judge_port(&self, transport: Transport, ip: IpAddr, port: u16) -> Verdict {
        match self.policy.rules().judge_port(transport, ip, port) {
            Verdict::Serve(terms) => self.objection_to_port(transport, ip, port).map_or(Verdict::Serve(terms), Verdict::Kernel),
            refused => refused,
        }
    }

    /// Why the packet filters leave a port to the kernel.
    pub(crate) fn objection_to_port(&self, transport: Transport, ip: IpAddr, port: u16) -> Option<KernelReason> {
        let rules = self.rules();
        if transport == Transport::Tcp && rules.held.contains(&(ip, port)) {
            return Some(KernelReason::PortWaits);
        }
        let why = rules.objection_to_port(transport, ip, port)?;
        (!self.hear(&rules, (transport, Beginning::Theirs, port), &why)).then_some(KernelReason::Firewall)
    }

    /// Judges a connection that is opened.
    pub(crate) fn judge_connection(&self, local: SocketAddr, peer: SocketAddr) -> Verdict {
        match self.policy.rules().judge_connection(local, peer) {
            Verdict::Serve(terms) => self.objection_to_connection(local, peer).map_or(Verdict::Serve(terms), Verdict::Kernel),
            refused => refused,
        }
    }

    /// Why the packet filters leave a connection that is opened to the kernel.
    pub(crate) fn objection_to_connection(&self, local: SocketAddr, peer: SocketAddr) -> Option<KernelReason> {
        let rules = self.rules();
        let why = rules.objection_to_connection(local, peer)?;
        (!self.hear(&rules, (Transport::Tcp, Beginning::Ours, peer.port()), &why)).then_some(KernelReason::Firewall)
    }

    /// Describes the verdict of the rules on connections and on ports of TCP, a line each; nothing where there are no rules.
    pub(crate) fn describe(&self, ports: &BTreeSet<u16>) -> Vec<String> {
        let rules = self.rules();
        if rules.ruleset.is_empty() || rules.links.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![match rules.all_open {
            [true, true] => "connections to others pass and are served".to_owned(),
            _ => "connections to others are judged one by one".to_owned(),
        }];
        for &port in ports {
            let families = [true, false].map(|is_ipv4| Flow { is_ipv4, port: LocalPort::Is(port), ..PORT });
            let why = families.into_iter().find_map(|flow| rules.judge(flow).objection());
            lines.push(match why {
                None => format!("TCP port {port} passes and is served"),
                Some(why) => sentence((Transport::Tcp, Beginning::Theirs, port), rules.serves_all(), &why),
            });
        }
        lines
    }

    /// Returns true if an objection does not matter; an operator is told once for a port.
    fn hear(&self, rules: &Rules, about: (Transport, Beginning, u16), why: &str) -> bool {
        let serves = rules.serves_all();
        let about = (about.0, about.1, about.2.min(UPPER));
        let mut said = lock(&rules.said);
        if said.len() < LINES_MAX && said.insert(about) {
            tracing::warn!(target: "ringway::firewall", "{}", sentence(about, serves, why));
        }
        serves
    }

    fn rules(&self) -> Arc<Rules> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn sentence((transport, beginning, port): (Transport, Beginning, u16), serves: bool, why: &str) -> String {
    let transport = if transport == Transport::Tcp { "TCP" } else { "UDP" };
    let port = if port == UPPER { format!("ports from {UPPER} up") } else { format!("port {port}") };
    let what = match beginning {
        Beginning::Theirs => format!("{transport} {port}"),
        Beginning::Ours => format!("connections to {transport} {port}"),
    };
    match serves {
        true => format!("packets of {what} do not pass the firewall ({why})"),
        false => format!("the kernel serves {what}: the firewall does not let all packets pass ({why}): see policy.firewall"),
    }
}

impl Rules {
    fn new(choice: RuleChoice, ruleset: Arc<Ruleset>, links: Vec<NamedLink>) -> Rules {
        let mut rules = Rules { choice, ruleset, links, ..Rules::default() };
        let upper = |transport, beginning, is_ipv4| Flow { transport, beginning, is_ipv4, ..PORT };
        let families = [true, false];
        rules.all_open = families.map(|v4| rules.judge(upper(Transport::Tcp, Beginning::Ours, v4)) == Judgment::Accept);
        rules.all_datagrams = families.map(|v4| match rules.judge(upper(Transport::Udp, Beginning::Theirs, v4)) {
            Judgment::Accept => Some(Ok(())),
            Judgment::Refuse(why) => Some(Err(why)),
            Judgment::Unknown(_) => None,
        });
        rules
    }

    /// Returns true if an objection does not matter.
    fn serves_all(&self) -> bool {
        self.choice != RuleChoice::Respect
    }

    /// The objection to a port, where objections matter.
    fn refusal_of_port(&self, transport: Transport, ip: IpAddr, port: u16) -> Option<String> {
        if self.serves_all() { None } else { self.objection_to_port(transport, ip, port) }
    }

    /// Addresses and ports of TCP that have been the kernel's.
    fn kernels(&self) -> BTreeSet<(IpAddr, u16)> {
        let ports = lock(&self.ports);
        let is_kernels = |((transport, ..), objection): &(&(Transport, IpAddr, u16), &Option<String>)| {
            *transport == Transport::Tcp && objection.is_some() && !self.serves_all()
        };
        let refused = ports.iter().filter(is_kernels);
        refused.map(|((_, ip, port), _)| (*ip, *port)).chain(self.held.iter().copied()).collect()
    }

    /// Returns the verdict of the rules on all links: packets of a port come by any of them.
    fn judge(&self, flow: Flow) -> Judgment {
        let mut unknown = None;
        for (index, name) in &self.links {
            match self.ruleset.judge(Link { index: *index, name }, flow) {
                Judgment::Accept => {}
                Judgment::Refuse(why) => return Judgment::Refuse(why),
                Judgment::Unknown(why) => unknown = unknown.or(Some(why)),
            }
        }
        unknown.map_or(Judgment::Accept, Judgment::Unknown)
    }

    fn objection_to_port(&self, transport: Transport, ip: IpAddr, port: u16) -> Option<String> {
        if self.ruleset.is_empty() && self.ruleset.objection().is_none() {
            return None;
        }
        let all = &self.all_datagrams[usize::from(ip.is_ipv6())];
        if let (Transport::Udp, Some(answer), UPPER..) = (transport, all, port) {
            return answer.clone().err();
        }
        let key = (transport, ip, port);
        if let Some(known) = lock(&self.ports).get(&key) {
            return known.clone();
        }
        let flow = Flow { transport, is_ipv4: ip.is_ipv4(), ip: Some(ip), port: LocalPort::Is(port), ..PORT };
        let found = self.judge(flow).objection();
        keep(&self.ports, key, found.clone());
        found
    }

    fn objection_to_connection(&self, local: SocketAddr, peer: SocketAddr) -> Option<String> {
        let is_upper = local.port() >= UPPER;
        if is_upper && self.all_open[usize::from(local.is_ipv6())] {
            return None;
        }
        let flow = Flow {
            beginning: Beginning::Ours,
            is_ipv4: local.is_ipv4(),
            ip: Some(local.ip()),
            peer_port: Some(peer.port()),
            ..PORT
        };
        let key = (local.ip(), peer.port());
        let known = lock(&self.peers).get(&key).copied();
        let all_pass = is_upper
            && known.unwrap_or_else(|| {
                let all_pass = self.judge(flow) == Judgment::Accept;
                keep(&self.peers, key, all_pass);
                all_pass
            });
        match all_pass {
            true => None,
            false => self.judge(Flow { port: LocalPort::Is(local.port()), peer: Some(peer.ip()), ..flow }).objection(),
        }
    }
}

/// Keeps an answer; when there are too many, the others are found out again.
fn keep<K: std::hash::Hash + Eq, V>(kept: &Mutex<HashMap<K, V>>, key: K, value: V) {
    let mut kept = lock(kept);
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
    kept.insert(key, value);
}

/// Takes a lock even after a panic: the value behind it is whole after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
