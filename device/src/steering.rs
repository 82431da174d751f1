//! Sharing an interface with the kernel: one table of owned ports, and programs that act on it.
//!
//! ```text
//!  arriving packet -> XDP program ------ owned: AF_XDP socket of its queue and worker (device xdp)
//!                      | not owned
//!                      v
//!                   AF_PACKET socket, socket filter: owned or ICMP error: a copy  (device packet)
//!                      v
//!                   TCX program ---------- owned: dropped, else the kernel's IP   (before 6.6: `ingress`)
//! ```
//! Owned: TCP or UDP over IPv4 or IPv6, no VLAN tag, no IPv6 extension header but a fragment's, and (protocol,
//! destination address, destination port) in the table. Fragments: only the first has ports. It is taken from the
//! kernel as a whole packet would be, so that the kernel never completes the datagram; the later ones of TCP and UDP
//! are copied to the AF_PACKET socket, where the stack puts them together, and time out in the kernel. Over AF_XDP
//! they stay with the kernel and the datagram is lost. ICMP errors are copied to the AF_PACKET socket and left to the
//! kernel too; neighbor discovery, which is ICMPv6, is the kernel's alone. Everything here ends with the process:
//! the programs are attached by links and nothing is pinned; a filter of `ingress` hides nothing from then on. Counts no
//! references: a caller that owns a port twice keeps the count. The port of a multicast group may be owned so that the kernel has its packets too:
//! they are copied to the AF_PACKET socket and not hidden; over AF_XDP they are the kernel's alone.
//!
//! Several workers of a service: the table says of each port which of them own it. A port of one worker is its own,
//! whatever the flow; of a port that all own, each gets the flow groups that are its own ([`division`]). So each packet is
//! refused by all sockets but one before it is copied, and nothing is passed on. Fragments without ports and ICMP errors
//! reach all of them. A flow of an owned port that is the kernel's: `kernel_flows`; how much of such the kernel may get: `exception_path`. Several workers that have an interface to themselves: [`groups`].

mod accept_queue;
pub mod assembler;
pub mod attached;
mod btf;
pub mod classify;
pub mod division;
mod exception_path;
mod fanout;
pub mod groups;
mod ingress;
mod kernel_flows;
mod offsets;
mod program;
mod sockets;
mod sys;

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringway_shm::Flow;

use kernel_flows::{COPIES, KernelFlows};

pub use accept_queue::{AcceptQueues, Clock};
pub use division::{Division, Flows};
pub use exception_path::ExceptionPath;
pub use kernel_flows::FLOWS_MAX;
pub use program::XdpMode;
pub use sockets::received_by_kernel;

/// A transport protocol whose ports can be owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Protocol {
    /// TCP
    Tcp = 6,
    /// UDP
    Udp = 17,
}

/// The table of owned ports and the programs' source.
#[derive(Debug)]
pub struct Steering {
    table: OwnedFd,
    flows: Arc<Mutex<KernelFlows>>,
    flow_table: OwnedFd,
    exceptions: Arc<ExceptionPath>,
}

/// Writes the tables; any number of them may write the same ones.
#[derive(Debug)]
pub struct PortFilter {
    table: OwnedFd,
    flows: Arc<Mutex<KernelFlows>>,
}

/// Workers at most: their numbers are bits of a word whose three highest ones mark ports that the kernel has packets of.
pub const WORKERS_MAX: usize = 29;

/// A program that is attached to an interface as long as this lives.
#[derive(Debug)]
pub struct Attachment {
    hold: Hold,
}

/// The resource that ends the attachment when it is dropped.
#[derive(Debug)]
enum Hold {
    /// The kernel detaches the program when the last descriptor of the link closes.
    Link { link: OwnedFd },
    /// See [`ingress`].
    Filter { _filter: ingress::Filter },
}

impl Attachment {
    fn by(link: OwnedFd) -> Attachment {
        Attachment { hold: Hold::Link { link } }
    }

    /// Puts another program into the place of an XDP program; no packet passes between the two.
    fn replace_xdp(&self, code: &[assembler::Instruction]) -> io::Result<()> {
        let program = sys::load(sys::ProgramKind::Xdp, code)?;
        match &self.hold {
            Hold::Link { link } => sys::replace_program(link.as_fd(), program.as_fd()),
            Hold::Filter { .. } => Err(io::Error::other("a traffic-control filter is no XDP program")),
        }
    }
}

/// The AF_XDP sockets of an interface: on each receive queue one for each worker.
#[derive(Debug)]
pub struct SocketMap {
    map: OwnedFd,
    workers: usize,
}

impl Steering {
    /// A table with room for `entries_max` owned ports, empty.
    ///
    /// # Errors
    /// The kernel refuses BPF; the text names the fix.
    pub fn new(entries_max: u32) -> io::Result<Steering> {
        Steering::with_flows(entries_max, FLOWS_MAX)
    }

    /// As [`new`](Steering::new), with room for so many flows of the kernel's.
    fn with_flows(entries_max: u32, flows_max: u32) -> io::Result<Steering> {
        let flows = KernelFlows::new(flows_max)?;
        let flow_table = flows.map().try_clone_to_owned()?;
        let table = sys::create_map(sys::MapKind::Hash, KEY_BYTES as u32, entries_max)?;
        let exceptions = Arc::new(ExceptionPath::new()?);
        Ok(Steering { table, flows: Arc::new(Mutex::new(flows)), flow_table, exceptions })
    }

    /// The same table, for another thread to make programs from.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn try_clone(&self) -> io::Result<Steering> {
        let flow_table = self.flow_table.try_clone()?;
        let (flows, exceptions) = (self.flows.clone(), self.exceptions.clone());
        Ok(Steering { table: self.table.try_clone()?, flows, flow_table, exceptions })
    }

    /// What the kernel may get of owned ports, and what it did not.
    pub fn exception_path(&self) -> Arc<ExceptionPath> {
        self.exceptions.clone()
    }

    /// A writer of the table.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn port_filter(&self) -> io::Result<PortFilter> {
        Ok(PortFilter { table: self.table.try_clone()?, flows: self.flows.clone() })
    }

    fn tables(&self) -> program::Tables<'_> {
        program::Tables { owned: self.table.as_fd(), flows: self.flow_table.as_fd(), exceptions: self.exceptions.map() }
    }

    /// The program that accepts owned packets, ICMP errors and later fragments, for the AF_PACKET socket of the only worker.
    ///
    /// # Errors
    /// The kernel refuses it; the text names the fix.
    pub fn socket_filter(&self) -> io::Result<OwnedFd> {
        sys::load(sys::ProgramKind::SocketFilter, &program::socket_filter(self.tables(), None))
    }

    /// As [`socket_filter`](Steering::socket_filter), for the socket of `worker`, one of those of `division`.
    ///
    /// # Errors
    /// The kernel refuses it; the text names the fix.
    ///
    /// # Panics
    /// When there is no such worker.
    pub fn socket_filter_of(&self, worker: usize, division: &Division) -> io::Result<OwnedFd> {
        assert!(worker < division.workers(), "{worker} is one of {} workers", division.workers());
        sys::load(sys::ProgramKind::SocketFilter, &program::socket_filter(self.tables(), Some((worker, division))))
    }

    /// Hides owned packets that arrive on interface `index` from the kernel. AF_PACKET sockets
    /// still see them.
    ///
    /// # Errors
    /// The kernel refuses it; the text names the fix.
    pub fn hide_from_kernel(&self, index: u32) -> io::Result<Attachment> {
        self.hide_announced(index, &mut |_| Ok(()))
    }

    /// As [`hide_from_kernel`](Steering::hide_from_kernel); `announce` is told the kernel's number of the program before it is attached,
    /// so that other services know it for Ringway's.
    ///
    /// # Errors
    /// As there, and what `announce` says.
    pub fn hide_announced(&self, index: u32, announce: &mut dyn FnMut(u32) -> io::Result<()>) -> io::Result<Attachment> {
        let program = sys::load(sys::ProgramKind::TrafficControl, &program::hide_from_kernel(self.tables(), None))?;
        announce(sys::program_number(program.as_fd())?)?;
        match sys::attach_tcx(program.as_fd(), index)? {
            Some(link) => Ok(Attachment::by(link)),
            None => self.hide_by_filter(index),
        }
    }

    /// As [`hide_from_kernel`](Steering::hide_from_kernel), as kernels without TCX (before 6.6) can do it.
    fn hide_by_filter(&self, index: u32) -> io::Result<Attachment> {
        Ok(Attachment { hold: Hold::Filter { _filter: ingress::Filter::attach(self.tables(), index)? } })
    }
}

/// Which of an interface's packets go to AF_XDP sockets instead of the kernel.
#[derive(Clone, Copy, Debug)]
pub enum Redirect<'a> {
    /// Packets of owned ports, and ICMP errors about them.
    Owned(&'a Steering),
    /// The same, each to its worker.
    Divided(&'a Steering, &'a Division),
    /// Everything: the interface belongs to the stack.
    All,
    /// Answers to echo requests with this identifier, and nothing else: for the self-test of a device. Packets of owned ports come to nothing.
    EchoReplies(u16, Option<&'a Steering>),
}

impl Redirect<'_> {
    /// What a device takes while it is tested that is to take this.
    pub(crate) fn tested(self, identifier: u16) -> Self {
        match self {
            Redirect::Owned(steering) | Redirect::Divided(steering, _) => Redirect::EchoReplies(identifier, Some(steering)),
            Redirect::All | Redirect::EchoReplies(..) => Redirect::EchoReplies(identifier, None),
        }
    }

    /// Attaches the program to interface `index`.
    ///
    /// # Errors
    /// The kernel refuses it, the driver lacks `mode`, or another XDP program is attached.
    pub fn attach(self, index: u32, sockets: &SocketMap, mode: XdpMode) -> io::Result<Attachment> {
        let program = sys::load(sys::ProgramKind::Xdp, &self.program(sockets))?;
        Ok(Attachment::by(sys::attach_xdp(program.as_fd(), index, mode)?))
    }

    /// Puts the program into the place of the one of `attachment`.
    ///
    /// # Errors
    /// The kernel refuses it; the other one stays.
    pub fn replace(self, attachment: &Attachment, sockets: &SocketMap) -> io::Result<()> {
        attachment.replace_xdp(&self.program(sockets))
    }

    fn program(self, sockets: &SocketMap) -> Vec<assembler::Instruction> {
        match self {
            Redirect::Owned(steering) => program::redirect(steering.tables(), sockets, None),
            Redirect::Divided(steering, division) => program::redirect(steering.tables(), sockets, Some(division)),
            Redirect::All => program::redirect_all(sockets),
            Redirect::EchoReplies(identifier, hidden) => {
                program::redirect_echo_replies(sockets, identifier, hidden.map(Steering::tables))
            }
        }
    }
}

impl PortFilter {
    /// Packets of `protocol` to `ip`:`port` are ours from now on: of the workers whose bits are set in `workers`, which is
    /// one of them or all; without any they come to nothing.
    ///
    /// # Errors
    /// The table is full.
    pub fn own(&self, protocol: Protocol, ip: IpAddr, port: u16, workers: u32) -> io::Result<()> {
        let flows = self.flows();
        let mark = if protocol == Protocol::Tcp { flows.mark((ip, port)) } else { 0 };
        sys::update(self.table.as_fd(), &port_key(protocol, ip, port), workers | mark)
    }

    /// Datagrams to `group`:`port` come to the AF_PACKET sockets of the `workers` from now on, and to the kernel too.
    ///
    /// # Errors
    /// The table is full.
    pub fn own_copies(&self, group: IpAddr, port: u16, workers: u32) -> io::Result<()> {
        sys::update(self.table.as_fd(), &port_key(Protocol::Udp, group, port), workers | COPIES)
    }

    /// Packets of `protocol` to `ip`:`port` are the kernel's again. Releasing what is not owned does nothing.
    ///
    /// # Errors
    /// The kernel refused, which it does not as long as the table exists.
    pub fn release(&self, protocol: Protocol, ip: IpAddr, port: u16) -> io::Result<()> {
        if protocol == Protocol::Tcp {
            self.flows().forget_port((ip, port))?;
        }
        sys::delete_if_there(self.table.as_fd(), &port_key(protocol, ip, port))
    }

    /// New connections to `ip`:`port` of TCP are the kernel's from now on, although the port is owned: all flows but those to the peers
    /// in `stay`, until the port is released.
    ///
    /// # Errors
    /// There is no room for so many flows; nothing has changed.
    pub fn leave_port(&self, ip: IpAddr, port: u16, stay: &[(IpAddr, u16)]) -> io::Result<()> {
        self.flows().leave_port(self.table.as_fd(), (ip, port), stay)
    }

    /// Ends [`leave_port`](PortFilter::leave_port) of a port that is owned: until it is owned again its packets come to nothing, but for those
    /// of flows that are known to be the kernel's.
    ///
    /// # Errors
    /// The kernel refused, which it does not as long as the table exists.
    pub fn retake_port(&self, ip: IpAddr, port: u16) -> io::Result<()> {
        let mut flows = self.flows();
        flows.forget_port((ip, port))?;
        sys::update(self.table.as_fd(), &port_key(Protocol::Tcp, ip, port), flows.mark((ip, port)))
    }

    /// Packets of this flow of TCP are the kernel's from now on, although its port is owned: see `kernel_flows`.
    ///
    /// # Errors
    /// There are [`FLOWS_MAX`] of them; the flow stays the workers'.
    pub fn leave_flow(&self, flow: &Flow) -> io::Result<()> {
        self.flows().enter(self.table.as_fd(), flow)
    }

    /// Packets of all connections of TCP that the kernel has at `ip`:`port` are the kernel's from now on, whether the port is owned or not.
    /// Returns false where there are more than `most` or than there is room for; then nothing has changed. No connection is missed where no packet reaches the
    /// kernel meanwhile: the caller owns the port for no worker first. The calling thread must be in the interfaces' network namespace.
    ///
    /// # Errors
    /// The kernel does not say which it has (`sock_diag`, `tcp_diag`), or there is no room; nothing has changed.
    ///
    /// # Blocking
    /// Some hundred microseconds, and two for each connection.
    pub fn leave_connections(&self, ip: IpAddr, port: u16, most: usize) -> io::Result<bool> {
        let local = (ip, port);
        let room = (FLOWS_MAX as usize).saturating_sub(self.flows().count());
        let Some(peers) = sockets::Asker::open()?.peers_of(local, most)? else { return Ok(false) };
        let flows = peers.into_iter().map(|remote| Flow { local, remote });
        let new: Vec<Flow> = flows.filter(|flow| !self.flows().has(flow)).collect();
        if new.len() > room {
            return Ok(false);
        }
        for (count, flow) in new.iter().enumerate() {
            if let Err(error) = self.leave_flow(flow) {
                new.iter().take(count).try_for_each(|flow| self.retake_flow(flow))?;
                return Err(error);
            }
        }
        Ok(true)
    }

    /// The flow is the workers' again, as its port is. Nothing happens to one that was not left to the kernel.
    ///
    /// # Errors
    /// The kernel refused, which it does not as long as the table exists.
    pub fn retake_flow(&self, flow: &Flow) -> io::Result<()> {
        self.flows().take_back(self.table.as_fd(), flow)
    }

    /// Takes back flows whose socket the kernel does not have any more; TIME-WAIT counts as one. Looks at 1,024 at most: the next call
    /// goes on with the others. Returns how many flows the kernel still has. The calling thread must be in the interfaces' network namespace.
    ///
    /// # Errors
    /// The kernel does not say which sockets it has (`sock_diag`, `tcp_diag`); what is not known stays.
    ///
    /// # Blocking
    /// Some milliseconds; other callers wait for the question about one flow at most.
    pub fn sweep(&self) -> io::Result<usize> {
        let flows = self.flows().next_flows();
        if !flows.is_empty() {
            let mut asker = sockets::Asker::open()?;
            flows.iter().try_for_each(|flow| self.flows().check(self.table.as_fd(), flow, &mut asker))?;
        }
        Ok(self.flows().count())
    }

    /// Number of flows that are left to the kernel.
    pub fn kernel_flows(&self) -> usize {
        self.flows().count()
    }

    fn flows(&self) -> MutexGuard<'_, KernelFlows> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SocketMap {
    /// Room for the sockets that `workers` workers have on `queues` receive queues.
    ///
    /// # Errors
    /// The kernel refuses BPF; the text names the fix.
    pub fn new(queues: u32, workers: usize) -> io::Result<SocketMap> {
        Ok(SocketMap { map: sys::create_map(sys::MapKind::Sockets, 4, queues * workers as u32)?, workers })
    }

    /// Packets of `worker` that arrive on `queue` go to `socket`, which must be bound to it.
    ///
    /// # Errors
    /// It is no AF_XDP socket, or `queue` is out of range.
    pub fn set(&self, queue: u32, worker: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        sys::update_with_socket(self.map.as_fd(), queue * self.workers as u32 + worker as u32, socket)
    }
}

// A key of the table: address (IPv4 mapped) and port as they stand in a packet, the protocol, a zero byte.
const KEY_ADDRESS: i16 = 0;
const KEY_PORT: i16 = 16;
const KEY_PROTOCOL: i16 = 18;
const KEY_BYTES: i16 = 20;

fn port_key(protocol: Protocol, ip: IpAddr, port: u16) -> [u8; KEY_BYTES as usize] {
    let address: Ipv6Addr = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut key = [0; KEY_BYTES as usize];
    key[KEY_ADDRESS as usize..][..16].copy_from_slice(&address.octets());
    key[KEY_PORT as usize..][..2].copy_from_slice(&port.to_be_bytes());
    key[KEY_PROTOCOL as usize] = protocol as u8;
    key
}

#[cfg(test)]
mod tests;
