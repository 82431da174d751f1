//! Programs of the frameworks that servers are written with: Rust's tokio, C++'s asio, Go's net/http.

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{House, have};
use crate::harness::*;

/// Connections of the client at a time, and echoes on each.
const CONNECTIONS: usize = 20;
const ROUNDS: usize = 50;

/// Sends pieces of many lengths on many connections, and compares what comes back.
const ECHOED: &str = "
import random, selectors, socket, sys
host, port, count, rounds = sys.argv[1], *map(int, sys.argv[2:])
chooses = random.Random(7)
connections = [socket.create_connection((host, port)) for _ in range(count)]
for _ in range(rounds):
    pieces = [chooses.randbytes(chooses.choice((1, 100, 1500, 20_000))) for _ in connections]
    for connection, piece in zip(connections, pieces): connection.sendall(piece)
    for connection, piece in zip(connections, pieces):
        assert connection.recv(len(piece), socket.MSG_WAITALL) == piece
for connection in connections:
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b''
print('whole')";

/// Each of `CONNECTIONS` gets back what it sends.
pub(super) fn echoes(net: &Net, port: u16) {
    let (connections, rounds) = (CONNECTIONS.to_string(), ROUNDS.to_string());
    let client = ["python3", "-c", ECHOED, &net.address(Server), &port.to_string(), &connections, &rounds];
    assert_eq!(net.output(Client, &client), "whole\n");
}

/// The server of `tokio_on_all_threads`, which starts this program again.
#[test]
#[ignore = "the server of a test in this file"]
fn tokio_server() {
    let Ok(port) = std::env::var("ECHO_PORT") else { return };
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_io().build().expect("threads can be made");
    threads.block_on(async {
        let listener = TcpListener::bind(format!("0.0.0.0:{port}")).await.expect("the port is free");
        let mut tasks = Vec::new();
        for _ in 0..CONNECTIONS {
            let (stream, _) = listener.accept().await.expect("a client comes");
            tasks.push(tokio::spawn(echo(stream)));
        }
        for task in tasks {
            task.await.expect("it does not panic");
        }
    });
}

async fn echo(mut stream: TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    let (mut reads, mut writes) = stream.split();
    loop {
        match reads.read(&mut bytes).await.expect("the client does not reset") {
            0 => return writes.shutdown().await.expect("it can end"),
            count => writes.write_all(&bytes[..count]).await.expect("the client reads"),
        }
    }
}

#[test]
fn tokio_on_all_threads() {
    let net = Net::new();
    let itself = text(&std::env::current_exe().expect("it runs"));
    let server = ["env", "ECHO_PORT=4000", &itself, "--exact", "programs::frameworks::tokio_server", "--ignored"];
    let mut server = net.spawn_ringway(Server, &server);
    net.wait_served(Server, 4000, &mut server);
    net.untouched(Server, || echoes(&net, 4000));
    server.finish(DEADLINE).success();
}

const ASIO: &str = include_str!("asio.cpp");

#[test]
#[ignore = "part of `make test-all`"]
fn asio_with_three_threads() {
    if !have(&["c++", "/usr/include/asio.hpp"]) {
        return;
    }
    let house = House::new();
    let (source, program) = (house.net.file("asio.cpp", ASIO), text(&house.net.path("asio")));
    house.net.output(Server, &["c++", "-std=c++17", "-O1", "-pthread", "-o", &program, &source]);
    let server = house.start(4000, &[&program, "4000"]);
    house.net.untouched(Server, || echoes(&house.net, 4000));
    house.ends(server, Signal::TERM);
}

const GO: &str = include_str!("server.go");

/// A Go program; `None`: there is no Go.
fn build_go(net: &Net) -> Option<String> {
    if !have(&["go"]) {
        return None;
    }
    let (source, program) = (net.file("server.go", GO), text(&net.path("server")));
    let cache = format!("GOCACHE={}", text(&net.path("cache")));
    net.output(Server, &["env", &cache, "GO111MODULE=off", "GOFLAGS=", "go", "build", "-o", &program, &source]);
    Some(program)
}

/// Where a script on Ringway starts it, it listens at the kernel.
#[test]
#[ignore = "part of `make test-all`"]
fn a_go_server_that_a_script_starts() {
    let house = House::new();
    let Some(program) = build_go(&house.net) else { return };
    let script = format!("cd {}/www && {program} serve 80; exit 0", house.folder);
    let mut server = house.net.spawn(Server, &[RINGWAY, "run", "--name", &house.name, "--", "sh", "-c", &script]);
    house.net.wait_listening(Server, 80, &mut server);
    server.wait_for_error_line("server: not accelerated");
    house.serves_the_site(80);
}

/// A server on Ringway gives each connection to a Go program, as inetd does.
#[test]
#[ignore = "part of `make test-all`"]
fn a_go_program_for_each_connection() {
    let house = House::new();
    let Some(program) = build_go(&house.net) else { return };
    let server = house.start(4000, &["socat", "TCP-LISTEN:4000,fork,reuseaddr", &format!("EXEC:{program} echo,nofork")]);
    echoes(&house.net, 4000);
    house.ends(server, Signal::TERM);
}

/// A listener and connections are given to it.
#[test]
#[ignore = "part of `make test-all`"]
fn a_go_program_inherits_sockets() {
    let net = Net::new();
    let Some(program) = build_go(&net) else { return };
    crate::handover::give(&net, &["exec", "vfork", "spawn"], &program);
}
