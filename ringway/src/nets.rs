//! Several workers with one address: a [`Net`] on each of several threads, over one interface.
//!
//! ```text
//!  let seats = Nets::packet(&config, 2, "eth0", address)?;
//!  for seat in seats { thread::spawn(move || { let mut net = seat.open()?; bind, wait, serve ... }) }
//! ```
//! Each flow belongs to one worker, by its flow group ([`FlowGroup`]). A program that listens on a port of all workers
//! has a listener in each, and each accepts its own flows; one that connects gets a local port that makes the flow its
//! own. Promises: no lock and no shared cache line between workers on the way of a packet. Does not do: UDP sockets
//! that send first. The answer goes to the worker of its flow, so they must choose a port for which [`Net::has_flow`]
//! returns true.

use std::io;
use std::sync::Arc;

use ringway_device::Device;
use ringway_device::memory::link::Link;
use ringway_device::packet::{Packet, PacketOptions};
use ringway_device::share::{self, Links, Share};
use ringway_device::steering::groups::{Groups, WORKERS_MAX};
use ringway_engine::InterfaceInfo;
use ringway_shm::wire::WireEnd;
use ringway_shm::{FlowGroup, Instant};
use ringway_stack::{Cidr, SocketAddress};

use super::config::NetConfig;
use super::net::Net;
use super::open::{MTU, own_mac};

/// Makes the seats of workers.
///
/// ```
/// use ringway::NetConfig;
/// use ringway::{Cidr, Nets};
///
/// /// Serves one address with two threads.
/// fn serve(interface: &str, address: Cidr) -> std::io::Result<()> {
///     for seat in Nets::packet(&NetConfig::default(), 2, interface, address)? {
///         std::thread::spawn(move || {
///             let mut net = seat.open()?;
///             net.run(|_net, event| println!("{event:?}"))
///         });
///     }
///     Ok(())
/// }
/// ```
pub struct Nets;

/// The seat of one worker; it is moved to the worker's thread and opened there.
///
/// ```
/// use ringway::Seat;
///
/// fn names(seats: &[Seat]) -> Vec<String> {
///     seats.iter().map(|seat| format!("worker {}", seat.worker())).collect()
/// }
/// ```
pub struct Seat {
    config: NetConfig,
    way: Way,
    address: Cidr,
    member: Member,
    links: Links,
}

/// Connection of a worker to the interface.
enum Way {
    /// A socket of its own on the interface with this name.
    Packet(String),
    /// One end of a link to one worker of the other side.
    Link(WireEnd),
}

/// Index of a `Net` among several workers.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) groups: Arc<Groups>,
    pub(crate) worker: usize,
}

impl Nets {
    /// Makes seats for `workers` workers that join the link of an interface of this machine with one address, as
    /// [`Net::add_packet`] does with one worker. The kernel brings each packet to the right worker.
    ///
    /// # Errors
    /// More workers than 64, or none; no memory for the links between them.
    pub fn packet(config: &NetConfig, workers: usize, interface: &str, address: Cidr) -> io::Result<Vec<Seat>> {
        seats(config, (0..workers).map(|_| Way::Packet(interface.into())).collect(), address)
    }

    /// Makes seats for workers that have one end each of a link to one of as many workers in another process. Packets
    /// that a link brings to the wrong worker are passed on.
    ///
    /// # Errors
    /// The errors of [`packet`](Nets::packet).
    pub fn links(config: &NetConfig, ends: Vec<WireEnd>, address: Cidr) -> io::Result<Vec<Seat>> {
        seats(config, ends.into_iter().map(Way::Link).collect(), address)
    }
}

fn seats(config: &NetConfig, ways: Vec<Way>, address: Cidr) -> io::Result<Vec<Seat>> {
    let workers = ways.len();
    if !(1..=WORKERS_MAX).contains(&workers) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{workers} workers: 1 to {WORKERS_MAX} are possible")));
    }
    let mut config = config.clone();
    if config.stack.seed == 0 {
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        config.stack.seed = u64::from_ne_bytes(seed);
    }
    let groups = Arc::new(Groups::new(workers));
    let seat = |(worker, (way, links)): (usize, (Way, Links))| {
        let mut config = config.clone();
        config.name = format!("ringway-w{worker}");
        if worker > 0 {
            // The first keeps the name; each has its own file.
            config.stats_path = config.stats_path.map(|path| path.with_extension(worker.to_string()));
            config.capture_path = config.capture_path.map(|path| path.with_extension(worker.to_string()));
        }
        Seat { config, way, address, member: Member { groups: groups.clone(), worker }, links }
    };
    Ok(ways.into_iter().zip(share::links(workers)?).enumerate().map(seat).collect())
}

impl Seat {
    /// The worker's number, from 0.
    pub fn worker(&self) -> usize {
        self.member.worker
    }

    /// Opens a `Net` on the calling thread. It serves its flows from now on; flows of workers that have not yet begun
    /// wait at their links.
    ///
    /// # Errors
    /// The errors of [`Net::new`] and [`Net::add_packet`].
    pub fn open(self) -> io::Result<Net> {
        self.open_at(ringway_engine::clock::now())
    }

    /// Like `open`, for a time that is passed in.
    ///
    /// # Errors
    /// The errors of `open`.
    pub fn open_at(self, now: Instant) -> io::Result<Net> {
        let Member { groups, worker } = self.member.clone();
        let mut net = Net::new_at(now, self.config)?;
        let mut info = InterfaceInfo { mac: own_mac(self.address), mtu: MTU, owned: true, ..InterfaceInfo::default() };
        let device: Box<dyn Device> = match self.way {
            Way::Packet(interface) => {
                let packet = Packet::open(&interface, None, PacketOptions::default(), net.arena())?;
                (info.name, info.mtu) = (packet.interface().name.clone(), packet.interface().mtu);
                groups.enter(worker, &packet)?;
                Box::new(packet)
            }
            Way::Link(end) => {
                info.name = "link".into();
                Box::new(Link::open(end, MTU, net.arena())?)
            }
        };
        let share = Share::new(device, groups.clone(), worker, self.links, net.arena())?;
        net.stack().set_flow_groups(groups.of(worker));
        net.add_interface(&info, &[self.address], Box::new(share));
        net.member = Some(self.member);
        Ok(net)
    }
}

impl Net {
    /// Returns true if packets of the flow between `local` and `remote` come to this worker; always true for the only
    /// one.
    pub fn has_flow(&self, local: std::net::SocketAddr, remote: std::net::SocketAddr) -> bool {
        let end = |address: std::net::SocketAddr| SocketAddress { ip: address.ip(), port: address.port() };
        self.worker.context().stack.has_flow(end(local), end(remote))
    }

    /// The worker that has a flow group; `None`: this is the only one.
    pub fn worker_of(&self, group: FlowGroup) -> Option<usize> {
        self.member.as_ref().map(|member| member.groups.owner(group))
    }
}
