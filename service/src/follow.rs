//! Keeps the worker's addresses, routes and neighbors equal to the kernel's, in a thread of its own.
//!
//! Promises: after [`Served::push_all`] the worker knows what the mirror knew; every later
//! difference follows. Does not do: open devices; see `interfaces`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use ringway::{Gone, WorkerHandle};
use ringway_stack::Route;
use rustix::event::{PollFd, PollFlags, poll};

use crate::interfaces::Interfaces;
use crate::netlink::{Differences, LinkRoute, Mirror, NO_LINK, Snapshot};
use crate::plan::{is_neighbor, is_served};

/// Routes that leave through an interface that is not served name this one, so that the worker
/// knows that they are not its own.
pub(crate) const NOT_SERVED: u32 = u32::MAX;

/// Which of the kernel's links are which of the worker's interfaces.
#[derive(Clone, Default)]
pub(crate) struct Served {
    interfaces: Arc<Mutex<BTreeMap<u32, u32>>>,
}

impl Served {
    /// Link `link` is the worker's `interface`.
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

    /// Tells the worker everything.
    pub(crate) fn push_all(&self, kernel: &Snapshot, worker: &WorkerHandle) -> Result<(), Gone> {
        let everything = Differences {
            links: kernel.links.keys().copied().collect(),
            routes: true,
            neighbors: kernel.neighbors.iter().map(|(key, mac)| (*key, Some(*mac))).collect(),
        };
        self.push(kernel, &everything, worker)
    }

    /// Tells the worker everything of links that are served from now on.
    fn push_new(&self, kernel: &Snapshot, links: BTreeSet<u32>, worker: &WorkerHandle) -> Result<(), Gone> {
        if links.is_empty() {
            return Ok(());
        }
        let neighbors = kernel.neighbors.iter().filter(|((link, _), _)| links.contains(link));
        let neighbors = neighbors.map(|(key, mac)| (*key, Some(*mac))).collect();
        self.push(kernel, &Differences { links, routes: true, neighbors }, worker)
    }

    /// Tells the worker what is different.
    fn push(&self, kernel: &Snapshot, found: &Differences, worker: &WorkerHandle) -> Result<(), Gone> {
        for link in &found.links {
            if let Some(interface) = self.interface(*link) {
                let addresses = kernel.addresses_of(*link).into_iter().filter(|cidr| is_served(cidr.ip)).collect();
                worker.set_addresses(interface, addresses)?;
                worker.set_deprecated(interface, kernel.deprecated_of(*link))?;
            }
        }
        if found.routes {
            worker.set_routes(self.routes(kernel))?;
        }
        for ((link, ip), mac) in &found.neighbors {
            if let (Some(interface), true) = (self.interface(*link), is_neighbor(*ip)) {
                worker.set_neighbor(interface, *ip, *mac)?;
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

/// The thread that follows; ends when `stop` becomes readable or the worker is gone.
pub(crate) fn start(
    mut mirror: Mirror,
    served: Served,
    interfaces: Arc<Mutex<Interfaces>>,
    worker: WorkerHandle,
    stop: Arc<OwnedFd>,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name("ringway-netlink".to_owned()).spawn(move || {
        while wait(&mirror, &stop) {
            match mirror.update() {
                Ok(found) => {
                    if follow(mirror.now(), &found, &served, &interfaces, &worker).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    eprintln!("ringway: the kernel's addresses and routes are not followed any more: {error}");
                    return;
                }
            }
        }
    })
}

/// What is gone is told before its interface closes, what is new after its interface is open.
fn follow(
    kernel: &Snapshot,
    found: &Differences,
    served: &Served,
    interfaces: &Mutex<Interfaces>,
    worker: &WorkerHandle,
) -> Result<(), Gone> {
    served.push(kernel, found, worker)?;
    let opened = interfaces.lock().expect("nobody panics while holding it").follow(kernel, &found.links);
    served.push_new(kernel, opened, worker)
}

/// `false`: time to stop.
fn wait(mirror: &Mirror, stop: &OwnedFd) -> bool {
    let (kernel, stop) = (mirror.wait_fd(), stop.as_fd());
    let mut fds = [PollFd::new(&kernel, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
    match poll(&mut fds, None) {
        Ok(_) => fds[1].revents().is_empty(),
        Err(error) => error == rustix::io::Errno::INTR,
    }
}
