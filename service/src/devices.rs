//! Opens the devices that a plan names, with the kernel's share of the interface kept away from them.
//!
//! Promises: a shared device sees owned packets only, and the kernel's TCP never sees those. Programs
//! and filters are bound to this process and vanish with it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use ringway_device::Device;
use ringway_device::interface::{add_address, set_up};
use ringway_device::packet::{Packet, PacketOptions};
use ringway_device::steering::{Attachment, Division, ExceptionPath, PortFilter, Protocol, Redirect, Steering, XdpMode};
use ringway_device::tap::Tap;
use ringway_device::xdp::{Part, XdpOptions};
use ringway_engine::{OpenDevice, Transport};
use ringway_shm::Flow;

use ringway_stack::Cidr;
use rustix::thread::{MembarrierCommand, membarrier};

use crate::config::XdpChoice;
use crate::kept;
use crate::lost_offloads::OffloadsFile;
use crate::plan::{Backend, Plan, Planned};
use crate::ports::division::KEPT_MAX;
use crate::ports::{self, NoSteering};
use crate::selftest::{self, Findings};

/// Where a service writes down what it finds out about interfaces and does to them.
pub(crate) struct Files {
    /// The results of self-tests.
    pub(crate) findings: Findings,
    /// The kernel's numbers of programs; see [`RunDirectory::programs`](crate::RunDirectory::programs).
    pub(crate) programs: PathBuf,
    /// Offloads that cards have lost; see `lost_offloads`.
    pub(crate) lost: PathBuf,
    /// The interfaces that stay with the kernel; see `kept`.
    pub(crate) kept: PathBuf,
}

/// Opens devices and steers packets to them.
pub(crate) struct Devices {
    /// `None`: no device is shared with the kernel.
    steering: Option<Arc<Steering>>,
    /// `None`: there is one worker.
    division: Option<Division>,
    findings: Findings,
    /// Where the kernel's numbers of programs are written down.
    programs: PathBuf,
    /// Where offloads are noted that AF_XDP switches off.
    lost: Arc<OffloadsFile>,
    /// Where the interfaces stand that stay with the kernel.
    kept: PathBuf,
}

/// The facts about an open device.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Its exact way of working.
    pub(crate) detail: String,
    /// A note for the operator.
    pub(crate) note: Option<String>,
}

/// A way to open devices, with all that must be kept while they are open.
pub(crate) struct Opener {
    /// One for each worker; runs in its thread.
    pub(crate) open: Vec<OpenDevice>,
    /// Hides owned packets from the kernel; dropping it gives the interface back.
    pub(crate) attachment: Option<Attachment>,
    /// Known once the device is open.
    pub(crate) told: Arc<OnceLock<Told>>,
}

impl Devices {
    /// Prepares for the devices of `planned`, with at most `ports_max` owned ports, for so many workers, of which a TAP device has
    /// one.
    ///
    /// # Errors
    /// The kernel refuses BPF; the text names the fix.
    pub(crate) fn new(planned: &[Planned], ports_max: u32, workers: usize, files: Files) -> io::Result<Devices> {
        let shared = planned.iter().any(|planned| planned.backend != Backend::Tap);
        let steering = if shared { Some(Arc::new(Steering::new(ports_max)?)) } else { None };
        let division = if workers > 1 { Some(Division::new(workers, KEPT_MAX)?) } else { None };
        let Files { findings, programs, lost, kept } = files;
        Ok(Devices { steering, division, findings, programs, lost: Arc::new(OffloadsFile::new(lost)?), kept })
    }

    /// Tries whether the kernel takes the programs that devices need, and makes none, so that an operator learns of it at the start.
    ///
    /// # Errors
    /// It does not; the text names the fix.
    pub(crate) fn probe(&self) -> io::Result<()> {
        self.steering.as_ref().map_or(Ok(()), |steering| steering.socket_filter().map(drop))
    }

    /// Tells tools which interfaces of `plan` stay with the kernel because of its rules.
    pub(crate) fn tell_kept(&self, plan: &Plan) {
        if let Err(error) = kept::note(&self.kept, plan) {
            tracing::warn!(target: "ringway::interface", "{}: {error}", self.kept.display());
        }
    }

    /// Returns what the kernel may get of owned ports; `None`: it sees none of them.
    pub(crate) fn exception_path(&self) -> Option<Arc<ExceptionPath>> {
        self.steering.as_ref().map(|steering| steering.exception_path())
    }

    /// Returns the table by which the filters know our ports.
    pub(crate) fn steering(&self) -> io::Result<Box<dyn ports::Steering>> {
        match &self.steering {
            Some(steering) => Ok(Box::new(steering.port_filter()?)),
            None => Ok(Box::new(NoSteering)),
        }
    }

    /// Returns the table by which the filters know the worker of each flow group; `None`: there is one worker.
    pub(crate) fn division(&self) -> io::Result<Option<Division>> {
        self.division.as_ref().map(Division::try_clone).transpose()
    }

    /// Returns the functions that open the device of `planned`, one for each worker.
    ///
    /// # Errors
    /// The kernel refuses a program; the text names the fix.
    pub(crate) fn opener(&self, planned: &Planned) -> io::Result<Opener> {
        match planned.backend {
            Backend::Packet => self.packet(planned),
            Backend::Xdp => self.xdp(planned),
            Backend::Tap => Ok(tap(planned)),
        }
    }

    fn packet(&self, planned: &Planned) -> io::Result<Opener> {
        let steering = self.shared()?;
        let options = PacketOptions {
            queued: planned.queued,
            split_ring: true,
            priorities: planned.priorities,
            ..PacketOptions::default()
        };
        let open = |worker| {
            let filter = match &self.division {
                Some(division) => steering.socket_filter_of(worker, division)?,
                None => steering.socket_filter()?,
            };
            let name = planned.name.clone();
            let open: OpenDevice = Box::new(move |arena| {
                let device = Packet::open(&name, Some(filter.as_fd()), options, arena)?;
                Ok(Box::new(device) as Box<dyn Device>)
            });
            Ok(open)
        };
        let workers = self.division.as_ref().map_or(1, Division::workers);
        let open = (0..workers).map(open).collect::<io::Result<_>>()?;
        Ok(Opener { open, attachment: self.hide(planned.link)?, told: Arc::default() })
    }

    /// Hides packets of owned ports that arrive on this link from the kernel; `None`: no device is shared with it.
    ///
    /// # Errors
    /// The kernel refuses the program; the text names the fix.
    pub(crate) fn hide(&self, link: u32) -> io::Result<Option<Attachment>> {
        let hide = |steering: &Arc<Steering>| steering.hide_announced(link, &mut |number| self.write_down(number));
        self.steering.as_ref().map(hide).transpose()
    }

    /// Names the program to other services, which would leave the interface to the kernel otherwise.
    fn write_down(&self, number: u32) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.programs)?;
        file.write_all(format!("{number}\n").as_bytes())
    }

    /// The device attaches its own program, which takes owned packets before the kernel sees them, once it has passed its
    /// self-test. The first worker opens it for all.
    fn xdp(&self, planned: &Planned) -> io::Result<Opener> {
        let steering = self.shared()?.clone();
        let division = self.division()?;
        let workers = division.as_ref().map_or(1, Division::workers);
        let opening = selftest::Opening {
            name: planned.name.clone(),
            options: XdpOptions { workers, journal: Some(self.lost.clone()), ..xdp_options(planned.xdp_mode) },
            test: selftest::prepare(planned),
            must_pass: planned.must_pass,
            findings: self.findings.clone(),
        };
        let told = Arc::<OnceLock<Told>>::default();
        let tells = told.clone();
        let parts = Arc::<Mutex<Vec<Option<Part>>>>::default();
        let others = (0..workers - 1).map(|part| part_opener(parts.clone(), part)).collect::<Vec<_>>();
        let first: OpenDevice = Box::new(move |arena| {
            let redirect = match &division {
                Some(division) => Redirect::Divided(&steering, division),
                None => Redirect::Owned(&steering),
            };
            let selftest::Opened { mut device, detail, note } = opening.open(redirect, arena)?;
            *parts.lock().expect("no thread panics while it has them") = device.take_parts().into_iter().map(Some).collect();
            tells.get_or_init(|| Told { detail, note });
            Ok(Box::new(device) as Box<dyn Device>)
        });
        Ok(Opener { open: std::iter::once(first).chain(others).collect(), attachment: None, told })
    }

    fn shared(&self) -> io::Result<&Arc<Steering>> {
        self.steering.as_ref().ok_or_else(|| io::Error::other("a shared interface needs steering"))
    }
}

/// Waits until packets that went to the kernel before have been there: the decision and TCP's work on a packet are in one section of RCU, and a global
/// barrier waits until all of them have ended (membarrier(2)).
///
/// # Errors
/// The kernel has no such barrier.
pub(crate) fn wait_for_packets() -> io::Result<()> {
    Ok(membarrier(MembarrierCommand::Global)?)
}

/// Opens what the first worker has left for another one in `parts`.
fn part_opener(parts: Arc<Mutex<Vec<Option<Part>>>>, number: usize) -> OpenDevice {
    Box::new(move |arena| {
        let part = parts.lock().expect("no thread panics while it has them").get_mut(number).and_then(Option::take);
        let part = part.ok_or_else(|| io::Error::other("the first worker has no device"))?;
        Ok(Box::new(part.open(arena)) as Box<dyn Device>)
    })
}

fn xdp_options(choice: XdpChoice) -> XdpOptions {
    let mode = match choice {
        XdpChoice::Auto => None,
        // Where zero-copy does not work, the others do not stand back.
        XdpChoice::ZeroCopy => None,
        XdpChoice::Native => Some(XdpMode::Native),
        XdpChoice::Generic => Some(XdpMode::Generic),
    };
    XdpOptions { mode, zero_copy: choice == XdpChoice::ZeroCopy, ..XdpOptions::default() }
}

fn tap(planned: &Planned) -> Opener {
    let (name, mtu, kernel_side) = (planned.name.clone(), planned.mtu, planned.kernel_side.clone());
    let open: OpenDevice = Box::new(move |arena| {
        let device = Tap::open(&name, arena)?;
        let (name, index) = (&device.interface().name, device.interface().index);
        set_up(name, Some(mtu), None)?;
        for Cidr { ip, prefix_len } in &kernel_side {
            add_address(index, *ip, *prefix_len)?;
        }
        Ok(Box::new(device) as Box<dyn Device>)
    });
    Opener { open: vec![open], attachment: None, told: Arc::default() }
}

impl ports::Steering for PortFilter {
    fn own(&mut self, transport: Transport, ip: IpAddr, port: u16, workers: u32) -> io::Result<()> {
        PortFilter::own(self, protocol(transport), ip, port, workers)
    }

    fn own_copies(&mut self, group: IpAddr, port: u16, workers: u32) -> io::Result<()> {
        PortFilter::own_copies(self, group, port, workers)
    }

    fn release(&mut self, transport: Transport, ip: IpAddr, port: u16) -> io::Result<()> {
        PortFilter::release(self, protocol(transport), ip, port)
    }

    fn leave_flow(&mut self, flow: &Flow) -> io::Result<()> {
        PortFilter::leave_flow(self, flow)
    }

    fn retake_flow(&mut self, flow: &Flow) -> io::Result<()> {
        PortFilter::retake_flow(self, flow)
    }

    fn leave_port(&mut self, ip: IpAddr, port: u16, stay: &[(IpAddr, u16)]) -> io::Result<()> {
        PortFilter::leave_port(self, ip, port, stay)
    }

    fn retake_port(&mut self, ip: IpAddr, port: u16) -> io::Result<()> {
        PortFilter::retake_port(self, ip, port)
    }

    fn leave_connections(&mut self, ip: IpAddr, port: u16, most: usize) -> io::Result<bool> {
        PortFilter::leave_connections(self, ip, port, most)
    }

    fn sweep(&mut self) -> io::Result<usize> {
        PortFilter::sweep(self)
    }

    fn kernel_flows(&self) -> usize {
        PortFilter::kernel_flows(self)
    }
}

fn protocol(transport: Transport) -> Protocol {
    match transport {
        Transport::Tcp => Protocol::Tcp,
        Transport::Udp => Protocol::Udp,
    }
}
