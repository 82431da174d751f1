//! Programs that were written for mTCP, on `libmtcp.so`.

use crate::capi::Library;
use crate::harness::*;

const PORT: &str = "5710";
const MTCP: Library = Library { room: "mtcp", name: "mtcp" };
/// A file as mTCP's examples have it.
const CONFIG: &str =
    "io = dpdk\nnum_cores = 1\nmax_concurrency = 1000\nport = dpdk0\nrcvbuf = 8192\nsndbuf = 8192\ntcp_timewait = 0\n";

/// Each call does the same on Ringway as on the kernel, down to errno.
#[test]
fn every_call_does_what_it_should() {
    let net = Net::new();
    let (calls, address) = (MTCP.compile(&net, "calls", &["-lpthread"]), net.address(Server));
    let serve = format!("TCP-LISTEN:{PORT},reuseaddr,fork");
    let mut echo = net.spawn(Server, &["socat", &serve, "EXEC:cat"]);
    net.wait_listening(Server, PORT.parse().expect("a number"), &mut echo);
    let on_ringway = [RINGWAY, "run", "-q", "--", &calls, &address, PORT];
    for (program, says) in [(&on_ringway[..], false), (&on_ringway[4..], true)] {
        let made = if says { net.run(Client, program) } else { net.untouched(Client, || net.run(Client, program)) };
        assert_eq!(made.stdout, "0 failures\n", "{}", made.stderr);
        assert_eq!(made.stderr.contains("the sockets are the kernel's"), says, "{}", made.stderr);
    }
}

/// A server of two contexts on one port and a client of one, against each other and the kernel's; every byte compared.
#[test]
fn servers_and_clients_answer_each_other() {
    let net = Net::new();
    let (serve, fetch) = (MTCP.compile(&net, "serve", &["-lpthread"]), MTCP.compile(&net, "fetch", &["-lpthread"]));
    let (address, config) = (net.address(Server), text(&net.path("mtcp.conf")));
    std::fs::write(&config, CONFIG).expect("the folder is the network's own");
    let mut serving = net.spawn(Server, &[RINGWAY, "run", "-q", "--", &serve, PORT, "2", &config]);
    for _ in 0..2 {
        net.wait_printed(&mut serving, "ready");
    }
    let asked = ["100000", "400", "40", &config];
    for prefix in [&[RINGWAY, "run", "-q", "--"][..], &[]] {
        let program: Vec<&str> = [prefix, &[&fetch, &address, PORT], &asked[..]].concat();
        let fetched = net.untouched(Server, || net.run(Client, &program));
        assert_eq!(fetched.stdout, "400 of 400 answers are right\n", "{}", fetched.stderr);
        assert!(fetched.stderr.contains("without effect here: io (the service has the devices), port"), "{}", fetched.stderr);
    }
    let curl = net.run(Client, &["curl", "-s", &format!("http://{address}:{PORT}/300")]);
    let expected: Vec<u8> = (0..300).map(|n| n as u8).collect();
    assert_eq!(curl.stdout.as_bytes(), String::from_utf8_lossy(&expected).as_bytes(), "{}", curl.stderr);
}

/// The headers declare what the library exports, and a C++ compiler takes them.
#[test]
fn the_headers_are_what_the_library_exports() {
    MTCP.assert_described(&["mtcp_api.h", "mtcp_epoll.h", "cpu.h", "rss.h", "debug.h"], 30);
}
