//! The service's commands to a worker: a queue, and an eventfd that wakes a sleeping worker.
//!
//! Promises: commands run in order, between two iterations. A command that has an answer waits for it; if the worker is
//! gone, the answer is [`Gone`]. Does not do: data. Payload travels in channels only.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use ringway_channel::{ProcessDescriptor, SlotRef};
use ringway_device::Device;
use ringway_shm::{Arena, Duration};
use ringway_stack::SocketAddress;
use ringway_stack::handover::{ConnectionImage, Quiet};
use ringway_stack::{Autoconfiguration, Cidr, MacAddress, Route, StackConfig, TcpConfig};
use rustix::event::{EventfdFlags, eventfd};

use crate::attach::{AdoptionCommand, BulkPolicy, HandoverCommand, Maker, NewRegion};
use crate::claim::{Claim, Rights};
use crate::guard::Guard;
use crate::handover::{Departure, Late, Left, NotAdopted, Stays, Wanted};
use crate::quota::{GroupQuotas, Quota, UsageSource, UserQuotas};
use crate::verdict::{Allowance, Ruling};

/// The worker has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl From<Gone> for io::Error {
    fn from(_: Gone) -> io::Error {
        io::Error::new(io::ErrorKind::BrokenPipe, "the worker has stopped")
    }
}

/// Names a region of one worker. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u32);

/// Opens a device that takes its frames from the worker's arena; runs in the worker's thread.
pub type OpenDevice = Box<dyn FnOnce(&Arena) -> io::Result<Box<dyn Device>> + Send>;

/// An interface to serve.
///
/// ```
/// use ringway_engine::InterfaceInfo;
///
/// let interface = InterfaceInfo { name: "ring0".into(), mtu: 1500, owned: true, ..InterfaceInfo::default() };
/// assert_eq!(interface.vlan, None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct InterfaceInfo {
    /// The kernel's name, or one that Ringway chose.
    pub name: String,
    /// Its link address.
    pub mac: MacAddress,
    /// Largest IP packet, bytes; the device's own limit counts if it is smaller.
    pub mtu: u16,
    /// The stack answers ARP and ICMP echo and resolves neighbors itself; `false`: the kernel does,
    /// and its neighbors are mirrored.
    pub owned: bool,
    /// IPv6 stateless autoconfiguration by the stack (RFC 4862); only if `owned`.
    pub autoconfiguration: Autoconfiguration,
    /// The VLAN (802.1Q, 1 to 4094) that the interface is on.
    pub vlan: Option<u16>,
    /// The kernel's number of the interface, for IP_PKTINFO; 0: the kernel's number for the name, if it has one.
    pub kernel_number: u32,
}

/// Limits of a worker as a whole, which can change while it runs.
#[derive(Clone, Debug)]
pub struct WorkerLimits {
    /// Sizes of the stack's tables, and its replies a second; its other settings are not looked at.
    pub stack: StackConfig,
    /// Application groups at most.
    pub regions_max: u32,
    /// Connections at most that no application has any more.
    pub orphans_max: u32,
    /// Connections that are to go to the kernel for their bulk data; `None`: none is.
    pub bulk: Option<BulkPolicy>,
    /// Groups that programs join from now on at interfaces that the kernel shares are the stack's too.
    pub multicast_on_stack: bool,
}

/// Request of an application group for a channel.
#[derive(Clone, Debug)]
pub struct RegionRequest {
    /// The group's token.
    pub token: [u8; 16],
    /// User of the first process.
    pub uid: u32,
    /// Process id of the first process; shown by tools.
    pub pid: u32,
    /// Name of the program; shown by tools.
    pub program: String,
    /// Proof by which the group shows that a port is its own.
    pub rights: Rights,
    /// What rules allow it.
    pub allowance: Allowance,
}

impl RegionRequest {
    /// That of this process for a group whose ports need not be shown, as in simulations.
    pub fn trusted(token: [u8; 16], program: &str) -> RegionRequest {
        let (pid, program) = (std::process::id(), program.to_string());
        RegionRequest { token, uid: 0, pid, program, rights: Rights::Trusted, allowance: Allowance::default() }
    }
}

/// Resources that the processes of a group need to reach the worker.
#[derive(Debug)]
#[non_exhaustive]
pub struct RegionMemory {
    /// The region's name at the worker.
    pub region: RegionId,
    /// The sealed memory.
    pub memory: OwnedFd,
    /// The eventfd that wakes the worker.
    pub doorbell: OwnedFd,
}

pub(crate) enum Command {
    AddInterface(InterfaceInfo, OpenDevice, Reply<io::Result<u32>>),
    ReplaceInterface(u32, InterfaceInfo, OpenDevice, Reply<io::Result<()>>),
    CloseInterface(u32, Reply<()>),
    RemoveInterface(u32),
    SetAddresses(u32, Vec<Cidr>),
    SetDeprecated(u32, Vec<IpAddr>),
    SetRoutes(Vec<Route>),
    SetNeighbor(u32, IpAddr, Option<MacAddress>),
    AttachRegion(Box<NewRegion>, Reply<io::Result<RegionMemory>>),
    ContextWakeFd(RegionId, u32, Arc<OwnedFd>),
    Claim(RegionId, SlotRef, Claim, Reply<bool>),
    Revoke(RegionId, SlotRef),
    RulesChanged(Reply<()>),
    Guard(RegionId, Guard, Reply<()>),
    Rule(RegionId, Ruling, Reply<()>),
    SetQuotas(UserQuotas, GroupQuotas),
    SetLimits(Box<WorkerLimits>),
    Settle(Reply<()>),
    Handover(HandoverCommand),
    Adoption(AdoptionCommand),
    SetTcpConfig(Box<TcpConfig>),
    QuotaHit(Quota, u32),
    ShowUsage(UsageSource),
    ProcessGone(RegionId, u32, u32),
    DetachRegion(RegionId),
    Finish(Duration),
    Stop,
}

/// Sender of a command's answer.
pub(crate) struct Reply<T>(SyncSender<T>);

impl<T> Reply<T> {
    /// For one answer, and where it comes out.
    pub(crate) fn pair() -> (Reply<T>, Receiver<T>) {
        let (reply, answer) = sync_channel(1);
        (Reply(reply), answer)
    }

    /// Answers. The receiver may be gone; then the answer is dropped.
    pub(crate) fn answer(self, answer: T) {
        drop(self.0.try_send(answer));
    }
}

impl Reply<()> {
    /// Answers when `work` is done.
    pub(crate) fn after(self, work: impl FnOnce()) {
        work();
        self.answer(());
    }
}

/// Sends commands to a worker, from any thread.
#[derive(Clone)]
pub struct WorkerHandle {
    commands: Sender<Command>,
    wake_fd: Arc<OwnedFd>,
    maker: Arc<Maker>,
}

impl WorkerHandle {
    /// Adds an interface and returns its number, by which all other commands name it.
    ///
    /// # Errors
    /// The device could not be opened, or the worker is gone.
    ///
    /// # Blocking
    /// Until the worker has opened the device.
    pub fn add_interface(&self, interface: InterfaceInfo, open: OpenDevice) -> io::Result<u32> {
        self.ask(|reply| Command::AddInterface(interface, open, reply))?
    }

    /// Closes the device of an interface, which stays without one.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until it is closed.
    pub fn close_interface(&self, number: u32) -> Result<(), Gone> {
        self.ask(|reply| Command::CloseInterface(number, reply))
    }

    /// Closes the device of an interface and opens another one in its place, because the link address or the MTU has
    /// changed. Addresses stay.
    ///
    /// # Errors
    /// The device could not be opened (the interface stays, without a device), or the worker is gone.
    ///
    /// # Blocking
    /// Until the worker has opened the device.
    pub fn replace_interface(&self, number: u32, interface: InterfaceInfo, open: OpenDevice) -> io::Result<()> {
        self.ask(|reply| Command::ReplaceInterface(number, interface, open, reply))?
    }

    /// Closes an interface; its number may be reused from then on.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn remove_interface(&self, number: u32) -> Result<(), Gone> {
        self.tell(Command::RemoveInterface(number))
    }

    /// Replaces the addresses of an interface.
    ///
    /// # Errors
    /// The worker is gone; the same holds for the calls that follow.
    pub fn set_addresses(&self, interface: u32, addresses: Vec<Cidr>) -> Result<(), Gone> {
        self.tell(Command::SetAddresses(interface, addresses))
    }

    /// Sets which addresses of an interface are deprecated: new connections prefer the others.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn set_deprecated(&self, interface: u32, addresses: Vec<IpAddr>) -> Result<(), Gone> {
        self.tell(Command::SetDeprecated(interface, addresses))
    }

    /// Replaces the routing table; the networks of the interfaces' own addresses need routes too.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn set_routes(&self, routes: Vec<Route>) -> Result<(), Gone> {
        self.tell(Command::SetRoutes(routes))
    }

    /// Sets or (`None`) removes a neighbor.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn set_neighbor(&self, interface: u32, ip: IpAddr, mac: Option<MacAddress>) -> Result<(), Gone> {
        self.tell(Command::SetNeighbor(interface, ip, mac))
    }

    /// Makes a channel for an application group.
    ///
    /// # Errors
    /// The system has no memory or descriptors, or the worker is gone.
    ///
    /// # Blocking
    /// Until the caller's thread has made the region and the worker has taken it.
    pub fn attach_region(&self, request: RegionRequest) -> io::Result<RegionMemory> {
        let made = self.maker.make(request)?;
        self.ask(|reply| Command::AttachRegion(Box::new(made), reply))?
    }

    /// Gives the worker the eventfd that rings a wait context. No application may hold it.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn context_wake_fd(&self, region: RegionId, context: u32, wake_fd: Arc<OwnedFd>) -> Result<(), Gone> {
        self.tell(Command::ContextWakeFd(region, context, wake_fd))
    }

    /// Records that an application may use a port for the socket of `slot`. Returns false if there is no such slot.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until the worker has recorded it, so that a request that needs the claim finds it.
    pub fn claim(&self, region: RegionId, slot: SlotRef, claim: Claim) -> Result<bool, Gone> {
        self.ask(|reply| Command::Claim(region, slot, claim, reply))
    }

    /// Ends the socket of `slot`, because the kernel socket behind its claim has changed.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn revoke(&self, region: RegionId, slot: SlotRef) -> Result<(), Gone> {
        self.tell(Command::Revoke(region, slot))
    }

    /// Reports that the answers of [`Ports::judge_port`](crate::Ports::judge_port) and
    /// [`judge_connection`](crate::Ports::judge_connection) have changed: listeners follow, and connections that are no longer
    /// allowed end as if they had timed out, without a packet.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until the worker obeys.
    pub fn rules_changed(&self) -> Result<(), Gone> {
        self.ask(Command::RulesChanged)
    }

    /// Makes the sockets that `guard` names the kernel's for a group, beside those before: BPF programs of a cgroup of its processes see
    /// it there. What the group has open follows.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until the worker obeys.
    pub fn guard(&self, region: RegionId, guard: Guard) -> Result<(), Gone> {
        self.ask(|reply| Command::Guard(region, guard, reply))
    }

    /// Reports what rules of the configuration say of a group now. Where they leave it to the kernel, its listeners get no new connection, its
    /// datagram sockets are the kernel's and the holders of its connections are asked for their kernel sockets. What is denied is what it opens
    /// from now on; terms hold for what is open, too.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until the worker obeys.
    pub fn rule(&self, region: RegionId, ruling: Ruling) -> Result<(), Gone> {
        self.ask(|reply| Command::Rule(region, ruling, reply))
    }

    /// Replaces the quotas of each user and each group. What they have beyond them stays theirs.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn set_quotas(&self, user: UserQuotas, group: GroupQuotas) -> Result<(), Gone> {
        self.tell(Command::SetQuotas(user, group))
    }

    /// Replaces the limits of the worker as a whole. What there is beyond them stays until it ends.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn set_limits(&self, limits: WorkerLimits) -> Result<(), Gone> {
        self.tell(Command::SetLimits(Box::new(limits)))
    }

    /// Replaces TCP's settings, for connections that are open too.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn set_tcp_config(&self, config: TcpConfig) -> Result<(), Gone> {
        self.tell(Command::SetTcpConfig(Box::new(config)))
    }

    /// Takes a connection out of the stack, for a kernel socket. The caller must end it by [`arrived`](Self::arrived) or
    /// [`returned`](Self::returned): until then the program waits in calls on the socket. `None`: it is a listener, whose port is the
    /// kernel's now, and nothing is left to be done. The inner error is why it stays.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until the program is in no call on the socket, at most 200 ms.
    pub fn depart(&self, region: RegionId, slot: SlotRef) -> Result<Result<Option<Departure>, Stays>, Gone> {
        self.ask(|reply| Command::Handover(HandoverCommand::Depart(region, slot, None, reply)))
    }

    /// As [`depart`](Self::depart), for a connection whose kernel socket was found in this place and not given: it stays if it is not there any more.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// As [`depart`](Self::depart).
    pub fn depart_from(
        &self,
        region: RegionId,
        slot: SlotRef,
        place: ProcessDescriptor,
    ) -> Result<Result<Option<Departure>, Stays>, Gone> {
        self.ask(|reply| Command::Handover(HandoverCommand::Depart(region, slot, Some(place), reply)))
    }

    /// Reports that the kernel goes on with a connection that has departed as `image`; returns what the program has asked for
    /// meanwhile.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until the worker has told the program.
    pub fn arrived(&self, region: RegionId, slot: SlotRef, image: Box<ConnectionImage>) -> Result<Late, Gone> {
        self.ask(|reply| Command::Handover(HandoverCommand::Arrived(region, slot, image, reply)))
    }

    /// Brings back a connection that has departed as `image`: it goes on in the stack.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn returned(&self, region: RegionId, slot: SlotRef, image: Box<ConnectionImage>) -> Result<(), Gone> {
        self.tell(Command::Handover(HandoverCommand::Returned(region, slot, image)))
    }

    /// The packets of a connection of the kernel's may come to the stack from now on, which is silent about them. The caller must end it by
    /// [`adopt`](Self::adopt) or [`give_up`](Self::give_up). The inner error is why the connection stays with the kernel.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until the worker has answered.
    pub fn expect(&self, ends: [SocketAddress; 2]) -> Result<Result<(), NotAdopted>, Gone> {
        self.ask(|reply| Command::Adoption(AdoptionCommand::Expect(ends, reply)))
    }

    /// The connection goes on in a fresh slot. After the inner error it does not, and the silence goes on.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until the worker has answered.
    pub fn adopt(&self, region: RegionId, slot: SlotRef, quiet: Quiet) -> Result<Result<(), NotAdopted>, Gone> {
        self.ask(|reply| Command::Adoption(AdoptionCommand::Adopt(region, slot, quiet, reply)))
    }

    /// The kernel goes on with a connection that was expected.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn give_up(&self, ends: [SocketAddress; 2]) -> Result<(), Gone> {
        self.tell(Command::Adoption(AdoptionCommand::GiveUp(ends)))
    }

    /// Asks the programs for the kernel sockets of connections, so that these go home; returns for how many.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until the programs are told. They answer at their next call or wake-up.
    pub fn want(&self, wanted: Wanted) -> Result<u32, Gone> {
        self.ask(|reply| Command::Handover(HandoverCommand::Want(wanted, reply)))
    }

    /// Asks the programs to offer connections again that this service has handed over.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until the programs are told. They offer them at their next call or wake-up.
    pub fn recall(&self) -> Result<(), Gone> {
        self.ask(|reply| Command::Handover(HandoverCommand::Recall(reply)))
    }

    /// Resets connections, as `ss -K` does; returns how many.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until they are reset.
    pub fn kill(&self, wanted: Wanted) -> Result<u32, Gone> {
        self.ask(|reply| Command::Handover(HandoverCommand::Kill(wanted, reply)))
    }

    /// Sends all sockets home: new connections are the kernel's, and those that have not ended after `drain` are asked for at their programs.
    /// [`leave_ports`](Self::leave_ports) is due afterwards, when each worker has done this.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until the last connection has left, or `limit` after `drain`.
    pub fn leave(&self, drain: Duration, limit: Duration) -> Result<Left, Gone> {
        self.ask(|reply| Command::Handover(HandoverCommand::Leave { drain, limit, reply }))
    }

    /// Gives the ports of all listeners and datagram sockets to the kernel, and resets what waits at the listeners. A program that sees it of one worker
    /// closes its listener at all of them.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until the worker has done it.
    pub fn leave_ports(&self) -> Result<(), Gone> {
        self.ask(|reply| Command::Handover(HandoverCommand::LeavePorts(reply)))
    }

    /// Adds to the statistics what `source` knows of quotas.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn show_usage(&self, source: UsageSource) -> Result<(), Gone> {
        self.tell(Command::ShowUsage(source))
    }

    /// Counts a refusal of a user or group that has reached its quota.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn quota_hit(&self, quota: Quota, holder: u32) -> Result<(), Gone> {
        self.tell(Command::QuotaHit(quota, holder))
    }

    /// Returns when all earlier commands are done.
    ///
    /// # Errors
    /// The worker is gone.
    ///
    /// # Blocking
    /// Until then.
    pub fn settle(&self) -> Result<(), Gone> {
        self.ask(Command::Settle)
    }

    /// Reports that process `pid` of a group has died, whose number is `process`: sockets that only it held are closed as the kernel
    /// would. Nothing happens when the number is another's by now.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn process_gone(&self, region: RegionId, process: u32, pid: u32) -> Result<(), Gone> {
        self.tell(Command::ProcessGone(region, process, pid))
    }

    /// Reports that the last process of a group is gone: everything is closed and the region forgotten.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn detach_region(&self, region: RegionId) -> Result<(), Gone> {
        self.tell(Command::DetachRegion(region))
    }

    /// Ends the worker's `run` when the data of ended programs is acknowledged and their peers have closed too, or
    /// `limit` from now. A peer that has everything but does not close is waited for at most one second.
    ///
    /// # Errors
    /// The worker is gone already.
    pub fn finish(&self, limit: Duration) -> Result<(), Gone> {
        self.tell(Command::Finish(limit))
    }

    /// Ends one sleep of the worker, or of a program of the native API.
    pub fn wake(&self) {
        // A full doorbell has been rung already.
        rustix::io::write(&*self.wake_fd, &1u64.to_ne_bytes()).ok();
    }

    /// Ends the worker's `run`. The kernel then resets the connections.
    ///
    /// # Errors
    /// The worker is gone already.
    pub fn stop(&self) -> Result<(), Gone> {
        self.tell(Command::Stop)
    }

    fn tell(&self, command: Command) -> Result<(), Gone> {
        self.commands.send(command).map_err(|_| Gone)?;
        match rustix::io::write(&*self.wake_fd, &1u64.to_ne_bytes()) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(_) => Err(Gone),
        }
    }

    fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Gone> {
        let (reply, answer) = Reply::pair();
        self.tell(command(reply))?;
        answer.recv().map_err(|_| Gone)
    }
}

/// The worker's end.
pub(crate) struct Commands {
    queue: Receiver<Command>,
    wake_fd: Arc<OwnedFd>,
}

impl Commands {
    pub(crate) fn new(maker: Arc<Maker>) -> io::Result<(Commands, WorkerHandle)> {
        let wake_fd = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (commands, queue) = channel();
        Ok((Commands { queue, wake_fd: wake_fd.clone() }, WorkerHandle { commands, wake_fd, maker }))
    }

    pub(crate) fn next(&self) -> Option<Command> {
        self.queue.try_recv().ok()
    }

    pub(crate) fn wake_fd(&self) -> &OwnedFd {
        &self.wake_fd
    }
}
