//! The self-test of AF_XDP devices as the service does it: which neighbor takes part, and what was found.
//!
//! Promises: a way that has failed on an interface is not tried there again as long as the service lives; what was found stands
//! in the file NAME.selftest of the run directory, for `ringway doctor`. An interface without a neighbor that answers is not
//! tested. Does not do: the test, which is `ringway_device::xdp::selftest`'s.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use ringway_device::interface::Interface;
use ringway_device::steering::Redirect;
use ringway_device::xdp::selftest::{Ends, Test, Tried, Wrong, find_neighbor, open_tested};
use ringway_device::xdp::{AttachMode, Xdp, XdpOptions};
use ringway_shm::{Arena, ArenaConfig};

use crate::netlink::Snapshot;
use crate::plan::{Planned, is_neighbor};
use crate::secret::random;

/// Neighbors that are asked at most, routers first.
const CANDIDATES_MAX: usize = 4;
/// Packet memory of a test without a service.
const SCRATCH: ArenaConfig = ArenaConfig { large: 1024, small: 64 };
const SCRATCH_RING: u32 = 256;

/// The result of one way to attach AF_XDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Packets of the MTU, checksums, and the kernel's own packets passed.
    Passed,
    /// Something did not; what.
    Failed(String),
    /// It could not be opened; why.
    Unavailable(String),
    /// No neighbor took part; why.
    NotTried(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed => f.write_str("PASS"),
            Outcome::Failed(why) => write!(f, "FAIL: {why}"),
            Outcome::Unavailable(why) => write!(f, "NOT AVAILABLE: {why}"),
            Outcome::NotTried(why) => write!(f, "NOT TRIED: {why}"),
        }
    }
}

/// The finding about one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// In words.
    pub attach_mode: String,
    /// Its result.
    pub outcome: Outcome,
}

/// No way passed, though some could be opened.
#[derive(Debug)]
pub(crate) struct NonePassed(String);

impl fmt::Display for NonePassed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AF_XDP failed its self-test ({})", self.0)
    }
}

impl std::error::Error for NonePassed {}

/// Returns true if a device was not opened because no way of AF_XDP has passed.
pub(crate) fn is_failure(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|cause| cause.is::<NonePassed>())
}

/// The findings on the interfaces of a service, for as long as it lives.
#[derive(Clone)]
pub(crate) struct Findings {
    path: PathBuf,
    by_interface: Arc<Mutex<BTreeMap<String, Vec<Finding>>>>,
}

impl Findings {
    /// None yet; they will be written to `path`.
    pub(crate) fn new(path: PathBuf) -> Findings {
        Findings { path, by_interface: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Finding>>> {
        self.by_interface.lock().expect("nobody panics while holding it")
    }

    fn has_failed(&self, interface: &str, attach_mode: AttachMode) -> bool {
        let is_it = |found: &Finding| found.attach_mode == attach_mode.to_string() && matches!(found.outcome, Outcome::Failed(_));
        self.lock().get(interface).is_some_and(|findings| findings.iter().any(is_it))
    }

    /// Notes what was found; the last word on each way counts.
    fn note(&self, interface: &str, more: &[Finding]) {
        let mut all = self.lock();
        let findings = all.entry(interface.to_owned()).or_default();
        findings.retain(|known| more.iter().all(|new| new.attach_mode != known.attach_mode));
        findings.extend(more.iter().cloned());
        let line = |interface: &str, finding: &Finding| format!("{interface}\t{}\t{}\n", finding.attach_mode, finding.outcome);
        let text: String = all.iter().flat_map(|(name, found)| found.iter().map(move |one| line(name, one))).collect();
        if let Err(error) = std::fs::write(&self.path, text) {
            tracing::warn!(target: "ringway::interface", "{}: {error}", self.path.display());
        }
    }

    /// Describes the failures on `interface`.
    fn failures(&self, interface: &str) -> Option<String> {
        let all = self.lock();
        let failed = all.get(interface)?.iter().filter_map(|found| match &found.outcome {
            Outcome::Failed(why) => Some(format!("{}: {why}", found.attach_mode)),
            _ => None,
        });
        Some(failed.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
    }
}

/// Opens an interface in the first way that passes, or, where nothing can be tested, the first that opens.
pub(crate) struct Opening {
    pub(crate) name: String,
    pub(crate) options: XdpOptions,
    /// See [`prepare`].
    pub(crate) test: Result<Test, String>,
    /// True if a way that cannot be tested does not serve.
    pub(crate) must_pass: bool,
    pub(crate) findings: Findings,
}

/// A device, and what an operator should know of it.
pub(crate) struct Opened {
    pub(crate) device: Xdp,
    /// The exact back end.
    pub(crate) detail: String,
    /// A note of what is not as asked, if anything is.
    pub(crate) note: Option<String>,
}

impl Opening {
    /// Opens it for `redirect`, in the worker's thread.
    ///
    /// # Errors
    /// No way opens, or none passes ([`is_failure`]).
    ///
    /// # Blocking
    /// While the test runs: a round trip where the card works, a second and more for each way that fails.
    pub(crate) fn open(self, redirect: Redirect<'_>, arena: &Arena) -> io::Result<Opened> {
        let Opening { name, options, test, must_pass, findings } = self;
        let interface = Interface::open(&name)?;
        let mut attach_modes = Xdp::attach_modes(&interface, &options);
        attach_modes.retain(|attach_mode| !findings.has_failed(&name, *attach_mode));
        if attach_modes.is_empty() {
            let why = findings.failures(&name).expect("a attach_mode that is left out has failed");
            return Err(io::Error::other(NonePassed(why)));
        }
        let test = match test {
            Ok(test) => test,
            Err(cause) if must_pass => return Err(io::Error::other(format!("AF_XDP cannot be tested: {cause}"))),
            Err(cause) => {
                let device = Xdp::open_first(&interface, redirect, &attach_modes, &options, arena)?;
                let attach_mode = device.attach_mode().to_string();
                findings.note(&name, &[Finding { attach_mode: attach_mode.clone(), outcome: Outcome::NotTried(cause.clone()) }]);
                let note = Some(format!("AF_XDP on {name} ({attach_mode}) is not tested: {cause}"));
                return Ok(Opened { device, detail: format!("af_xdp, {attach_mode}"), note });
            }
        };
        let (device, tried) = open_tested(&interface, &attach_modes, &options, &test, (redirect, arena));
        findings.note(&name, &tried.into_iter().map(finding).collect::<Vec<_>>());
        let failures = findings.failures(&name);
        match device {
            Some(device) => {
                device.take(redirect)?;
                let attach_mode = device.attach_mode().to_string();
                let note = failures
                    .map(|why| format!("AF_XDP on {name} is {attach_mode}, another attach_mode failed its self-test ({why})"));
                Ok(Opened { device, detail: format!("af_xdp, {attach_mode}, self-test passed"), note })
            }
            None => Err(match failures {
                Some(why) => io::Error::other(NonePassed(why)),
                // Once more, for the reasons.
                None => Xdp::open_first(&interface, redirect, &attach_modes, &options, arena)
                    .err()
                    .unwrap_or_else(|| io::Error::other("AF_XDP opened at the second try only")),
            }),
        }
    }
}

fn finding(Tried { attach_mode, outcome }: Tried) -> Finding {
    let outcome = match outcome {
        Ok(()) => Outcome::Passed,
        Err(Wrong::Failed(why)) => Outcome::Failed(why),
        Err(Wrong::Closed(why)) => Outcome::Unavailable(why),
    };
    Finding { attach_mode: attach_mode.to_string(), outcome }
}

/// Gathers the needs of a test of `planned`: a neighbor that answers the kernel.
///
/// # Errors
/// There is none; the text says why nothing can be tested.
///
/// # Blocking
/// Half a second where no neighbor answers.
pub(crate) fn prepare(planned: &Planned) -> Result<Test, String> {
    let read = || Snapshot::read().map_err(|error| format!("the kernel's neighbors cannot be read: {error}"));
    let identifier = random().map_err(|error| error.to_string())? as u16;
    let candidates = candidates(&read()?, planned);
    let (own, neighbor) = find_neighbor(planned.link, &candidates, planned.mtu, identifier, ringway_engine::clock::now)?;
    // Known now: it has answered.
    let mac = read()?.neighbors.get(&(planned.link, neighbor)).copied();
    let mac = mac.ok_or_else(|| format!("{neighbor} is a neighbor without a link address"))?;
    let ends = Ends { own, neighbor, own_mac: planned.mac.0, neighbor_mac: mac.0 };
    Ok(Test { ends, mtu: planned.mtu, identifier, clock: ringway_engine::clock::now })
}

/// Routers behind the interface and known neighbors, with our address towards each.
fn candidates(kernel: &Snapshot, planned: &Planned) -> Vec<(IpAddr, IpAddr)> {
    let routers = kernel.routes.iter().filter(|route| route.link == planned.link).filter_map(|route| route.gateway);
    let neighbors = kernel.neighbors.keys().filter(|(link, _)| *link == planned.link).map(|(_, ip)| *ip);
    let mut candidates = Vec::new();
    for neighbor in routers.chain(neighbors).filter(|ip| is_neighbor(*ip)) {
        let nearest = planned.addresses.iter().find(|cidr| cidr.contains(neighbor));
        let own = nearest.or_else(|| planned.addresses.iter().find(|cidr| cidr.ip.is_ipv4() == neighbor.is_ipv4()));
        let pair = own.map(|own| (own.ip, neighbor)).filter(|pair| !candidates.contains(pair));
        candidates.extend(pair);
    }
    candidates.truncate(CANDIDATES_MAX);
    candidates
}

/// Tries every way of `options` on an interface that no service has, and detaches again.
pub fn try_all(planned: &Planned) -> Vec<Finding> {
    let options = XdpOptions { zero_copy: true, ring_entries: SCRATCH_RING, ..XdpOptions::default() };
    let test = match prepare(planned) {
        Ok(test) => test,
        Err(cause) => return vec![Finding { attach_mode: "xdp".to_owned(), outcome: Outcome::NotTried(cause) }],
    };
    let interface = match Interface::open(&planned.name) {
        Ok(interface) => interface,
        Err(error) => return vec![Finding { attach_mode: "xdp".to_owned(), outcome: Outcome::Unavailable(error.to_string()) }],
    };
    let try_one = |attach_mode: AttachMode| {
        // A fresh one for each: a driver may write into what a failed zero-copy way has lent for a while.
        let (device, tried) = open_tested(&interface, &[attach_mode], &options, &test, (Redirect::All, &Arena::new(SCRATCH)));
        drop(device);
        tried.into_iter().map(finding)
    };
    Xdp::attach_modes(&interface, &options).into_iter().flat_map(try_one).collect()
}

#[cfg(test)]
mod tests;
