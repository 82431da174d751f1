//! Programs that were written for F-Stack and Z-stack, on `libfstack.so`.

use std::time::Duration;

use rustix::process::Signal;

use crate::capi::Library;
use crate::harness::*;

const PORT: &str = "5720";
const UDP_PORT: &str = "5721";
const FSTACK: Library = Library { room: "fstack", name: "fstack" };

/// A file as F-Stack's programs have it, for the interface with this address.
fn config(net: &Net, side: Side) -> String {
    let address = net.address(side);
    let file =
        format!("[dpdk]\nlcore_mask=1\nport_list=0\n[port0]\naddr={address}\nnetmask=255.255.255.0\n[freebsd.boot]\nhz=100\n");
    net.file("config.ini", file)
}

/// Each call does the same on Ringway as on the kernel, down to errno.
#[test]
fn every_call_does_what_it_should() {
    let net = Net::new();
    let (calls, address, config) = (FSTACK.compile(&net, "calls", &["-lpthread"]), net.address(Server), config(&net, Client));
    let serve = format!("TCP-LISTEN:{PORT},reuseaddr,fork");
    let mut echo = net.spawn(Server, &["socat", &serve, "EXEC:cat"]);
    net.wait_listening(Server, PORT.parse().expect("a number"), &mut echo);
    let on_ringway = [RINGWAY, "run", "-q", "--", &calls, &address, PORT, &config];
    for (program, says) in [(&on_ringway[..], false), (&on_ringway[4..], true)] {
        let made = if says { net.run(Client, program) } else { net.untouched(Client, || net.run(Client, program)) };
        assert_eq!(made.stdout, "0 failures\n", "{}", made.stderr);
        assert_eq!(made.stderr.contains("the sockets are the kernel's"), says, "{}", made.stderr);
        assert!(made.stderr.contains("without effect here: --proc-id (processes share the service), [dpdk]"), "{}", made.stderr);
    }
}

/// A server on a kqueue for the kernel's clients, one connection and many; it ends when it is told to.
#[test]
fn a_server_on_a_kqueue_answers() {
    let net = Net::new();
    let (hello, config) = (FSTACK.compile(&net, "hello", &[]), config(&net, Server));
    let mut serving = net.spawn(Server, &[RINGWAY, "run", "-q", "--", &hello, PORT, "--conf", &config, "--proc-type=auto"]);
    net.wait_printed(&mut serving, "ready");
    let url = format!("http://{}:{PORT}/", net.address(Server));
    let measured = net.untouched(Server, || {
        let twice = net.run(Client, &["curl", "-s", &url, &url]);
        assert_eq!(twice.stdout, "hello\nhello\n", "{}", twice.stderr);
        net.run(Client, &["wrk", "-t1", "-c100", "-d1", &url])
    });
    assert!(measured.stdout.contains("Requests/sec") && !measured.stdout.contains("Socket errors"), "{}", measured.stdout);
    serving.signal(Signal::TERM);
    assert_eq!(serving.finish(Duration::from_secs(10)).success().stdout, "ready\nended\n");
}

/// Bytes go back in the buffers in which they came, also when the client reads late.
#[test]
fn buffers_of_zstack_carry_every_byte() {
    let net = Net::new();
    let (echo, sent) = (FSTACK.compile(&net, "echo", &[]), net.file("sent", noise(7, 3 << 20)));
    let mut serving = net.spawn(Server, &[RINGWAY, "run", "-q", "--", &echo, PORT]);
    net.wait_printed(&mut serving, "ready");
    let command =
        format!("for n in 1 2 3 4; do socat -t 20 - TCP:{}:{PORT} < {sent} | cmp - {sent} || exit 1; done", net.address(Server));
    let returned = net.untouched(Server, || net.run(Client, &["sh", "-c", &command]));
    assert!(returned.status.success(), "{}{}", returned.stdout, returned.stderr);
}

/// Micro threads wait for pipes, sockets, times and each other: the same on Ringway and on the kernel.
#[test]
fn micro_threads_wait_for_everything() {
    let net = Net::new();
    let (micro, address) = (FSTACK.compile(&net, "micro", &[]), net.address(Server));
    let (stream, datagrams) = (format!("TCP-LISTEN:{PORT},reuseaddr,fork"), format!("UDP4-RECVFROM:{UDP_PORT},fork"));
    let mut echo = net.spawn(Server, &["socat", &stream, "EXEC:cat"]);
    let mut returns = net.spawn(Server, &["socat", &datagrams, "PIPE"]);
    net.wait_listening(Server, PORT.parse().expect("a number"), &mut echo);
    let bound = format!(":{UDP_PORT} ");
    returns.wait_while_running("is bound", || net.run(Server, &["ss", "-Hlun"]).stdout.contains(&bound));
    let on_ringway = [RINGWAY, "run", "-q", "--", &micro, &address, PORT, UDP_PORT];
    for program in [&on_ringway[..], &on_ringway[4..]] {
        let made = net.run(Client, program);
        assert_eq!(made.stdout, "0 failures\n", "{}", made.stderr);
    }
}

/// A thread for each connection at the server, a thread for each request at the client, five hundred at once; connections of their own and kept
/// ones.
#[test]
fn micro_threads_serve_and_ask() {
    let net = Net::new();
    let (threads, address) = (FSTACK.compile(&net, "threads", &[]), net.address(Server));
    let mut serving = net.spawn(Server, &[RINGWAY, "run", "-q", "--", &threads, "serve", PORT]);
    net.wait_printed(&mut serving, "ready");
    let asks = [RINGWAY, "run", "-q", "--", &threads, "ask", &address, PORT, "500"];
    for asks in [&asks[..], &asks[4..]] {
        let asked = net.untouched(Server, || net.run(Client, asks));
        assert_eq!(asked.stdout, "500 of 500\n", "{}", asked.stderr);
    }
}

/// A loop in which nothing happens sleeps: in F-Stack a core is busy with it.
#[test]
fn an_idle_loop_leaves_the_processor_alone() {
    let net = Net::new();
    let hello = FSTACK.compile(&net, "hello", &[]);
    let mut serving = net.spawn(Server, &[&hello, PORT]);
    net.wait_printed(&mut serving, "ready");
    let pid = serving.pid().as_raw_nonzero();
    let busy = |stat: &str| -> u64 {
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("ticks")).sum()
    };
    let ticks = || busy(&std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs"));
    let naps = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).expect("the kernel counts them")
    };
    let (before, slept) = (ticks(), naps());
    wait_until("it has slept five hundred times", Duration::from_secs(60), || naps() >= slept + 500);
    // A loop without a pause would have used each tick of half a second and more, fifty of them.
    assert!(ticks() - before < 40, "{} ticks", ticks() - before);
}

/// The headers declare what the library exports, and a C++ compiler takes them.
#[test]
fn the_headers_are_what_the_library_exports() {
    let headers = ["ff_api.h", "ff_event.h", "ff_epoll.h", "ff_errno.h", "ff_log.h", "ff_config.h", "rte_lcore.h"];
    let of_threads = ["ff_mt.h", "mt_api.h", "mt_incl.h", "micro_thread.h"];
    FSTACK.assert_described(&[&headers[..], &of_threads].concat(), 85);
}
