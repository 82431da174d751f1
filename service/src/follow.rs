//! Keeps the workers' addresses, routes and neighbors equal to the kernel's, in a thread of its own.
//!
//! Promises: after [`Served::push_all`] the workers know what the mirror knew; every later
//! difference follows, and changes of packet filters and of cards' settings are told to `interfaces`. Wakes by itself only while ports wait for the
//! end of the kernel's connections. Does not do: open devices.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use ringway_device::interface::SettingsWatch;
use ringway_engine::Gone;
use ringway_stack::Route;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::firewall::Watch;
use crate::interfaces::Interfaces;
use crate::netlink::{Differences, LinkRoute, Mirror, NO_LINK, Snapshot};
use crate::plan::{is_neighbor, is_served};
use crate::readiness::Readiness;
use crate::workers::Workers;

/// Routes that leave through an interface that is not served name this one, so that the workers
/// know that they are not their own.
pub(crate) const NOT_SERVED: u32 = u32::MAX;

/// Time between looks at what no message tells: whether ports, or interfaces with programs of others, can be served again.
const AGAIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Which of the kernel's links are which of the workers' interfaces.
#[derive(Clone)]
pub(crate) struct Served {
    interfaces: Arc<Mutex<BTreeMap<u32, u32>>>,
    work: Arc<OwnedFd>,
}

impl Served {
    /// No link is served yet.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new() -> io::Result<Served> {
        let work = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Served { interfaces: Arc::default(), work: Arc::new(work) })
    }

    /// A worker has worked, or a port waits: the thread that follows the kernel looks at what no message tells.
    pub(crate) fn note_work(&self) {
        // Full: it has been told.
        rustix::io::write(&*self.work, &1u64.to_ne_bytes()).ok();
    }

    /// [`note_work`](Served::note_work), for others to call.
    pub(crate) fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let served = self.clone();
        Arc::new(move || served.note_work())
    }

    fn work(&self) -> BorrowedFd<'_> {
        self.work.as_fd()
    }

    /// Link `link` is the workers' `interface`.
    pub(crate) fn insert(&self, link: u32, interface: u32) {
        self.lock().insert(link, interface);
    }

    /// Link `link` is gone.
    pub(crate) fn remove(&self, link: u32) {
        self.lock().remove(&link);
    }

    pub(crate) fn interface(&self, link: u32) -> Option<u32> {
        self.lock().get(&link).copied()
    }

    /// The link of an interface.
    pub(crate) fn link(&self, interface: u32) -> Option<u32> {
        self.lock().iter().find(|(_, known)| **known == interface).map(|(link, _)| *link)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, u32>> {
        self.interfaces.lock().expect("nobody panics while holding it")
    }

    /// Tells the workers everything.
    pub(crate) fn push_all(&self, kernel: &Snapshot, workers: &Workers) -> Result<(), Gone> {
        let everything = Differences {
            links: kernel.links.keys().copied().collect(),
            routes: true,
            neighbors: kernel.neighbors.iter().map(|(key, mac)| (*key, Some(*mac))).collect(),
            policies: true,
        };
        self.push(kernel, &everything, workers)
    }

    /// Tells the workers which routes lead where now.
    pub(crate) fn push_routes(&self, kernel: &Snapshot, workers: &Workers) -> Result<(), Gone> {
        workers.set_routes(&self.routes(kernel))
    }

    /// Tells the workers everything of links that are served from now on.
    fn push_new(&self, kernel: &Snapshot, links: BTreeSet<u32>, workers: &Workers) -> Result<(), Gone> {
        if links.is_empty() {
            return Ok(());
        }
        let neighbors = kernel.neighbors.iter().filter(|((link, _), _)| links.contains(link));
        let neighbors = neighbors.map(|(key, mac)| (*key, Some(*mac))).collect();
        self.push(kernel, &Differences { links, routes: true, neighbors, policies: false }, workers)
    }

    /// Tells the workers what is different.
    fn push(&self, kernel: &Snapshot, found: &Differences, workers: &Workers) -> Result<(), Gone> {
        for link in &found.links {
            if let Some(interface) = self.interface(*link) {
                let addresses: Vec<_> = kernel.addresses_of(*link).into_iter().filter(|cidr| is_served(cidr.ip)).collect();
                workers.set_addresses(interface, &addresses)?;
                workers.set_deprecated(interface, &kernel.deprecated_of(*link))?;
            }
        }
        if found.routes {
            self.push_routes(kernel, workers)?;
        }
        for ((link, ip), mac) in &found.neighbors {
            if let (Some(interface), true) = (self.interface(*link), is_neighbor(*ip)) {
                workers.set_neighbor(interface, *ip, *mac)?;
            }
        }
        Ok(())
    }

    fn routes(&self, kernel: &Snapshot) -> Vec<Route> {
        let convert = |route: &LinkRoute| Route {
            destination: route.destination,
            gateway: route.gateway,
            interface: self.interface(route.link).unwrap_or(NOT_SERVED),
            metric: route.metric,
            source: route.source,
        };
        let leads = |route: &LinkRoute| route.link == NO_LINK || kernel.links.get(&route.link).is_some_and(|link| link.up);
        let usable = |route: &&LinkRoute| is_served(route.destination.ip) && leads(route);
        kernel.routes.iter().filter(usable).map(convert).collect()
    }
}

/// What tells of changes that rtnetlink does not tell; `None`: this kernel does not, or not to this process.
pub(crate) struct Notices {
    /// Of its packet filters.
    rules: Option<Watch>,
    /// Of cards.
    settings: Option<SettingsWatch>,
}

impl Notices {
    /// Hears of what changes from now on.
    pub(crate) fn open() -> Notices {
        Notices { rules: Watch::open(), settings: SettingsWatch::open().ok() }
    }

    /// Forgets what was told until now.
    fn drain(&self, told: Told) {
        if let Some(rules) = self.rules.as_ref().filter(|_| told.rules) {
            rules.drain();
        }
        if let Some(settings) = self.settings.as_ref().filter(|_| told.settings) {
            settings.drain();
        }
    }
}

/// Which of them have told something.
#[derive(Clone, Copy, Default)]
struct Told {
    rules: bool,
    settings: bool,
}

/// The state of the thread that follows.
pub(crate) struct Follower {
    pub(crate) mirror: Mirror,
    pub(crate) notices: Notices,
    pub(crate) served: Served,
    pub(crate) interfaces: Arc<Mutex<Interfaces>>,
    /// Requests for the devices, if they are not open yet.
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) workers: Workers,
}

/// Why the follower goes on.
#[derive(Clone, Copy, Default)]
struct Woken {
    told: Told,
    devices_wanted: bool,
    has_worked: bool,
}

impl Follower {
    /// Starts the thread; it ends when `stop` becomes readable or a worker is gone.
    pub(crate) fn start(mut self, stop: Arc<OwnedFd>) -> io::Result<JoinHandle<()>> {
        Builder::new().name("ringway-netlink".to_owned()).spawn(move || {
            self.run(&stop);
            self.readiness.answer(Err("the service does not follow the kernel any more".to_owned()));
        })
    }

    fn run(&mut self, stop: &OwnedFd) {
        while let Some(woken) = self.wait(stop) {
            match self.mirror.update() {
                Ok(found) if self.follow(&found, woken).is_ok() => {}
                Ok(_) => return,
                Err(error) => {
                    tracing::error!(target: "ringway::interface", "the kernel's addresses and routes are not followed any more: {error}");
                    return;
                }
            }
        }
    }

    /// Tells of a thing that is gone before its interface closes, and of a new one after its interface is open.
    fn follow(&self, found: &Differences, woken: Woken) -> Result<(), Gone> {
        let kernel = self.mirror.now();
        if !found.links.is_empty() {
            self.interfaces.lock().expect("nobody panics while holding it").follow_addresses(kernel)?;
        }
        self.served.push(kernel, found, &self.workers)?;
        let opened = {
            let mut interfaces = self.interfaces.lock().expect("nobody panics while holding it");
            let others_changed = woken.has_worked && interfaces.classifiers_changed(kernel);
            let means_else = interfaces.take_news();
            let rules_changed = woken.told.rules || means_else || others_changed || found.policies || !found.links.is_empty();
            let mut opened = if rules_changed { interfaces.follow_rules(kernel) } else { BTreeSet::new() };
            interfaces.release_ports();
            let settings_of = if woken.told.settings { interfaces.links() } else { BTreeSet::new() };
            opened.extend(interfaces.follow(kernel, &(&found.links | &settings_of)));
            opened
        };
        self.served.push_new(kernel, opened, &self.workers)?;
        if woken.devices_wanted { self.open_devices(kernel) } else { Ok(()) }
    }

    /// Every requester finds everything in place.
    fn open_devices(&self, kernel: &Snapshot) -> Result<(), Gone> {
        let opened = self.interfaces.lock().expect("nobody panics while holding it").wake(kernel);
        let answer = match opened {
            Ok(opened) => self.served.push_new(kernel, opened, &self.workers).map(Ok)?,
            Err(reasons) => Err(reasons),
        };
        self.readiness.answer(answer);
        Ok(())
    }

    /// Waits for work; `None`: time to stop.
    fn wait(&self, stop: &OwnedFd) -> Option<Woken> {
        let (kernel, stop, asked) = (self.mirror.wait_fd(), stop.as_fd(), self.readiness.asked());
        let Notices { rules, settings } = &self.notices;
        let watches = [rules.as_ref().map(AsFd::as_fd), settings.as_ref().map(AsFd::as_fd)];
        let work = self.served.work();
        let mut fds: Vec<_> = [&kernel, &stop, &asked, &work].map(|fd| PollFd::new(fd, PollFlags::IN)).into();
        fds.extend(watches.iter().flatten().map(|watch| PollFd::new(watch, PollFlags::IN)));
        let (holds, foreign_programs) = {
            let interfaces = self.interfaces.lock().expect("nobody panics while holding it");
            (interfaces.holds_ports(), interfaces.knows_foreign_programs())
        };
        if let Err(error) = poll(&mut fds, (holds || foreign_programs).then_some(&AGAIN)) {
            return (error == rustix::io::Errno::INTR).then_some(Woken::default());
        }
        let is_ready = |number: usize| fds.get(number).is_some_and(|fd| !fd.revents().is_empty());
        let (is_over, devices_wanted, has_worked) = (is_ready(1), is_ready(2), is_ready(3));
        let behind_rules = 4 + usize::from(rules.is_some());
        let told = Told { rules: rules.is_some() && is_ready(4), settings: is_ready(behind_rules) };
        self.notices.drain(told);
        if has_worked {
            // Empty: it has been read.
            rustix::io::read(work, &mut [0; 8]).ok();
        }
        (!is_over).then_some(Woken { told, devices_wanted, has_worked: has_worked || foreign_programs })
    }
}
