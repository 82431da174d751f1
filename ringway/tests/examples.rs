//! The examples of the native API, each driven by a client on a wire in memory, in virtual time.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use ringway::futures::{self, Runtime};
use ringway::{Cidr, Content, Instant, InterfaceInfo, MacAddress, Net, NetConfig, ReadError, TcpListener, TcpStream, WriteError};
use ringway_device::memory::{self, Memory, MemoryOptions};
use ringway_shm::ArenaConfig;

#[path = "../examples/echo.rs"]
#[expect(dead_code, reason = "its own main")]
mod echo;
#[path = "../examples/http.rs"]
#[expect(dead_code, reason = "its own main")]
mod http;
#[path = "../examples/kv.rs"]
#[expect(dead_code, reason = "its own main")]
mod kv;
#[path = "../examples/proxy.rs"]
#[expect(dead_code, reason = "its own main")]
mod proxy;

const START: Instant = Instant::from_millis(1_000);

fn net(seed: u64) -> Net {
    let mut config = NetConfig::default();
    config.arena = ArenaConfig { large: 4_096, small: 4_096 };
    config.stack.seed = seed;
    Net::new_at(START, config).expect("memory")
}

fn address(network: u8, host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, network, host], port))
}

/// Joins two programs by a wire: hosts 1 and 2 of a network.
fn join(network: u8, first: &mut Net, second: &mut Net) {
    let (left, right) = memory::pair(first.arena(), second.arena(), MemoryOptions::default());
    let add = |net: &mut Net, host: u8, end: Memory| {
        let mac = MacAddress([2, 0, 0, 0, network, host]);
        let info = InterfaceInfo { name: format!("wire{network}"), mac, mtu: 1500, owned: true, ..InterfaceInfo::default() };
        let cidr = Cidr { ip: address(network, host, 0).ip(), prefix_len: 24 };
        net.add_interface(&info, &[cidr], Box::new(end));
    };
    add(first, 1, left);
    add(second, 2, right);
}

/// A host other than the client: runs one iteration and returns the time of the next.
type Host<'a> = &'a mut dyn FnMut(Instant) -> (bool, Option<Instant>);

/// Sends `request` from `client` to `to`; returns the answer, until the server ends the connection or `enough` bytes
/// have arrived.
fn converse(client: &mut Net, hosts: &mut [Host<'_>], to: SocketAddr, request: &[u8], enough: usize) -> Vec<u8> {
    let stream = TcpStream::connect(client, to).expect("a route");
    let (mut sent, mut got, mut buffer) = (0, Vec::new(), [0; 4096]);
    let mut now = client.now();
    for _ in 0..1_000_000 {
        match stream.write(client, &request[sent..]) {
            Ok(count) => sent += count,
            Err(WriteError::WouldBlock) => {}
            // The server has closed; its earlier answer is read below.
            Err(error) => assert!(matches!(error, WriteError::Failed(_))),
        }
        loop {
            match stream.read(client, &mut buffer) {
                Ok(0) => {
                    stream.close(client);
                    return got;
                }
                Ok(count) => got.extend_from_slice(&buffer[..count]),
                Err(ReadError::WouldBlock) => break,
                Err(_) => return got,
            }
        }
        if got.len() >= enough {
            stream.close(client);
            return got;
        }
        let mut worked = client.turn_at(now);
        while client.next_event().is_some() {}
        let mut due = client.poll_timeout();
        for host in hosts.iter_mut() {
            let (has_worked, next) = host(now);
            worked |= has_worked;
            due = due.into_iter().chain(next).min();
        }
        let next = now + Duration::from_micros(20).into();
        now = if worked { next } else { due.unwrap_or(next).max(next) };
    }
    panic!("{} of {} bytes were sent, {} came back", sent, request.len(), got.len());
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}

/// Data sent to the echo server comes back, and no byte was copied on the way.
#[test]
fn echo_returns_what_it_gets() {
    let (mut server, mut client) = (net(1), net(2));
    join(0, &mut server, &mut client);
    let listener = TcpListener::bind(&mut server, address(0, 1, 7)).expect("free");
    let mut echo = echo::Echo::new(listener);
    let mut host = |now| {
        let worked = server.turn_at(now);
        echo.serve(&mut server);
        (worked, server.poll_timeout())
    };
    let message = bytes(3 << 20);
    let got = converse(&mut client, &mut [&mut host], address(0, 1, 7), &message, message.len());
    assert!(got == message);
    assert_eq!(server.copied_bytes(), 0);
}

/// Through the proxy to an echo server and back: everything arrives, and the proxy copies nothing.
#[test]
fn the_proxy_joins_two_networks() {
    let (mut client, mut between, mut server) = (net(1), net(2), net(3));
    join(0, &mut client, &mut between);
    join(1, &mut between, &mut server);
    let listener = TcpListener::bind(&mut server, address(1, 2, 7)).expect("free");
    let mut echo = echo::Echo::new(listener);
    let listener = TcpListener::bind(&mut between, address(0, 2, 8080)).expect("free");
    let mut proxy = proxy::Proxy::new(listener, address(1, 2, 7));
    let mut middle = |now| {
        let worked = between.turn_at(now);
        proxy.serve(&mut between);
        (worked, between.poll_timeout())
    };
    let mut far = |now| {
        let worked = server.turn_at(now);
        echo.serve(&mut server);
        (worked, server.poll_timeout())
    };
    let message = bytes(1 << 20);
    for _ in 0..3 {
        let got = converse(&mut client, &mut [&mut middle, &mut far], address(0, 2, 8080), &message, message.len());
        assert!(got == message);
    }
    assert_eq!(between.copied_bytes(), 0);
}

/// A client is reset if its upstream refuses.
#[test]
fn the_proxy_passes_a_refusal_on() {
    let (mut client, mut between, mut server) = (net(1), net(2), net(3));
    join(0, &mut client, &mut between);
    join(1, &mut between, &mut server);
    let listener = TcpListener::bind(&mut between, address(0, 2, 8080)).expect("free");
    let mut proxy = proxy::Proxy::new(listener, address(1, 2, 9));
    let stream = TcpStream::connect(&mut client, address(0, 2, 8080)).expect("a route");
    let mut now = START;
    while stream.error(&mut client).is_none() {
        now += Duration::from_micros(20).into();
        client.turn_at(now);
        between.turn_at(now);
        proxy.serve(&mut between);
        server.turn_at(now);
        assert!(now < START + Duration::from_secs(1).into(), "it is reset soon");
    }
}

/// Persistent and pipelined requests, HEAD, missing files and invalid requests.
#[test]
fn http_serves_files() {
    let (mut server, mut client) = (net(1), net(2));
    join(0, &mut server, &mut client);
    let large = bytes(300_000);
    let site = http::Site::from([
        ("/index.html".into(), Content::new(*b"<p>hello</p>")),
        ("/large".into(), Content::new(large.clone())),
    ]);
    let runtime = Runtime::new(server);
    let listener = futures::TcpListener::bind(&runtime, address(0, 1, 80)).expect("free");
    runtime.spawn_local(http::serve(runtime.clone(), listener, Rc::new(site)));
    let mut host = |now| {
        let worked = runtime.turn_at(now) | runtime.run_woken();
        (worked, runtime.with(|net| net.poll_timeout()))
    };
    let requests =
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /large HTTP/1.1\r\nHost: a\r\n\r\nGET /none?x=1 HTTP/1.1\r\nHost: a\r\n\r\n\
        POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET /large HTTP/1.1\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    let got = converse(&mut client, &mut [&mut host], address(0, 1, 80), requests, usize::MAX);
    let head = |status: &str, length: usize, connection: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: {connection}\r\n\r\n").into_bytes()
    };
    let mut expected = [head("200 OK", 12, "keep-alive"), b"<p>hello</p>".to_vec()].concat();
    expected.extend(head("200 OK", 300_000, "keep-alive"));
    expected.extend([head("404 Not Found", 10, "keep-alive"), b"not found\n".to_vec()].concat());
    expected.extend(head("405 Method Not Allowed", 0, "keep-alive"));
    expected.extend([head("200 OK", 300_000, "close"), large].concat());
    assert!(got == expected, "{}", String::from_utf8_lossy(&got[..got.len().min(1000)]));

    let nonsense: [&[u8]; 4] =
        [b"\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"\xff\xfe / HTTP/1.1\r\n\r\n"];
    for request in nonsense {
        let got = converse(&mut client, &mut [&mut host], address(0, 1, 80), request, usize::MAX);
        assert!(got.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&got));
    }
    let endless = vec![b'a'; 20_000];
    let got = converse(&mut client, &mut [&mut host], address(0, 1, 80), &endless, 12);
    assert!(got.starts_with(b"HTTP/1.1 431 ") || got.is_empty(), "answered, or reset because it was still sending");
    let idle = converse(&mut client, &mut [&mut host], address(0, 1, 80), b"GET ", usize::MAX);
    assert_eq!(idle, b"", "an idle client is closed after a while");
    runtime.cancel_all();
}

/// Stores, finds, replaces and deletes, with values in one segment and in many, all in one pipelined stream.
#[test]
fn kv_stores_and_finds() {
    let (mut server, mut client) = (net(1), net(2));
    join(0, &mut server, &mut client);
    let listener = TcpListener::bind(&mut server, address(0, 1, 11211)).expect("free");
    let mut store = kv::Server::new(listener);
    let mut host = |now| {
        let worked = server.turn_at(now);
        store.serve(&mut server);
        (worked, server.poll_timeout())
    };
    let large = bytes(500_000);
    let mut request = b"get a\r\nset a 7 0 5\r\nhello\r\nget a\r\nset b 0 0 0\r\n\r\ndelete c\r\nversion\r\nfly\r\n".to_vec();
    request
        .extend([b"set big 1 0 500000\r\n", &large[..], b"\r\nget a big b\r\ndelete a\r\nget a\r\nquit\r\nget a\r\n"].concat());
    let got = converse(&mut client, &mut [&mut host], address(0, 1, 11211), &request, usize::MAX);
    let mut expected =
        b"END\r\nSTORED\r\nVALUE a 7 5\r\nhello\r\nEND\r\nSTORED\r\nNOT_FOUND\r\nVERSION ringway-kv\r\nERROR\r\n".to_vec();
    expected.extend(b"STORED\r\nVALUE a 7 5\r\nhello\r\nVALUE big 1 500000\r\n");
    expected.extend([&large[..], b"\r\nVALUE b 0 0\r\n\r\nEND\r\nDELETED\r\nEND\r\n"].concat());
    assert!(got == expected, "{}", String::from_utf8_lossy(&got[..got.len().min(300)]));
    // A hundred answers of half a megabyte to a client that asks in one segment: they wait in the store, not in memory.
    let asked = b"get big\r\n".repeat(100);
    let one = b"VALUE big 1 500000\r\n\r\nEND\r\n".len() + large.len();
    let got = converse(&mut client, &mut [&mut host], address(0, 1, 11211), &asked, 100 * one);
    assert!(got.chunks(one).all(|answer| answer.starts_with(b"VALUE big 1 500000\r\n")));
    let wrong: [&[u8]; 3] = [b"set a\r\n", b"set a 0 0 99999999\r\n", b"set a 0 0 2\r\nabcd\r\n"];
    for request in wrong {
        let got = converse(&mut client, &mut [&mut host], address(0, 1, 11211), request, usize::MAX);
        assert!(got.starts_with(b"CLIENT_ERROR "), "{}", String::from_utf8_lossy(&got));
    }
}
