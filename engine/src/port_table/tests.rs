use super::*;

/// Records the calls; always gives port 40000.
struct Recorder(std::sync::mpsc::Sender<String>);

impl Ports for Recorder {
    fn reserve(&mut self, _: IpAddr, port: u16) -> Result<u16, PortError> {
        let port = if port == 0 { 40_000 } else { port };
        self.0.send(format!("reserve {port}")).expect("the test listens");
        Ok(port)
    }
    fn release(&mut self, _: IpAddr, port: u16) {
        self.0.send(format!("release {port}")).expect("the test listens");
    }
    fn own(&mut self, _: Transport, _: IpAddr, port: u16) -> Result<(), PortError> {
        self.0.send(format!("own {port}")).expect("the test listens");
        if port == 666 { Err(PortError::NoSteering) } else { Ok(()) }
    }
    fn disown(&mut self, _: Transport, _: IpAddr, port: u16) {
        self.0.send(format!("disown {port}")).expect("the test listens");
    }
}

const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

/// The kernel and the filter learn of the first user and of the last, and of nothing between.
#[test]
fn first_and_last_users_count() {
    let (sender, log) = std::sync::mpsc::channel();
    let mut table = PortTable::new(Box::new(Recorder(sender)));
    table.add(IP, 80).expect("free");
    table.add(IP, 80).expect("shared");
    table.remove(IP, 80);
    assert_eq!(log.try_iter().collect::<Vec<_>>(), ["own 80"]);
    assert!(table.is_used(IP, 80));
    table.remove(IP, 80);
    assert_eq!(log.try_iter().collect::<Vec<_>>(), ["disown 80"]);
    assert_eq!(table.add(IP, 666), Err(PortError::NoSteering));
    assert!(!table.is_used(IP, 666));
}

/// A reserved port stays reserved until its TIME-WAIT is over.
#[test]
fn time_wait_holds_a_reserved_port() {
    let (sender, log) = std::sync::mpsc::channel();
    let mut table = PortTable::new(Box::new(Recorder(sender)));
    assert_eq!(table.reserve(IP, 0), Ok(40_000));
    assert_eq!(table.reserve(IP, 0), Err(NotReserved::Refused(PortError::InUse)), "the same port twice is one too many");
    log.try_iter().for_each(drop);
    table.remove_late(Instant::from_millis(5), Duration::from_secs(60), IP, 40_000);
    table.handle_timeout(Instant::from_millis(60_004));
    assert_eq!(log.try_iter().count(), 0);
    assert!(table.poll_timeout().is_some_and(|at| at >= Instant::from_millis(60_005)));
    table.handle_timeout(Instant::from_millis(60_005));
    assert_eq!(log.try_iter().collect::<Vec<_>>(), ["disown 40000", "release 40000"]);
    assert_eq!(table.poll_timeout(), None);
}

/// A reset holds the port for a short while, even after others that hold theirs for long; it does not shorten TIME-WAIT
/// on the same port.
#[test]
fn short_holds_do_not_wait_for_long_ones() {
    let (sender, log) = std::sync::mpsc::channel();
    let mut table = PortTable::new(Box::new(Recorder(sender)));
    for port in [80, 81] {
        table.add(IP, port).expect("free");
    }
    table.add(IP, 80).expect("shared");
    log.try_iter().for_each(drop);
    table.remove_late(Instant::from_millis(0), Duration::from_secs(60), IP, 80);
    table.remove_late(Instant::from_millis(1), Duration::from_secs(2), IP, 80);
    table.remove_late(Instant::from_millis(1), Duration::from_secs(2), IP, 81);
    table.handle_timeout(Instant::from_millis(2_001));
    assert_eq!(log.try_iter().collect::<Vec<_>>(), ["disown 81"]);
    table.handle_timeout(Instant::from_millis(60_000));
    assert_eq!(log.try_iter().collect::<Vec<_>>(), ["disown 80"]);
    assert_eq!(table.poll_timeout(), None);
}

/// The right to a connection's local port ends with the port, not with the connection.
#[test]
fn a_claim_lives_as_long_as_its_port_is_used() {
    let (sender, _log) = std::sync::mpsc::channel();
    let mut table = PortTable::new(Box::new(Recorder(sender)));
    let kept = std::sync::Arc::new(());
    let local = std::net::SocketAddr::new(IP, 80);
    let claim = Claim { purpose: crate::claim::Purpose::Connect, local, dual_stack: false, kept: kept.clone() };
    table.add_alone(IP, 80, Some(claim)).expect("free");
    table.remove_late(Instant::from_millis(0), Duration::from_secs(60), IP, 80);
    assert_eq!(std::sync::Arc::strong_count(&kept), 2);
    table.handle_timeout(Instant::from_millis(60_000));
    assert_eq!(std::sync::Arc::strong_count(&kept), 1);
}

/// No connection is opened from a port with flows shared among workers: the answers might come to another one.
#[test]
fn a_shared_port_is_no_port_to_connect_from() {
    let (sender, log) = std::sync::mpsc::channel();
    let mut table = PortTable::new(Box::new(Recorder(sender)));
    table.add_share(IP, 80).expect("free");
    table.add_share(IP, 80).expect("a second listener");
    assert_eq!(table.add_alone(IP, 80, None), Err(PortError::InUse));
    table.add(IP, 80).expect("a connection that was accepted");
    (0..3).for_each(|_| table.remove(IP, 80));
    assert!(!table.is_used(IP, 80));
    assert_eq!(table.add_alone(IP, 80, None), Ok(()));
    // Without other workers a share is the whole port.
    assert_eq!(log.try_iter().collect::<Vec<_>>(), ["own 80", "own 80", "disown 80", "own 80"]);
}

/// Ports of connections are lent in turn, and stay ours until the last user has gone.
#[test]
fn reserved_ports_are_lent_in_turn() {
    let (sender, log) = std::sync::mpsc::channel();
    let mut table = PortTable::new(Box::new(Recorder(sender)));
    table.add(IP, 80).expect("free");
    assert_eq!(table.lend(IP), None, "a port that a program holds is no port to lend");
    let port = table.reserve(IP, 0).expect("free");
    assert_eq!((table.lend(IP), table.lend(IP)), (Some(port), Some(port)));
    log.try_iter().for_each(drop);
    (0..2).for_each(|_| table.remove(IP, port));
    assert!(table.is_used(IP, port));
    table.remove(IP, port);
    assert!(!table.is_used(IP, port));
    assert_eq!(table.lend(IP), None);
}
