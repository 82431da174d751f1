use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, Sender, channel};

use ringway_engine::Leave;
use ringway_shm::Flow;

use super::*;

const IP: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// Writes down what the filters are told; of port 85 the kernel has too many connections, of port 86 it does not say.
struct Log(Sender<String>);

impl Steering for Log {
    fn own(&mut self, _: Transport, _: IpAddr, port: u16, workers: u32) -> io::Result<()> {
        self.0.send(format!("own {port} {workers:b}")).map_err(io::Error::other)
    }

    fn release(&mut self, _: Transport, _: IpAddr, port: u16) -> io::Result<()> {
        self.0.send(format!("release {port}")).map_err(io::Error::other)
    }

    fn leave_flow(&mut self, _: &Flow) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn retake_flow(&mut self, _: &Flow) -> io::Result<()> {
        Ok(())
    }

    fn leave_port(&mut self, _: IpAddr, port: u16, stay: &[(IpAddr, u16)]) -> io::Result<()> {
        self.0.send(format!("leave {port} but {}", stay.len())).map_err(io::Error::other)
    }

    fn retake_port(&mut self, _: IpAddr, port: u16) -> io::Result<()> {
        self.0.send(format!("retake {port}")).map_err(io::Error::other)
    }

    fn leave_connections(&mut self, _: IpAddr, port: u16, _: usize) -> io::Result<bool> {
        self.0.send(format!("leave {port}")).map_err(io::Error::other)?;
        if port == 86 { Err(io::ErrorKind::Unsupported.into()) } else { Ok(port != 85) }
    }

    fn sweep(&mut self) -> io::Result<usize> {
        Ok(0)
    }
}

fn two() -> (WorkerPorts, WorkerPorts, Receiver<String>) {
    let (sender, log) = channel();
    let mut worker_ports = WorkerPorts::for_workers(Box::new(Log(sender)), 2);
    let mut next = || worker_ports.next().expect("two were asked for");
    (next(), next(), log)
}

fn told(log: &Receiver<String>) -> Vec<String> {
    log.try_iter().collect()
}

#[test]
fn a_port_of_one_worker_is_its_own() {
    let (first, second, log) = two();
    assert_eq!(second.own(Transport::Tcp, IP, 5_000, Ownership::Sole), Ok(()));
    assert_eq!(first.own(Transport::Tcp, IP, 5_000, Ownership::Sole), Err(PortError::InUse));
    assert_eq!(first.own(Transport::Tcp, IP, 5_000, Ownership::Shared), Err(PortError::InUse));
    assert_eq!(first.own(Transport::Udp, IP, 5_000, Ownership::Sole), Ok(()), "another protocol");
    assert_eq!(told(&log), ["own 5000 0", "leave 5000", "own 5000 10", "own 5000 1"]);
    second.disown(Transport::Tcp, IP, 5_000).expect("it writes only");
    assert_eq!(told(&log), ["release 5000"]);
    assert_eq!(first.own(Transport::Tcp, IP, 5_000, Ownership::Shared), Ok(()), "free again");
}

/// All flows are divided from the first listener to the end of the last connection.
#[test]
fn a_shared_port_is_every_workers_until_the_last_has_gone() {
    let (first, second, log) = two();
    assert_eq!(second.own(Transport::Tcp, IP, 80, Ownership::Shared), Ok(()));
    assert_eq!(first.own(Transport::Tcp, IP, 80, Ownership::Shared), Ok(()));
    assert_eq!(told(&log), ["own 80 0", "leave 80", "own 80 11"]);
    second.disown(Transport::Tcp, IP, 80).expect("it writes only");
    assert_eq!(second.own(Transport::Tcp, IP, 80, Ownership::Sole), Err(PortError::InUse), "its flows would go to both");
    assert_eq!(second.own(Transport::Tcp, IP, 80, Ownership::Shared), Ok(()));
    second.disown(Transport::Tcp, IP, 80).expect("it writes only");
    assert_eq!(told(&log), Vec::<String>::new());
    first.disown(Transport::Tcp, IP, 80).expect("it writes only");
    assert_eq!(told(&log), ["release 80"]);
}

/// A program that listens on a port from which it is connected: the listener is that worker's alone.
#[test]
fn a_listener_on_a_port_in_use_stays_with_its_worker() {
    let (first, second, log) = two();
    assert_eq!(first.own(Transport::Tcp, IP, 20, Ownership::Sole), Ok(()));
    assert_eq!(second.own(Transport::Tcp, IP, 20, Ownership::Shared), Err(PortError::InUse));
    assert_eq!(first.own(Transport::Tcp, IP, 20, Ownership::Shared), Ok(()));
    assert_eq!(told(&log), ["own 20 0", "leave 20", "own 20 1"]);
}

#[test]
fn a_port_is_shut_until_a_worker_owns_it_and_one_that_a_worker_owns_is_not() {
    let (first, _, log) = two();
    assert_eq!(first.own(Transport::Tcp, IP, 80, Ownership::Sole), Ok(()));
    let ends = [80, 81, 82].map(|port| (IP, port)).into();
    first.shut(&ends);
    assert_eq!(told(&log), ["own 80 0", "leave 80", "own 80 1", "own 81 0", "own 82 0"]);
    first.note_ready(&ends);
    assert_eq!(first.own(Transport::Tcp, IP, 81, Ownership::Sole), Ok(()));
    first.unshut(&ends);
    assert_eq!(told(&log), ["own 81 1", "release 82"]);
    // From here on the kernel may have got connections.
    assert_eq!(first.own(Transport::Tcp, IP, 82, Ownership::Sole), Ok(()));
    assert_eq!(told(&log), ["own 82 0", "leave 82", "own 82 1"]);
}

/// The connections that the kernel has got meanwhile are known before new ones come to the worker.
#[test]
fn a_port_that_is_left_comes_back() {
    let (first, _, log) = two();
    let peers = [(IP, 40_000)];
    for (port, is_back) in [(80, true), (85, false)] {
        first.note_ready(&[(IP, port)].into());
        assert_eq!(first.own(Transport::Tcp, IP, port, Ownership::Sole), Ok(()));
        told(&log);
        assert_eq!(first.leave(IP, port, &peers), Leave::Done);
        assert_eq!(told(&log), [format!("leave {port} but 1")]);
        assert_eq!(first.take_back(IP, port, &peers), is_back);
        let again = (!is_back).then(|| format!("leave {port} but 1"));
        let expected = [format!("retake {port}"), format!("leave {port}")].into_iter().chain(again);
        assert_eq!(told(&log), expected.chain([format!("own {port} 1")]).collect::<Vec<_>>());
    }
}

/// A listener's port on two workers.
fn shared_port(port: u16) -> (WorkerPorts, WorkerPorts, Receiver<String>) {
    let (first, second, log) = two();
    first.note_ready(&[(IP, port)].into());
    assert_eq!([&first, &second].map(|hand| hand.own(Transport::Tcp, IP, port, Ownership::Shared)), [Ok(()), Ok(())]);
    told(&log);
    (first, second, log)
}

/// No worker knows the connections of the others.
#[test]
fn a_port_of_two_workers_is_left_when_both_have_named_their_connections() {
    let (first, second, log) = shared_port(80);
    assert_eq!(first.leave(IP, 80, &[(IP, 40_000), (IP, 40_001)]), Leave::Waits);
    assert!(!first.has_left(IP, 80));
    assert_eq!(told(&log), Vec::<String>::new());
    assert_eq!(second.leave(IP, 80, &[(IP, 40_002)]), Leave::Done);
    assert_eq!(told(&log), ["leave 80 but 3"]);
    assert!(first.has_left(IP, 80) && !first.stay(IP, 80));
    // The first that wants it back gets it for both.
    assert!(second.take_back(IP, 80, &[]) && first.take_back(IP, 80, &[]));
    assert_eq!(told(&log), ["retake 80", "leave 80", "own 80 11"]);
    assert!(!first.has_left(IP, 80));
}

#[test]
fn a_worker_that_keeps_a_port_keeps_it_for_all_until_it_gives_it_up() {
    let (first, second, log) = shared_port(80);
    assert_eq!(first.leave(IP, 80, &[(IP, 40_000)]), Leave::Waits);
    assert!(first.stay(IP, 80));
    assert_eq!(second.leave(IP, 80, &[(IP, 40_001)]), Leave::Waits, "the first has changed its mind");
    first.disown(Transport::Tcp, IP, 80).expect("it writes only");
    assert_eq!(told(&log), Vec::<String>::new());
    assert!(second.has_left(IP, 80), "the other one has given it up");
    assert_eq!(told(&log), ["leave 80 but 1"]);
    assert_eq!(first.leave(IP, 80, &[]), Leave::Refused, "it is not its own");
    second.disown(Transport::Tcp, IP, 80).expect("it writes only");
    assert_eq!([&first, &second].map(|hand| hand.own(Transport::Tcp, IP, 80, Ownership::Shared)), [Ok(()), Ok(())]);
    assert!(!first.has_left(IP, 80), "it is another listener's");
}

/// Where the kernel's connections are not known, those of all workers stay, not only those of the one that asks.
#[test]
fn a_port_of_two_workers_that_cannot_come_back_keeps_the_connections_of_both() {
    let (first, second, log) = shared_port(85);
    assert_eq!(first.leave(IP, 85, &[(IP, 40_000)]), Leave::Waits);
    assert_eq!(second.leave(IP, 85, &[(IP, 40_001)]), Leave::Done);
    assert!(!first.take_back(IP, 85, &[(IP, 40_000)]));
    assert_eq!(told(&log), ["leave 85 but 2", "retake 85", "leave 85", "leave 85 but 2", "own 85 11"]);
}

/// While the filters do not know the kernel's connections of a port, it is the kernel's.
#[test]
fn a_port_whose_connections_of_the_kernels_are_not_known_is_the_kernels() {
    let (first, second, log) = two();
    for (port, error) in [(85, PortError::Waits), (86, PortError::NoSteering)] {
        assert_eq!(first.own(Transport::Tcp, IP, port, Ownership::Shared), Ok(()));
        assert_eq!(told(&log), Vec::<String>::new(), "the second worker would answer with resets");
        assert_eq!(second.own(Transport::Tcp, IP, port, Ownership::Shared), Err(error));
        assert_eq!(told(&log), [format!("own {port} 0"), format!("leave {port}"), format!("release {port}")]);
    }
    // Another thread has made them known meanwhile.
    let ends = [(IP, 85)].into();
    first.shut(&ends);
    first.note_ready(&ends);
    assert_eq!([&first, &second].map(|hand| hand.own(Transport::Tcp, IP, 85, Ownership::Shared)), [Ok(()), Ok(())]);
    first.unshut(&ends);
    assert_eq!(told(&log), ["own 85 0", "own 85 11"]);
}

/// Nothing is looked for where there can be nothing.
#[test]
fn a_new_port_and_one_of_datagrams_have_no_connections_of_the_kernels() {
    let (first, _, log) = two();
    assert_eq!(first.own(Transport::Tcp, IP, 85, Ownership::New), Ok(()));
    assert_eq!(first.own(Transport::Udp, IP, 85, Ownership::Sole), Ok(()));
    assert_eq!(told(&log), ["own 85 1", "own 85 1"]);
}
