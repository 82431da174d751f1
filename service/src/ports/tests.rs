use std::collections::{BTreeSet, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use ringway_engine::{PortError, Ports, Transport};
use ringway_shm::Flow;

use crate::config::RuleChoice;
use crate::firewall::Gate;

use super::{NoSteering, SharedPorts, Steering, WorkerPorts};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const FOREIGN: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));

/// Remembers what is steered; has room for one port. Of port 85 the kernel has too many connections.
struct Table(Arc<Mutex<BTreeSet<(IpAddr, u16)>>>);

impl Steering for Table {
    fn own(&mut self, _: Transport, ip: IpAddr, port: u16, _: u32) -> io::Result<()> {
        let mut table = self.0.lock().expect("not poisoned");
        if table.iter().any(|end| *end != (ip, port)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        table.insert((ip, port));
        Ok(())
    }

    fn release(&mut self, _: Transport, ip: IpAddr, port: u16) -> io::Result<()> {
        self.0.lock().expect("not poisoned").remove(&(ip, port));
        Ok(())
    }

    fn leave_flow(&mut self, _: &Flow) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn retake_flow(&mut self, _: &Flow) -> io::Result<()> {
        Ok(())
    }

    fn retake_port(&mut self, _: IpAddr, _: u16) -> io::Result<()> {
        Ok(())
    }

    fn leave_port(&mut self, _: IpAddr, _: u16, _: &[(IpAddr, u16)]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn leave_connections(&mut self, _: IpAddr, port: u16, _: usize) -> io::Result<bool> {
        Ok(port != 85)
    }

    fn sweep(&mut self) -> io::Result<usize> {
        Ok(0)
    }
}

fn alone(steering: Box<dyn Steering>) -> WorkerPorts {
    WorkerPorts::for_workers(steering, 1).next().expect("one was asked for")
}

fn shared() -> SharedPorts {
    SharedPorts::new(alone(Box::new(NoSteering)), HashSet::new(), (40_000, 40_002), 1)
}

#[test]
fn a_reserved_port_is_taken_for_the_kernel_until_it_is_released() {
    let mut ports = shared();
    let port = ports.reserve(LOCAL, 0).expect("there are free ports");
    let error = TcpListener::bind((LOCAL, port)).expect_err("the port is reserved");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    ports.release(LOCAL, port);
    TcpListener::bind((LOCAL, port)).expect("the port is free again");
}

#[test]
fn many_ports_are_all_different_and_of_the_kernels_range() {
    let (first, last) = super::kernel_range().expect("Linux says");
    let mut ports = shared();
    let given: BTreeSet<u16> = (0..300).map(|_| ports.reserve(LOCAL, 0).expect("there are free ports")).collect();
    assert_eq!(given.len(), 300);
    assert!(given.iter().all(|port| (first..=last).contains(port)));
}

#[test]
fn a_port_of_the_kernel_is_not_given() {
    let listener = TcpListener::bind((LOCAL, 0)).expect("there are free ports");
    let port = listener.local_addr().expect("bound").port();
    assert_eq!(shared().reserve(LOCAL, port), Err(PortError::InUse));
    assert_eq!(shared().reserve(FOREIGN, 0), Err(PortError::NotLocal));
}

#[test]
fn addresses_of_our_own_have_their_own_ports() {
    let mut ports = SharedPorts::new(alone(Box::new(NoSteering)), HashSet::from([FOREIGN]), (40_000, 40_002), 4);
    assert_eq!(ports.reserve(FOREIGN, 40_002), Ok(40_002));
    assert_eq!(ports.reserve(FOREIGN, 40_002), Err(PortError::InUse));
    let given: BTreeSet<u16> = (0..2).map(|_| ports.reserve(FOREIGN, 0).expect("two are left")).collect();
    assert_eq!(given, BTreeSet::from([40_000, 40_001]));
    assert_eq!(ports.reserve(FOREIGN, 0), Err(PortError::InUse));
    ports.release(FOREIGN, 40_001);
    assert_eq!(ports.reserve(FOREIGN, 0), Ok(40_001));
    assert_eq!(ports.own(Transport::Tcp, FOREIGN, 80), Ok(()));
}

#[test]
fn packets_are_steered_while_a_port_is_owned() {
    let table = Arc::new(Mutex::new(BTreeSet::new()));
    let mut ports = SharedPorts::new(alone(Box::new(Table(table.clone()))), HashSet::new(), (40_000, 40_002), 0);
    assert_eq!(ports.own(Transport::Tcp, LOCAL, 80), Ok(()));
    assert_eq!(ports.own(Transport::Tcp, LOCAL, 81), Err(PortError::NoSteering));
    assert_eq!(*table.lock().expect("not poisoned"), BTreeSet::from([(LOCAL, 80)]));
    ports.disown(Transport::Tcp, LOCAL, 80);
    assert!(table.lock().expect("not poisoned").is_empty());
}

/// The service tells the filters in its own time; until then no worker asks again.
#[test]
fn a_port_of_many_connections_of_the_kernels_waits() {
    let table = Arc::new(Mutex::new(BTreeSet::new()));
    let told = Arc::new(AtomicU32::new(0));
    let tell = told.clone();
    let on_hold = Arc::new(move || tell.store(tell.load(Ordering::Relaxed) + 1, Ordering::Relaxed));
    let gate = Gate::new(RuleChoice::Respect, Arc::default(), Vec::new()).behind(Default::default(), on_hold);
    let ports = SharedPorts::new(alone(Box::new(Table(table.clone()))), HashSet::new(), (40_000, 40_002), 0);
    let mut ports = ports.behind(gate.clone());
    assert_eq!(ports.own_share(Transport::Tcp, LOCAL, 85), Err(PortError::Waits));
    assert_eq!((gate.held(), told.load(Ordering::Relaxed)), ([(LOCAL, 85)].into(), 1), "nothing else may wake that thread");
    assert!(ports.judge_port(Transport::Tcp, LOCAL, 85).serves(), "another listener waits too");
    assert!(table.lock().expect("not poisoned").is_empty());
    assert_eq!(ports.own_share(Transport::Udp, LOCAL, 85), Ok(()));
    assert_eq!(ports.own_share(Transport::Tcp, LOCAL, 85), Err(PortError::Waits));
}

#[test]
fn a_service_that_makes_addresses_needs_none_of_the_kernels() {
    let made = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 7]);
    assert_eq!(shared().reserve(made, 0), Err(PortError::NotLocal));
    let mut ports = shared().with_own_ipv6();
    assert!(ports.reserve(made, 0).is_ok());
    assert_eq!(ports.reserve(made, 80), Ok(80));
    assert_eq!(ports.reserve(made, 80), Err(PortError::InUse));
    assert_eq!(ports.reserve(FOREIGN, 0), Err(PortError::NotLocal));
}

/// Where no kernel shares the interface, its packets reach none.
#[test]
fn no_flow_of_a_device_of_its_own_is_left_to_the_kernel() {
    let flow = Flow { local: (LOCAL, 80), remote: (FOREIGN, 4_000) };
    assert_eq!(NoSteering.leave_flow(&flow).expect_err("refused").kind(), io::ErrorKind::Unsupported);
    NoSteering.retake_flow(&flow).expect("it does nothing");
    assert_eq!(NoSteering.leave_port(LOCAL, 80, &[]).expect_err("refused").kind(), io::ErrorKind::Unsupported);
    assert_eq!(NoSteering.sweep().expect("it asks nothing"), 0);
}
