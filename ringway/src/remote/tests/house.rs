//! A worker, a broker that accepts every program, and a minimal executor.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};

use ringway_channel::attach::{ClientMessage, ControlConnection, ControlListener, WakeFdKind, make_wake_fd};
use ringway_channel::{ProcessTable, Shape};
use ringway_device::memory::{self, MemoryOptions};
use ringway_engine::{
    Host, InterfaceInfo, OpenDevice, PortError, Ports, RegionId, RegionRequest, Transport, WorkerConfig, WorkerHandle, spawn,
};
use ringway_shm::ArenaConfig;
use ringway_stack::{Cidr, MacAddress, Route};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::remote::Session;

/// The worker's address; the kernel does not have it.
pub(super) const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const SHAPE: Shape =
    Shape { slots: 256, rx_large: 512, rx_small: 512, tx_large: 512, tx_small: 512, tx_bulk: 32, rx_bulk: 4, rx_middle: 4 };

static NEXT: AtomicUsize = AtomicUsize::new(0);

struct FreePorts(u16);

impl Ports for FreePorts {
    fn reserve(&mut self, _: IpAddr, port: u16) -> Result<u16, PortError> {
        self.0 += 1;
        Ok(if port == 0 { self.0 } else { port })
    }
    fn release(&mut self, _: IpAddr, _: u16) {}
    fn own(&mut self, _: Transport, _: IpAddr, _: u16) -> Result<(), PortError> {
        Ok(())
    }
    fn disown(&mut self, _: Transport, _: IpAddr, _: u16) {}
}

struct NoHost;

impl Host for NoHost {
    fn resolve(&mut self, _: u32, _: IpAddr) {}
    fn forked(&mut self, _: RegionId, _: u32, _: u32) {}
}

/// A service; dropping it ends it.
pub(super) struct House {
    path: PathBuf,
    stop: Arc<OwnedFd>,
    handle: WorkerHandle,
    broker: Option<JoinHandle<()>>,
    worker: Option<JoinHandle<()>>,
}

impl House {
    pub(super) fn new() -> House {
        let config = WorkerConfig { arena: ArenaConfig { large: 4_096, small: 4_096 }, shape: SHAPE, ..WorkerConfig::default() };
        let worker = spawn(config, Box::new(FreePorts(20_000)), Box::new(NoHost)).expect("memory is left");
        let handle = worker.handle.clone();
        let info = InterfaceInfo {
            name: "wire0".into(),
            mac: MacAddress([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            owned: true,
            ..InterfaceInfo::default()
        };
        let open: OpenDevice = Box::new(|arena| Ok(Box::new(memory::pair(arena, arena, MemoryOptions::default()).0)));
        let interface = handle.add_interface(info, open).expect("nothing to wait for");
        let network = Cidr { ip: LOCAL.into(), prefix_len: 24 };
        handle.set_addresses(interface, vec![network]).expect("it runs");
        let route = Route { destination: network, gateway: None, interface, metric: 0, source: None };
        handle.set_routes(vec![route]).expect("it runs");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ringway-remote-{}-{number}", std::process::id()));
        let listener = ControlListener::bind(&path).expect("a path of our own");
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("descriptors are left"));
        let (wake_fd, worker_handle) = (stop.clone(), handle.clone());
        let broker = thread::spawn(move || serve(&listener, &wake_fd, &worker_handle));
        let worker = thread::spawn(move || worker.join().expect("the worker ends well"));
        House { path, stop, handle, broker: Some(broker), worker: Some(worker) }
    }

    /// Attaches a program as a group of its own.
    pub(super) fn session(&self) -> Session {
        Session::attach(&self.path).expect("the broker says yes")
    }

    /// Ends the service.
    pub(super) fn end(&self) {
        rustix::io::write(&*self.stop, &1u64.to_ne_bytes()).expect("it counts");
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.end();
        // The broker first: a program that has just gone may still be leaving the worker.
        self.broker.take().into_iter().for_each(|thread| thread.join().expect("no panic"));
        self.handle.stop().expect("it runs");
        self.worker.take().into_iter().for_each(|thread| thread.join().expect("no panic"));
        std::fs::remove_file(&self.path).expect("it is ours");
    }
}

struct Member {
    control: ControlConnection,
    region: Option<RegionId>,
    /// Keeps the region's process number.
    _processes: Option<ProcessTable>,
}

fn serve(listener: &ControlListener, stop: &OwnedFd, worker: &WorkerHandle) {
    let mut members: Vec<Member> = Vec::new();
    loop {
        let (ready, stopped) = {
            let mut set = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
            set.extend(members.iter().map(|member| PollFd::new(&member.control, PollFlags::IN)));
            poll(&mut set, None).expect("a wait");
            let ready: Vec<bool> = set[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
            (ready, !set[0].revents().is_empty())
        };
        if stopped {
            return;
        }
        for (number, _) in ready.iter().enumerate().skip(1).filter(|(_, ready)| **ready).rev() {
            if !attend(&mut members[number - 1], worker) {
                let member = members.remove(number - 1);
                member.region.into_iter().for_each(|region| worker.detach_region(region).expect("it runs"));
            }
        }
        if ready[0] {
            let control = listener.accept().expect("it connects");
            members.push(Member { control, region: None, _processes: None });
        }
    }
}

/// Answers one message; returns false after the last.
fn attend(member: &mut Member, worker: &WorkerHandle) -> bool {
    match member.control.receive() {
        Ok(ClientMessage::Hello { token, .. }) => {
            let memory = worker.attach_region(RegionRequest::trusted(token, "test")).expect("a region");
            let processes = ProcessTable::new(memory.memory.as_fd(), SHAPE).expect("the region is good");
            let process = processes.claim(std::process::id(), None).expect("a number is free");
            member.control.welcome(SHAPE, process, memory.memory.as_fd(), memory.doorbell.as_fd()).expect("it listens");
            member.region = Some(memory.region);
            member._processes = Some(processes);
            true
        }
        Ok(ClientMessage::Context { context, .. }) => {
            let (ringer, wake_fd) = make_wake_fd(WakeFdKind::Epoll).expect("descriptors are left");
            let region = member.region.expect("it has said hello");
            worker.context_wake_fd(region, context, Arc::new(ringer)).expect("it runs");
            member.control.give_wake_fd([1; 16], wake_fd.as_fd()).expect("it listens");
            true
        }
        Ok(ClientMessage::Claim { .. } | ClientMessage::Child { .. } | ClientMessage::Settle) => {
            member.control.done().expect("it listens");
            true
        }
        _ => false,
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
