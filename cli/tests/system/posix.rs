//! The results of libc's socket calls: each script runs on the kernel first, then on Ringway, and must say the same.
//!
//! A script (`posix/NAME.py`) has two roles. Reference: both on the kernel. Then the server on
//! Ringway, then the client on Ringway; what either prints must not change by a word. All of it over
//! IPv4 and over IPv6 (`posix::ipv6`), where the server's socket serves both families.

use crate::harness::*;

const PORT: &str = "5500";

/// Returns the output of server and client.
fn play(net: &Net, name: &str, address: &str, server: &[&str], client: &[&str]) -> [String; 2] {
    let script = text(&net.path(&format!("{name}.py")));
    let mut serving = net.spawn(Server, &[server, &["python3", &script, "server", address, PORT]].concat());
    let port = PORT.parse().expect("a number");
    if server.is_empty() {
        net.wait_listening(Server, port, &mut serving);
    } else {
        net.wait_served(Server, port, &mut serving);
    }
    let client = net.run(Client, &[client, &["python3", &script, "client", address, PORT]].concat());
    let server = serving.finish(DEADLINE);
    net.wait_kernels_quiet();
    [server, client].map(|ended| {
        assert!(ended.status.success(), "{name}: {}\n{}\n{}", ended.status, ended.stdout, ended.stderr);
        ended.stdout
    })
}

/// `kernels`: segments that are the kernel's on each side: to ports that are not served, and over loopback.
fn same_on_both(name: &str, script: &str, address: fn(&Net, Side) -> String, kernels: [u64; 2]) {
    same_on_both_after(|_| (), name, script, address, kernels);
}

/// As `same_on_both`, after `prepare` has changed the two sides.
fn same_on_both_after(prepare: fn(&Net), name: &str, script: &str, address: fn(&Net, Side) -> String, kernels: [u64; 2]) {
    let net = Net::new();
    prepare(&net);
    let address = address(&net, Server);
    net.file("common.py", SCRIPTS_SHARE);
    net.file(&format!("{name}.py"), script);
    let ringway = [RINGWAY, "run", "-q", "--"];
    let reference = play(&net, name, &address, &[], &[]);
    let before = net.kernel_tcp(Server);
    let server_on_ringway = play(&net, name, &address, &ringway, &[]);
    net.assert_kernel_received(Server, &before, kernels[0]);
    assert_eq!(server_on_ringway, reference, "the server on Ringway against the kernel's (left: Ringway)");
    let before = net.kernel_tcp(Client);
    let client_on_ringway = play(&net, name, &address, &[], &ringway);
    net.assert_kernel_received(Client, &before, kernels[1]);
    assert_eq!(client_on_ringway, reference, "the client on Ringway against the kernel's (left: Ringway)");
}

/// One test for each script.
macro_rules! scripts {
    ($address:expr; $($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            same_on_both(stringify!($name), include_str!(concat!("posix/", stringify!($name), ".py")), $address, [0, 0]);
        })*
    };
}

scripts! {
    Net::address;
    anew, common_epoll, copies, corners, descriptors, early_epoll, endings, epoll, exec, files, flags, fork, forms, half_close, identity, inherited_epoll, lesser, many, messages, misuse, mixed_wait, names, nested_epoll,
    old_kernel, options, raw, passing, rights, shared_epoll, shared_port, standard, streams, unshared, urgent, congestion,
}

/// In strict mode no socket may be the kernel's; a program that hears of no ring waits in another way.
#[test]
fn an_io_uring_is_refused_in_strict_mode() {
    let net = Net::new();
    let ask = "import ctypes, errno; libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(ctypes.c_long(425), ctypes.c_long(8), bytes(120)), errno.errorcode[ctypes.get_errno()])";
    let ended = net.run(Server, &[RINGWAY, "run", "-q", "-e", "strict", "--", "python3", "-c", ask]);
    assert_eq!(ended.stdout.trim(), "-1 ENOSYS", "{}", ended.stderr);
}

#[test]
fn nonblocking() {
    same_on_both("nonblocking", include_str!("posix/nonblocking.py"), Net::address, [1, 0]);
}

/// A number that a program has closed past libc, and gets again, does not lead to the connection.
#[test]
fn numbers_that_are_used_again() {
    const PEER: &str = "import socket
l = socket.create_server(('0.0.0.0', 5500))
for n in range(5):
    c, _ = l.accept()
    data = b''
    while piece := c.recv(100): data += piece
    print(n, data)";
    let net = Net::new();
    let (source, program) = (net.file("stale.c", include_str!("posix/stale.c")), text(&net.path("stale")));
    net.output(Server, &["cc", "-O2", "-o", &program, &source]);
    let plays = [&[][..], &[RINGWAY, "run", "-q", "-e", "strict", "--"]].map(|ringway| {
        let mut peer = net.spawn(Client, &["python3", "-c", PEER]);
        net.wait_listening(Client, 5500, &mut peer);
        let ours = net.run(Server, &[ringway, &[&program, &net.address(Client), PORT]].concat());
        (ours.success().stdout, peer.finish(DEADLINE).success().stdout)
    });
    assert!(plays[0].0.contains("0 again 1 wrote 12"), "{plays:?}");
    assert_eq!(plays[1], plays[0], "on Ringway (left) and on the kernel");
}

/// No connection that was passed on is held for longer than it lives: there is room for few at a time.
#[test]
fn handed_over() {
    let play_in = |net: &Net, server: &[&str]| {
        net.file("common.py", SCRIPTS_SHARE);
        net.file("handed_over.py", include_str!("posix/handed_over.py"));
        play(net, "handed_over", &net.address(Server), server, &[])
    };
    let reference = play_in(&Net::new(), &[]);
    // Another net: a client's port that is in TIME-WAIT at the kernel's server may come again, and its flow is the kernel's.
    let net = Net::new();
    let before = net.kernel_tcp(Server);
    let small = ["env", "RINGWAY_LIMITS_SOCKETS_PER_GROUP=128", RINGWAY, "run", "-q", "--"];
    assert_eq!(play_in(&net, &small), reference);
    net.assert_kernel_received(Server, &before, 0);
}

#[test]
fn refusals() {
    same_on_both("refusals", include_str!("posix/refusals.py"), Net::address, [2, 0]);
}

/// Routes and refusals of routers, for `unreachable`: the server's side routes and refuses.
fn refuse_routes(net: &Net) {
    for (side, arguments) in [
        (Server, "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1".to_string()),
        (Server, "ip route add prohibit 10.79.0.0/24".to_string()),
        (Server, "ip -6 route add prohibit fd79::/64".to_string()),
        (Client, format!("ip route add 10.79.0.0/24 via {}", net.address(Server))),
        (Client, format!("ip -6 route add fd79::/64 via {}", net.address6(Server))),
        (Client, "ip route add unreachable 10.80.0.0/24".to_string()),
        (Client, "ip -6 route add unreachable fd80::/64".to_string()),
    ] {
        net.output(side, &arguments.split_whitespace().collect::<Vec<_>>());
    }
}

/// The kernel's stack and ours take data with SYNs on both sides; what a client knows of cookies is forgotten before each play.
#[test]
fn fast_open() {
    for address in [Net::address, Net::address6] {
        let net = Net::new();
        net.file("common.py", SCRIPTS_SHARE);
        net.file("fast_open.py", include_str!("posix/fast_open.py"));
        for side in [Server, Client] {
            net.output(side, &["sysctl", "-qw", "net.ipv4.tcp_fastopen=3"]);
        }
        let address = address(&net, Server);
        let ringway = ["env", "RINGWAY_TCP_FAST_OPEN=3", RINGWAY, "run", "-q", "--workers", "1", "--"];
        // The listener of several workers is one listener, also when its keys change.
        let two = ["env", "RINGWAY_TCP_FAST_OPEN=3", RINGWAY, "run", "-q", "--workers", "2", "--"];
        let plays = [[&[][..], &[][..]], [&ringway[..], &[][..]], [&[][..], &ringway[..]], [&two[..], &[][..]]];
        let plays = plays.map(|[server, client]| {
            net.output(Client, &["ip", "tcp_metrics", "flush"]);
            play(&net, "fast_open", &address, server, client)
        });
        let [reference, server_on_ringway, client_on_ringway, server_of_two] = plays;
        assert!(reference[0].matches("with the SYN True").count() == 4, "{reference:?}");
        assert_eq!(server_on_ringway, reference, "the server on Ringway against the kernel's (left: Ringway)");
        assert_eq!(client_on_ringway, reference, "the client on Ringway against the kernel's (left: Ringway)");
        assert_eq!(server_of_two, reference, "the server on two workers against the kernel's (left: Ringway)");
    }
}

#[test]
fn unreachable() {
    for address in [Net::address, Net::address6] {
        same_on_both_after(refuse_routes, "unreachable", include_str!("posix/unreachable.py"), address, [0, 0]);
    }
}

/// The same over IPv6, and what only IPv6 sockets have.
mod ipv6 {
    use super::*;

    scripts! {
        Net::address6;
        anew, copies, corners, descriptors, early_epoll, endings, epoll, exec, files, flags, fork, forms, half_close, identity, inherited_epoll, lesser, many, messages, misuse, mixed_wait, names,
        nested_epoll, old_kernel, raw, passing, rights, shared_port, standard, streams, options, unshared, urgent,
    }

    #[test]
    fn nonblocking() {
        same_on_both("nonblocking", include_str!("posix/nonblocking.py"), Net::address6, [1, 0]);
    }

    #[test]
    fn families() {
        same_on_both("families", include_str!("posix/families.py"), Net::address6, [0, 8]);
    }
}

/// A cancelled thread unwinds from the wait inside the library, through its frames, to the program's cleanup handlers.
#[test]
fn a_thread_is_cancelled_in_every_blocking_call() {
    let net = Net::new();
    let (source, program) = (net.file("cancel.c", include_str!("posix/cancel.c")), text(&net.path("cancel")));
    net.output(Client, &["cc", "-O2", "-pthread", "-o", &program, &source]);
    let deaf = "import socket, time
s = socket.create_server(('0.0.0.0', 5501), backlog=64)
held = []
while True: held.append(s.accept())";
    let mut peer = net.spawn(Client, &["python3", "-c", deaf]);
    net.wait_listening(Client, 5501, &mut peer);
    let run = |before: &[&str]| net.run(Server, &[before, &[&program, &net.address(Client), "5501"]].concat()).stdout;
    let reference = run(&[]);
    assert_eq!(reference.matches(": cancelled").count(), 14, "{reference}");
    assert_eq!(run(&[RINGWAY, "run", "-q", "-e", "strict", "--"]), reference);
}
