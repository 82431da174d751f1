//! The interfaces that are served: opened at the start, and followed as they come, change and go.
//!
//! Promises: an interface that appears later, or gets its first address later, is served as if it had been there at the
//! start; one whose link address, MTU or number of queues changes gets a device that knows; one that goes is closed. What cannot be opened
//! is said once per change and stays with the kernel. If a service opens its devices on the first request (`readiness`),
//! nothing is open before. Does not do: addresses, routes, neighbors; see `follow`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use ringway_device::interface::Interface;
use ringway_device::steering::{Attachment, ExceptionPath};
use ringway_engine::{Gone, InterfaceInfo};
use ringway_stack::MacAddress;

use crate::classifiers::Classifiers;
use crate::config::rules::Rules;
use crate::config::{self, Config};
use crate::devices::{Devices, Opener, Told, wait_for_packets};
use crate::firewall::Gate;
use crate::follow::Served;
use crate::netlink::Snapshot;
use crate::plan::{Backend, Machine, Plan, Planned, named_links, plan};
use crate::policy::Policy;
use crate::ports::port_registry::WorkerPorts;
use crate::selftest;
use crate::supervise::StartError;
use crate::workers::Workers;

/// Ports that are shut at the same time, each for some hundred microseconds of looking.
const SHUT_MAX: usize = 16;

/// The properties of a link when its device was opened.
struct Open {
    mac: MacAddress,
    mtu: u16,
    /// The receive queues that there were, each of which has sockets of AF_XDP; `None`: the device is another one. Where a driver changes
    /// the number itself when AF_XDP comes, the device is opened once more, with what the driver has made of it.
    queues: Option<u32>,
    /// Dropping it gives the interface back to the kernel.
    _attachment: Option<Attachment>,
}

/// `None`: the interface is gone.
fn receive_queues(name: &str) -> Option<u32> {
    Interface::open(name).ok().map(|interface| interface.receive_queues)
}

/// See the module's text.
pub(crate) struct Interfaces {
    config: Config,
    machine: Machine,
    devices: Devices,
    workers: Workers,
    links: Served,
    /// By link.
    open: BTreeMap<u32, Open>,
    /// Links that stay with the kernel because of its rules.
    guarded: BTreeSet<u32>,
    gate: Gate,
    ports: WorkerPorts,
    /// At links, as they were when last looked at.
    foreign_programs: Classifiers,
    /// Nothing is open before a program wants it: the links that will be served then.
    asleep: Option<BTreeSet<u32>>,
    /// What rules mean has changed, and nothing follows it yet.
    is_news: bool,
}

/// What packets of every served interface meet.
pub(crate) struct Serving {
    pub(crate) devices: Devices,
    pub(crate) workers: Workers,
    pub(crate) links: Served,
    pub(crate) gate: Gate,
    pub(crate) ports: WorkerPorts,
}

impl Interfaces {
    /// `guarded`: links that stay with the kernel because of its rules.
    pub(crate) fn new(config: Config, machine: Machine, guarded: BTreeSet<u32>, serving: Serving) -> Interfaces {
        let Serving { devices, workers, links, gate, ports } = serving;
        let foreign_programs = machine.classifiers.clone();
        Interfaces {
            foreign_programs,
            config,
            machine,
            devices,
            workers,
            links,
            open: BTreeMap::new(),
            guarded,
            gate,
            ports,
            asleep: None,
            is_news: false,
        }
    }

    /// Opens nothing before [`wake`](Interfaces::wake), which then serves `planned` or says why not.
    ///
    /// # Errors
    /// The kernel refuses a program that the devices need.
    pub(crate) fn sleep(&mut self, planned: &[Planned]) -> io::Result<()> {
        self.devices.probe()?;
        self.asleep = Some(planned.iter().map(|planned| planned.link).collect());
        Ok(())
    }

    /// Opens what is to be served now; returns those links, or why there is none.
    ///
    /// # Blocking
    /// Until the workers have opened their devices.
    pub(crate) fn wake(&mut self, kernel: &Snapshot) -> Result<BTreeSet<u32>, String> {
        let promised = self.asleep.take().unwrap_or_default();
        let Plan { served, skipped } = plan(&self.config, kernel, &self.machine);
        let mut reasons: Vec<String> =
            skipped.into_iter().map(|skipped| format!("{} {}", skipped.name, skipped.reason)).collect();
        for planned in served {
            let is_new = !promised.contains(&planned.link);
            reasons.extend(self.open_and_tell(planned, is_new).err());
        }
        let opened = self.links();
        if opened.is_empty() { Err(StartError::NoInterface(reasons).to_string()) } else { Ok(opened) }
    }

    /// Opens the device of `planned` and reports what is unexpected: that it fails, or that the link `is_new`.
    fn open_and_tell(&mut self, planned: Planned, is_new: bool) -> Result<(), String> {
        let name = planned.name.clone();
        let opened = self.open(planned, MacAddress::default()).map_err(|error| format!("{name} cannot be opened: {error}"));
        match &opened {
            Ok(planned) => {
                if is_new {
                    tracing::info!(target: "ringway::interface", "serves {name} ({}) too", planned.device());
                }
                planned.note.iter().for_each(|note| tracing::warn!(target: "ringway::interface", "{note}"));
            }
            Err(text) => tracing::warn!(target: "ringway::interface", "{text}"),
        }
        opened.map(drop)
    }

    /// Opens the device of `planned`; returns it with what is known of the device now. Where AF_XDP fails its self-test, packet
    /// sockets serve. `random_mac`: the link address of an interface of its own.
    ///
    /// # Errors
    /// The device or a program cannot be opened; the text says why.
    ///
    /// # Blocking
    /// Until the workers have opened it.
    pub(crate) fn open(&mut self, planned: Planned, random_mac: MacAddress) -> io::Result<Planned> {
        let is_replaced = self.links.interface(planned.link).is_some();
        // The program of AF_XDP goes with the old device: the kernel would reset connections in the moment before the new one is open.
        let hidden = if is_replaced { self.devices.hide(planned.link)? } else { None };
        let opened = self.open_or_instead(planned, random_mac);
        if hidden.is_some() {
            // `Err`: then what is on its way now may be visible.
            wait_for_packets().ok();
        }
        opened
    }

    fn open_or_instead(&mut self, planned: Planned, random_mac: MacAddress) -> io::Result<Planned> {
        match self.open_as_planned(planned.clone(), random_mac) {
            Err(error) if selftest::is_failure(&error) && !planned.must_pass => {
                let instead = Planned { backend: Backend::Packet, reason: "AF_XDP failed its self-test", ..planned };
                let note = format!("{}: {error}; packet sockets serve it", instead.name);
                self.open_as_planned(instead, random_mac).map(|opened| Planned { note: Some(note), ..opened })
            }
            result => result,
        }
    }

    fn open_as_planned(&mut self, mut planned: Planned, random_mac: MacAddress) -> io::Result<Planned> {
        let owned = planned.backend == Backend::Tap;
        let info = info(&planned, if owned { random_mac } else { planned.mac });
        let queues = if planned.backend == Backend::Xdp { receive_queues(&planned.name) } else { None };
        let Opener { open, attachment, told } = self.devices.opener(&planned)?;
        let number = match self.links.interface(planned.link) {
            Some(number) => self.workers.replace_interface(number, &info, open).map(|()| number)?,
            None => self.workers.add_interface(&info, open)?,
        };
        self.links.insert(planned.link, number);
        let (mac, mtu) = (planned.mac, planned.mtu);
        self.open.insert(planned.link, Open { mac, mtu, queues, _attachment: attachment });
        self.workers.set_addresses(number, &planned.addresses)?;
        if let Some(Told { detail, note }) = told.get() {
            (planned.detail, planned.note) = (detail.clone(), note.clone());
        }
        Ok(planned)
    }

    /// The links that are open now.
    pub(crate) fn links(&self) -> BTreeSet<u32> {
        self.open.keys().copied().collect()
    }

    /// Follows the links that have changed; returns those that are served since.
    pub(crate) fn follow(&mut self, kernel: &Snapshot, changed: &BTreeSet<u32>) -> BTreeSet<u32> {
        for link in changed.iter().filter(|link| !kernel.links.contains_key(link)) {
            self.close(*link);
        }
        let mut opened = BTreeSet::new();
        if self.asleep.is_some() || changed.iter().all(|link| !kernel.links.contains_key(link)) {
            return opened;
        }
        for planned in plan(&self.config, kernel, &self.machine).served {
            let link = planned.link;
            if !changed.contains(&link) || self.is_open_as(&planned) {
                continue;
            }
            let is_new = !self.open.contains_key(&link);
            if self.open_and_tell(planned, is_new).is_ok() && is_new {
                opened.insert(link);
            }
        }
        opened
    }

    /// Which rules of the configuration are in force.
    pub(crate) fn policy(&self) -> Policy {
        self.gate.policy().clone()
    }

    /// What of this configuration can change holds from now on.
    ///
    /// # Errors
    /// A worker has stopped, or the kernel refuses a number.
    pub(crate) fn follow_config(&mut self, config: &Config) -> io::Result<()> {
        let (most, now) = (config.limits.kernel_packets_per_second, &mut self.config.limits.kernel_packets_per_second);
        if std::mem::replace(now, most) != most {
            self.limit_exceptions(most)?;
        }
        self.set_meaning(&config.policy);
        Ok(self.set_rules(config.rules())?)
    }

    /// These rules of the configuration are in force from now on.
    ///
    /// # Errors
    /// A worker has stopped.
    fn set_rules(&self, rules: &Rules) -> Result<(), Gone> {
        if self.gate.policy().install(rules) { self.workers.rules_changed() } else { Ok(()) }
    }

    /// What the kernel may get of ports that are served; `None`: it sees none of them.
    pub(crate) fn exception_path(&self) -> Option<Arc<ExceptionPath>> {
        self.devices.exception_path()
    }

    /// The kernel may get so many packets of those a second from now on; 0: all.
    ///
    /// # Errors
    /// The kernel refuses; it gets as many as before.
    pub(crate) fn limit_exceptions(&self, packets_per_second: u32) -> io::Result<()> {
        self.exception_path().map_or(Ok(()), |path| path.set_most(packets_per_second))
    }

    /// The kernel's rules mean this from now on; the thread that follows the kernel sees to it.
    fn set_meaning(&mut self, new: &config::Policy) {
        let policy = &mut self.config.policy;
        if (policy.firewall, policy.routing) != (new.firewall, new.routing) {
            (policy.firewall, policy.routing) = (new.firewall, new.routing);
            self.is_news = true;
            self.links.note_work();
        }
    }

    /// Returns true once after [`set_meaning`](Interfaces::set_meaning) has changed something.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    /// Rules of the configuration may name interfaces, whose addresses have changed.
    ///
    /// # Errors
    /// A worker has stopped.
    pub(crate) fn follow_addresses(&self, kernel: &Snapshot) -> Result<(), Gone> {
        if self.gate.policy().follow(kernel) { self.workers.rules_changed() } else { Ok(()) }
    }

    /// Rules that packets of the stack do not obey, or the links that they name, have changed: ports and connections are judged
    /// again; an interface for which that is impossible now goes back to the kernel, one that they leave alone again is served.
    /// Returns those that are served since.
    ///
    /// # Blocking
    /// While the kernel lists its rules.
    pub(crate) fn follow_rules(&mut self, kernel: &Snapshot) -> BTreeSet<u32> {
        self.machine = Machine { lacks_packet: self.machine.lacks_packet, ..Machine::now(&self.config, kernel) };
        self.foreign_programs.clone_from(&self.machine.classifiers);
        let plan = plan(&self.config, kernel, &self.machine);
        self.devices.tell_kept(&plan);
        if self.gate.install(self.config.policy.firewall, self.machine.rules.clone(), named_links(&plan)) {
            // `Err`: a worker has stopped.
            self.workers.rules_changed().ok();
        }
        let guarded = guarded(&plan, kernel);
        for (link, reason) in &guarded {
            let is_promised = self.asleep.as_mut().is_some_and(|promised| promised.remove(link));
            if is_promised || self.open.contains_key(link) {
                self.close(*link);
                tracing::warn!(target: "ringway::interface", "serves {} no more: it {reason}", kernel.links[link].name);
            }
        }
        // The number of an interface that is closed may name another one next: no route may lead there.
        self.links.push_routes(kernel, &self.workers).ok();
        let freed = self.guarded.iter().filter(|link| !guarded.contains_key(link)).copied().collect();
        self.guarded = guarded.into_keys().collect();
        self.hold_ports(kernel, &freed);
        self.follow(kernel, &freed)
    }

    /// Returns true when programs or filters of others have changed, and are the same as when last asked: one that is there for a
    /// moment does not count.
    ///
    /// # Blocking
    /// While the kernel lists them.
    pub(crate) fn classifiers_changed(&mut self, kernel: &Snapshot) -> bool {
        let now = Classifiers::read(&self.config, kernel);
        let last = std::mem::replace(&mut self.foreign_programs, now);
        self.foreign_programs == last && self.foreign_programs != self.machine.classifiers
    }

    /// Returns true while programs or filters of others keep interfaces from being served; no worker works then, so time tells when to look.
    pub(crate) fn knows_foreign_programs(&self) -> bool {
        self.machine.classifiers.object() || self.foreign_programs.object()
    }

    /// While these links were the kernel's, it has accepted connections there: nothing steers their packets to the stack before they end,
    /// also where a connection of the stack's that ended long ago still has the port.
    fn hold_ports(&self, kernel: &Snapshot, freed: &BTreeSet<u32>) {
        let ips: Vec<IpAddr> = freed.iter().flat_map(|link| kernel.addresses_of(*link)).map(|cidr| cidr.ip).collect();
        if !ips.is_empty() {
            self.gate.hold(&ips);
            // `Err`: a worker has stopped.
            self.workers.rules_changed().ok();
        }
    }

    /// Returns true if ports wait until the kernel's connections of them are known; see [`release_ports`](Interfaces::release_ports).
    pub(crate) fn holds_ports(&self) -> bool {
        self.gate.holds()
    }

    /// Ports that wait are served once the filters know the kernel's connections of them. The kernel may accept one in the moment between the
    /// look and the workers' part, so packets come to neither meanwhile; their senders repeat them. Those of which the kernel has more
    /// than the filters have room for, or does not say which, wait until that changes.
    ///
    /// # Blocking
    /// Until the workers serve them.
    pub(crate) fn release_ports(&self) {
        let held: Vec<_> = self.gate.held().into_iter().collect();
        // `Err`: no descriptor is left. The next look is in a second.
        let Some(mut steering) = self.devices.steering().ok().filter(|_| !held.is_empty()) else { return };
        let mut is_known = |&(ip, port): &(IpAddr, u16)| steering.leave_connections(ip, port, usize::MAX).unwrap_or_default();
        for some in held.chunks(SHUT_MAX) {
            // What is known is quickly known again, and what is not need not be shut.
            let some: BTreeSet<_> = some.iter().copied().filter(&mut is_known).collect();
            if some.is_empty() {
                continue;
            }
            self.ports.shut(&some);
            let known: BTreeSet<_> = some.iter().copied().filter(&mut is_known).collect();
            self.ports.note_ready(&known);
            self.gate.let_go(&known);
            // `Err`: a worker has stopped.
            self.workers.rules_changed().ok();
            self.ports.unshut(&some);
        }
    }

    fn is_open_as(&self, planned: &Planned) -> bool {
        let has_all = |queues: u32| receive_queues(&planned.name).is_none_or(|now| now == queues);
        let is_same = |open: &Open| open.mac == planned.mac && open.mtu == planned.mtu && open.queues.is_none_or(has_all);
        self.open.get(&planned.link).is_some_and(is_same)
    }

    fn close(&mut self, link: u32) {
        if let (Some(_), Some(number)) = (self.open.remove(&link), self.links.interface(link)) {
            self.links.remove(link);
            // `Err`: a worker has stopped, and its devices with it.
            self.workers.remove_interface(number).ok();
        }
    }
}

/// The links that stay with the kernel because of its rules, and why.
pub(crate) fn guarded(plan: &Plan, kernel: &Snapshot) -> BTreeMap<u32, String> {
    let guarded = plan.skipped.iter().filter(|skipped| skipped.guard.is_some());
    guarded.filter_map(|skipped| Some((kernel.link_named(&skipped.name)?.index, skipped.reason.clone()))).collect()
}

fn info(planned: &Planned, mac: MacAddress) -> InterfaceInfo {
    InterfaceInfo {
        name: planned.name.clone(),
        mac,
        mtu: planned.mtu,
        owned: planned.backend == Backend::Tap,
        autoconfiguration: planned.autoconfiguration,
        vlan: planned.vlan,
        kernel_number: planned.link,
    }
}
