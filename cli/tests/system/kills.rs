//! `kill -9` at random instants, of programs and of services: no other program loses a byte, and no program hangs.

use rustix::process::Signal;

use crate::harness::*;
use crate::hostile::Scene;
use crate::http::{nginx_config, site};

/// Starts a command again and again and kills it at an instant that chance chooses.
const KILLER: &str = include_str!("killer.py");
const ROUNDS_LONG: &str = "1000";
/// Where the kernel's nginx is.
const NGINX: u16 = 8100;

/// nginx of the kernel on the client's side.
fn nginx(net: &Net) -> Process {
    site(net);
    let mut nginx = net.spawn(Client, &["nginx", "-c", &nginx_config(net, NGINX)]);
    net.wait_listening(Client, NGINX, &mut nginx);
    nginx
}

/// Kills `whom`, a process of a download that `launcher` runs; asserts that nothing hangs.
fn kill(net: &Net, whom: &str, rounds: &str, launcher: &[&str]) {
    let url = format!("http://{}:{NGINX}/large.bin", net.address(Client));
    let killer = ["python3", "-c", KILLER, whom, rounds, "17"];
    let curl = ["curl", "-sS", "--max-time", "30", "-o", "/dev/null", &url];
    let report = net.spawn(Server, &[&killer[..], launcher, &curl[..]].concat()).finish(std::time::Duration::from_secs(1200));
    let report = report.success().stdout;
    println!("{whom}: {report}");
    assert!(report.ends_with("stuck 0\n"), "{report}");
}

fn killed_programs(rounds: &str) {
    let mut scene = Scene::new();
    let _nginx = nginx(&scene.net);
    scene.beside_a_victim(|scene| {
        kill(&scene.net, "group", rounds, &[RINGWAY, "run", "-q", "-e", "strict", "--name", &scene.name, "--"]);
    });
    scene.assert_clean();
    scene.service.signal(Signal::TERM);
    wait_until("SIGTERM ends the service", DEADLINE, || scene.service.poll().is_some());
}

/// The kernel serves again as soon as a service is gone, whatever was under way.
fn killed_services(rounds: &str) {
    let net = Net::new();
    let _nginx = nginx(&net);
    kill(&net, "leader", rounds, &[RINGWAY, "run", "-q", "--"]);
    let url = format!("http://{}:{NGINX}/small.txt", net.address(Client));
    net.output(Server, &["curl", "-sS", "--fail", "--max-time", "10", "-o", "/dev/null", &url]);
    net.output(Server, &["ping", "-c", "1", "-W", "5", &net.address(Client)]);
}

#[test]
fn programs_killed_at_any_instant_harm_no_other() {
    killed_programs("20");
}

#[test]
fn services_killed_at_any_instant_leave_a_working_kernel() {
    killed_services("12");
}

#[test]
#[ignore = "minutes: make test-all"]
fn a_thousand_killed_programs() {
    killed_programs(ROUNDS_LONG);
}

#[test]
#[ignore = "minutes: make test-all"]
fn a_thousand_killed_services() {
    killed_services(ROUNDS_LONG);
}
