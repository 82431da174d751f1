//! The same attacks on the kernel and on Ringway, side by side: the table of docs/isolation.md.
//!
//! `cargo test --release -p ringway-cli --test system -- attacks:: --ignored --nocapture` prints it. Each attack is bounded in what it
//! opens and in time, and comes from the wire, or from programs beside the server. A client that keeps to the rules goes on meanwhile.
//! The tests assert that server and service live after each attack; the numbers are for people.

use std::time::Duration;

use crate::harness::*;

const SERVER: &str = include_str!("attacks/server.py");
const LEGIT: &str = include_str!("attacks/legit.py");
const ATTACK: &str = include_str!("attacks/attack.py");
const PROCESSES: &str = include_str!("attacks/processes.py");
/// From the wire.
const REMOTE: [&str; 11] = [
    "none",
    "syn flood",
    "forged syn flood",
    "connection flood",
    "slow readers",
    "slow requests",
    "holes",
    "rst and fin storm",
    "fragments",
    "icmp lies",
    "udp flood",
];
/// From programs of the server's machine; the last one attacks the region of its own, which the kernel does not have.
const LOCAL: [&str; 2] = ["processes", "scribbling"];
/// An address of the wire that no host answers for.
const GHOST_HOST: &str = ".200";
/// For how long a client is looked at after an attack.
const AFTERMATH: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stack {
    Kernel,
    Ringway,
}

/// A server on one of the stacks, and what it uses.
struct Scene {
    net: Net,
    service: Option<(Process, String)>,
    server: Process,
}

impl Scene {
    fn new(stack: Stack) -> Scene {
        let net = Net::new();
        let client_mac = mac(&net, Client);
        let ghost = format!("{}{GHOST_HOST}", net.address(Client).rsplit_once('.').expect("four numbers").0);
        net.output(Server, &["ip", "neigh", "add", &ghost, "lladdr", &client_mac, "dev", INTERFACE]);
        // Answers to forged sources leave too.
        net.output(Server, &["ip", "route", "add", "default", "via", &ghost]);
        let service = (stack == Stack::Ringway).then(|| net.serve(Server, &[]));
        let (script, address) = (net.file("server.py", SERVER), net.address(Server));
        let program = ["python3", &script, &address];
        let mut server = match &service {
            Some((_, name)) => {
                net.spawn(Server, &[&[RINGWAY, "run", "-q", "-e", "strict", "--name", name, "--"], &program[..]].concat())
            }
            None => net.spawn(Server, &program),
        };
        net.wait_listening(Server, 7080, &mut server);
        Scene { net, service, server }
    }

    fn run(&self, attack: &str, seconds: u64) -> String {
        let net = &self.net;
        let (server, client, limit) = (net.address(Server), net.address(Client), seconds.to_string());
        let patience = DEADLINE + Duration::from_secs(seconds);
        match (attack, &self.service) {
            ("processes", service) => {
                let program = ["python3", "-c", PROCESSES, &limit, &client];
                let under = service.as_ref().map_or(vec![], |(_, name)| vec![RINGWAY, "run", "-q", "--name", name, "--"]);
                net.spawn(Server, &[&under[..], &program].concat()).finish(patience).success().stdout
            }
            ("scribbling", Some((_, name))) => {
                let hostile = std::path::Path::new(RINGWAY).with_file_name("hostile");
                let socket = text(&net.service_socket(Server, name));
                let tool = [&text(&hostile)[..], "--socket", &socket, "--rounds", "60", "--form", "region", "--peer", &client];
                net.spawn(Server, &tool).finish(patience * 4).success().stdout
            }
            _ => {
                let script = net.file("attack.py", ATTACK);
                let program = ["python3", &script, attack, &server, &client, INTERFACE, &mac(net, Server), &limit];
                net.spawn(Client, &program).finish(patience).success().stdout
            }
        }
    }

    /// Resident memory of the service and what its processor has done for it, MB and seconds; of the kernel, pages of TCP.
    fn use_of(&self) -> (f64, f64) {
        let Some((service, _)) = &self.service else {
            let sockets = self.net.output(Server, &["cat", "/proc/net/sockstat"]);
            let pages = sockets.lines().find(|line| line.starts_with("TCP:")).and_then(|line| line.split_whitespace().last());
            return (pages.and_then(|pages| pages.parse::<f64>().ok()).expect("TCP: ... mem N") * 4096.0 / 1e6, f64::NAN);
        };
        let file = |name| std::fs::read_to_string(format!("/proc/{}/{name}", service.pid())).expect("the service lives");
        let status = file("status");
        let kib = status.lines().find(|line| line.starts_with("VmRSS:")).and_then(|line| line.split_whitespace().nth(1));
        let stat = file("stat");
        let fields: Vec<&str> = stat.rsplit_once(')').expect("a name in brackets").1.split_whitespace().collect();
        let ticks: f64 = fields[11..13].iter().map(|field| field.parse::<f64>().expect("ticks")).sum();
        (kib.and_then(|kib| kib.parse::<f64>().ok()).expect("a size") / 1e3, ticks / 100.0)
    }

    fn assert_alive(&mut self) {
        assert_eq!(self.server.poll(), None, "the server has ended: {}", self.server.stderr());
        if let Some((service, _)) = &mut self.service {
            assert_eq!(service.poll(), None, "the service has ended: {}", service.stderr());
        }
    }

    /// Begins the client that keeps to the rules.
    fn legit(&self) -> Process {
        let (address, stop) = (self.net.address(Server), text(&self.net.path("stop")));
        let mut legit = self.net.spawn(Client, &["python3", "-c", LEGIT, &address, &stop]);
        self.net.wait_printed(&mut legit, "running");
        legit
    }
}

pub(crate) fn mac(net: &Net, side: Side) -> String {
    let shown = net.output(side, &["ip", "-o", "link", "show", INTERFACE]);
    let mut words = shown.split_whitespace().skip_while(|word| *word != "link/ether");
    words.nth(1).expect("an Ethernet address").to_string()
}

/// One row: what the client got, what the stack used.
fn row(attack: &str, stack: Stack, seconds: u64) -> String {
    let mut scene = Scene::new(stack);
    let (_, cpu_before) = scene.use_of();
    let legit = scene.legit();
    let load = scene.run(attack, seconds);
    let (memory, cpu) = scene.use_of();
    scene.net.file("stop", "");
    let report = legit.finish(DEADLINE).success().stdout;
    let words: Vec<&str> = report.split_whitespace().skip(1).collect();
    assert_eq!(
        words.iter().step_by(2).copied().collect::<Vec<_>>(),
        ["tried", "served", "p50_ms", "p99_ms", "max_ms"],
        "{report}"
    );
    std::fs::remove_file(scene.net.path("stop")).expect("it was there");
    // The attack is over: what the next client gets.
    let after = scene.legit();
    std::thread::sleep(AFTERMATH);
    scene.net.file("stop", "");
    let after = after.finish(DEADLINE).success().stdout;
    let after: Vec<&str> = after.split_whitespace().skip(2).step_by(2).take(2).collect();
    scene.assert_alive();
    let name = if stack == Stack::Kernel { "kernel" } else { "Ringway" };
    let used = if cpu.is_nan() { "–".into() } else { format!("{:.1} s", cpu - cpu_before) };
    let (load, tried, served) = (load.trim(), words[1], words[3]);
    let times = [words[5], words[7], words[9]].join(" / ");
    let after = format!("{} / {}", after[1], after[0]);
    format!("| {attack} | {load} | {name} | {served} / {tried} | {times} | {after} | {memory:.0} MB | {used} |")
}

fn table(attacks: &[&str], seconds: u64) {
    println!(
        "| attack | load | stack | served / tried | p50 / p99 / longest, ms | served / tried after it | memory | service's processor |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for attack in attacks {
        for stack in [Stack::Kernel, Stack::Ringway] {
            if *attack != "scribbling" || stack == Stack::Ringway {
                println!("{}", row(attack, stack, seconds));
            }
        }
    }
}

#[test]
#[ignore = "minutes: make test-all"]
fn side_by_side() {
    table(&[&REMOTE[..], &LOCAL].concat(), 8);
}

/// The program of the long form works.
#[test]
fn the_comparison_runs() {
    table(&["rst and fin storm"], 1);
}
