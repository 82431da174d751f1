//! All workers of the service as one: what is true of the machine is told to each of them.
//!
//! Promises: interfaces have the same number at every worker, since all hear of the same ones in the same order. Does not
//! do: applications; each worker has a broker of its own.

use std::io;
use std::net::IpAddr;

use ringway_engine::{Gone, GroupQuotas, InterfaceInfo, OpenDevice, UserQuotas, WorkerHandle};
use ringway_shm::Duration;
use ringway_stack::{Cidr, MacAddress, Route};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

/// See the module's text.
#[derive(Clone)]
pub(crate) struct Workers(Vec<WorkerHandle>);

impl Workers {
    pub(crate) fn new(handles: Vec<WorkerHandle>) -> Workers {
        Workers(handles)
    }

    pub(crate) fn each(&self) -> &[WorkerHandle] {
        &self.0
    }

    /// Adds an interface to each, with its device among `devices`; returns its number.
    ///
    /// # Errors
    /// A device could not be opened; then no worker has the interface.
    pub(crate) fn add_interface(&self, interface: &InterfaceInfo, devices: Vec<OpenDevice>) -> io::Result<u32> {
        let mut number = None;
        for (worker, (handle, open)) in self.0.iter().zip(devices).enumerate() {
            match handle.add_interface(interface.clone(), open) {
                Ok(added) => {
                    assert!(number.is_none_or(|known| known == added), "all workers number interfaces alike");
                    number = Some(added);
                }
                Err(error) => {
                    for (handle, number) in self.0[..worker].iter().zip(number) {
                        handle.remove_interface(number)?;
                    }
                    return Err(error);
                }
            }
        }
        number.ok_or_else(|| io::Error::other("there is no worker"))
    }

    /// Puts another device into the place of an interface's, at each worker.
    ///
    /// # Errors
    /// A device could not be opened: the interface is there, without a device at that worker and those behind it.
    pub(crate) fn replace_interface(&self, number: u32, interface: &InterfaceInfo, devices: Vec<OpenDevice>) -> io::Result<()> {
        // Before any is opened: the devices of all workers may use the same queues.
        self.0.iter().try_for_each(|handle| handle.close_interface(number))?;
        let mut pairs = self.0.iter().zip(devices);
        pairs.try_for_each(|(handle, open)| handle.replace_interface(number, interface.clone(), open))
    }

    pub(crate) fn remove_interface(&self, number: u32) -> Result<(), Gone> {
        self.tell(|handle| handle.remove_interface(number))
    }

    pub(crate) fn set_addresses(&self, interface: u32, addresses: &[Cidr]) -> Result<(), Gone> {
        self.tell(|handle| handle.set_addresses(interface, addresses.to_vec()))
    }

    pub(crate) fn set_deprecated(&self, interface: u32, addresses: &[IpAddr]) -> Result<(), Gone> {
        self.tell(|handle| handle.set_deprecated(interface, addresses.to_vec()))
    }

    pub(crate) fn set_routes(&self, routes: &[Route]) -> Result<(), Gone> {
        self.tell(|handle| handle.set_routes(routes.to_vec()))
    }

    pub(crate) fn set_quotas(&self, user: UserQuotas, group: GroupQuotas) -> Result<(), Gone> {
        self.tell(|worker| worker.set_quotas(user, group))
    }

    pub(crate) fn rules_changed(&self) -> Result<(), Gone> {
        self.tell(WorkerHandle::rules_changed)
    }

    pub(crate) fn set_neighbor(&self, interface: u32, ip: IpAddr, mac: Option<MacAddress>) -> Result<(), Gone> {
        self.tell(|handle| handle.set_neighbor(interface, ip, mac))
    }

    pub(crate) fn finish(&self, limit: Duration) -> Result<(), Gone> {
        self.tell(|handle| handle.finish(limit))
    }

    pub(crate) fn stop(&self) -> Result<(), Gone> {
        self.tell(WorkerHandle::stop)
    }

    /// Tells all, also when some are gone.
    fn tell(&self, what: impl Fn(&WorkerHandle) -> Result<(), Gone>) -> Result<(), Gone> {
        self.0.iter().map(what).fold(Ok(()), Result::and)
    }
}

/// Runs the thread of this name on processor `core` only.
pub(crate) fn pin(name: &str, core: u32) -> io::Result<()> {
    let mut processors = CpuSet::new();
    processors.set(core as usize);
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))?.trim_end() != name {
            continue;
        }
        let thread = task.file_name().and_then(|number| number.to_str()?.parse().ok()).and_then(Pid::from_raw);
        sched_setaffinity(thread, &processors)
            .map_err(|error| io::Error::other(format!("the worker cannot run on processor {core} (worker.core): {error}")))?;
    }
    Ok(())
}
