//! `ringway trace`: one connection's segments with what the stack decides, live and from a file.

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::*;

const BYTES: usize = 400_000;

/// Sends what it is asked for, on two ports.
const SERVER: &str = "import socket, threading
def serve(port):
    s = socket.create_server(('', port))
    while True:
        c, _ = s.accept()
        c.sendall(b'x' * int(c.recv(100)))
        c.close()
threading.Thread(target=serve, args=(4001,), daemon=True).start()
serve(4000)";

/// Reads as many bytes as it asks for.
const CLIENT: &str = "import socket, sys
c = socket.create_connection((sys.argv[1], int(sys.argv[2])))
c.sendall(sys.argv[3].encode())
n = 0
while (b := c.recv(1 << 16)): n += len(b)
print(n)";

/// Drops some of what the server sends, data and acknowledgments.
const LOSS: &str = "add table inet loss
add chain inet loss input { type filter hook input priority 0; policy accept; }
add rule inet loss input tcp sport 4000 numgen inc mod 7 == 5 drop";

fn fetch(net: &Net, port: u16, bytes: usize) {
    let (address, port, asked) = (net.address(Server), port.to_string(), bytes.to_string());
    let got = net.output(Client, &["python3", "-c", CLIENT, &address, &port, &asked]);
    assert_eq!(got.trim(), asked);
}

/// A transfer with losses is told from its handshake to its end, with the reasons; the file tells the same and breaks no
/// rule of TCP; connections of another port are in neither.
#[test]
fn a_connection_is_told_with_its_decisions() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let mut server = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "python3", "-c", SERVER]);
    net.wait_served(Server, 4000, &mut server);
    net.wait_served(Server, 4001, &mut server);
    let file = text(&net.path("trace.pcapng"));
    let port = format!("{}:4000", net.address(Server));
    let mut printed = net.spawn(Server, &[RINGWAY, "trace", "--name", &name, "--print", "-w", &file, &port]);
    let mut objects = net.spawn(Server, &[RINGWAY, "trace", "--name", &name, "-j", ":4000"]);
    for trace in [&mut printed, &mut objects] {
        trace.wait_for_error_line("following service");
    }
    let rules = net.file("loss.nft", LOSS);
    net.output(Client, &["nft", "-f", &rules]);
    fetch(&net, 4001, 1_000);
    fetch(&net, 4000, BYTES);
    wait_until("the end of the connection", DEADLINE, || {
        [&printed, &objects].iter().all(|trace| trace.stdout().contains("TIME-WAIT"))
    });
    for trace in [&printed, &objects] {
        trace.signal(Signal::INT);
    }
    let told = printed.finish(DEADLINE).success().stdout;
    let told_as = |words: &str| assert!(told.contains(words), "no {words:?}:\n{told}");
    for words in
        ["connection 1: ", "opens", "accepts", "state:SYN-RECV", "state:ESTAB", "new data", "again, ", "waits:cwnd", "closes"]
    {
        told_as(words);
    }
    assert!(["ca:recovery", "ca:loss"].iter().any(|state| told.contains(state)), "{told}");
    assert!(!told.contains(":4001") && !told.contains("connection 2"), "{told}");
    let all = objects.finish(DEADLINE).success().stdout;
    let all: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).expect("an object in each line")).collect();
    assert!(all.iter().all(|object| object["local"] == port.as_str()), "{all:?}");
    let new: u64 = all
        .iter()
        .filter(|object| object["why"] == "new data" || object["why"] == "closes")
        .filter(|object| object["direction"] == "sent")
        .filter_map(|object| object["len"].as_u64())
        .sum();
    assert_eq!(new, BYTES as u64, "each byte is new once");
    assert!(all.iter().any(|object| object["state"]["cwnd"].as_u64().is_some_and(|cwnd| cwnd >= 10)), "{all:?}");

    assert_eq!(net.output(Server, &[RINGWAY, "trace", "-r", &file]), told);
    assert_eq!(net.output(Server, &[RINGWAY, "trace", "-r", &file, ":4001"]), "");
    let first = net.output(Server, &[RINGWAY, "trace", "-c", "1", "-r", &file]);
    assert!(first.lines().count() == 3 && first.contains("opens"), "{first}");
    let checked = net.output(Server, &[RINGWAY, "check-trace", "--local", &net.address(Server), &file]);
    assert!(checked.contains(" 1 flows, 0 findings"), "{checked}");
    let lines = net.output(Server, &["tcpdump", "-n", "-r", &file]);
    assert!(lines.contains("Flags [S.],"), "{lines}");
}

#[test]
fn what_cannot_be_traced_is_said() {
    let net = Net::new();
    let failed = |words: &[&str]| {
        let ended = net.run(Server, &[&[RINGWAY, "trace"], words].concat());
        assert_eq!(ended.code(), 1, "{}", ended.stderr);
        ended.stderr
    };
    let missing = failed(&["--name", "no-such-service", ":80"]);
    assert!(missing.contains("no service no-such-service"), "{missing}");
    let (_service, name) = net.serve(Server, &[]);
    let missing = failed(&["--name", &name, "-i", "eth77", ":80"]);
    assert!(missing.contains(&format!("has no interface eth77; it has: {INTERFACE}")), "{missing}");
    let full = failed(&["--name", &name, "-w", "/dev/full", ":80"]);
    assert!(full.contains("/dev/full: No space left on device"), "{full}");
    let no_capture = net.file("text", "no capture");
    let refused = failed(&["-r", &no_capture]);
    assert!(refused.contains("neither pcap nor pcapng"), "{refused}");
    let other_user = ["setpriv", "--reuid", "65534", "--clear-groups", RINGWAY, "trace", "--name", &name, ":80"];
    let refused = net.run(Server, &other_user);
    assert!(refused.code() == 1 && refused.stderr.contains("Permission denied"), "{}", refused.stderr);
}

/// A connection that goes to the kernel on its way is no riddle: the trace says so.
#[test]
fn a_connection_that_leaves_is_said() {
    let net = Net::new();
    crate::bulk::huge(&net);
    let (_service, name) = net.serve(Server, &["--config", &net.file("ringway.toml", crate::bulk::CONFIG)]);
    let nginx = [RINGWAY, "run", "-q", "--name", &name, "--", "nginx", "-c", &crate::http::nginx_config(&net, 80)];
    let mut nginx = net.spawn(Server, &nginx);
    net.wait_served(Server, 80, &mut nginx);
    let mut trace = net.spawn(Server, &[RINGWAY, "trace", "--name", &name, ":80"]);
    trace.wait_for_error_line("following service");
    net.output(Client, &["curl", "-sS", "-o", "/dev/null", &net.url(80, "huge.bin")]);
    trace.wait_for_error_line("the kernel serves");
    trace.signal(Signal::INT);
    let ended = trace.finish(DEADLINE).success();
    assert!(ended.stderr.contains("reason bulk: their segments are not seen"), "{}", ended.stderr);
    assert!(ended.stdout.contains("state:ESTAB"), "what was seen before: {}", ended.stdout);
}
