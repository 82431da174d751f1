//! Replies of any size over loopback are complete; connections open and close.
use super::*;
use crate::load::kernel_client::KernelClient;
use crate::load::order::{Pace, Plan};
use std::time::Duration;

/// Starts a server in a thread that ends with the process; `None` when the system has no io_uring.
fn start() -> Option<SocketAddr> {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound");
    drop(taken);
    let (sender, ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // A ring belongs to the thread that creates it.
        let server = UringServer::listen(address, Work::default(), &Tuning::default());
        sender.send(server.as_ref().map(drop).map_err(io::Error::kind)).expect("the test waits");
        server.and_then(|mut server| server.serve()).expect("it serves until the process ends");
    });
    match ready.recv().expect("the thread answers") {
        Ok(()) => Some(address),
        Err(io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) => None,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn replies_are_whole_and_connections_come_and_go() {
    let Some(server) = start() else { return eprintln!("no io_uring here") };
    // Small replies, large ones from static bytes, large requests, more connections than receive buffers, short connections.
    for (connections, request, reply, depth, pace) in [
        (100, 64, 64, 1, Pace::Closed),
        (2, 64, 300_000, 3, Pace::Closed),
        (2, 300_000, 64, 2, Pace::Closed),
        (1200, 64, 64, 1, Pace::Closed),
        (8, 64, 9000, 1, Pace::Short(2)),
    ] {
        let plan = Plan {
            server,
            sources: Vec::new(),
            connections,
            request,
            reply,
            depth,
            pace,
            streams: 0,
            http: false,
            log: None,
            tuning: Tuning::default(),
        };
        let mut client = KernelClient::open(plan.clone()).expect("it accepts");
        let outcome = client.run(Duration::ZERO, Duration::from_millis(50), 1);
        let outcome = outcome.unwrap_or_else(|error| panic!("{plan:?}: {error}"));
        assert!(outcome.replies_in_all > 0 && outcome.fewest.min(1) <= outcome.most, "{plan:?}: {outcome:?}");
    }
}

#[test]
fn a_client_that_breaks_the_rules_loses_its_connection_alone() {
    use std::io::{Read, Write};
    let Some(server) = start() else { return eprintln!("no io_uring here") };
    let mut rude = std::net::TcpStream::connect(server).expect("it accepts");
    rude.write_all(&[0; 64]).expect("it reads");
    assert_eq!(rude.read(&mut [0; 8]).unwrap_or(0), 0, "it is closed");
    let plan = Plan {
        server,
        sources: Vec::new(),
        connections: 1,
        request: 64,
        reply: 64,
        depth: 1,
        pace: Pace::Closed,
        streams: 0,
        http: false,
        log: None,
        tuning: Tuning::default(),
    };
    let outcome = KernelClient::open(plan).and_then(|mut client| client.run(Duration::ZERO, Duration::from_millis(20), 1));
    assert!(outcome.expect("others are served").replies_in_all > 0);
}
