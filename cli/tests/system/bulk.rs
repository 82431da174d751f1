//! `policy.bulk = "kernel"`: a large transfer goes to the kernel on its way, with equal bytes; small messages stay.

use std::fs::File;
use std::io::Write;

use crate::harness::*;
use crate::http::{nginx_config, site};

pub(crate) const CONFIG: &str = "[policy]\nbulk = \"kernel\"\n";
/// Pieces of noise, each of [`LARGE`] bytes: some hundred milliseconds of a veth pair.
const PIECES: usize = 40;

/// Makes a file of `PIECES` pieces beside the others of the site.
pub(crate) fn huge(net: &Net) -> String {
    site(net);
    let path = net.path("www/huge.bin");
    let mut file = File::create(&path).expect("a folder of ours");
    for seed in 0..PIECES {
        file.write_all(&noise(seed as u64 + 3, LARGE)).expect("there is space");
    }
    text(&path)
}

fn counter(net: &Net, side: Side, name: &str, counter: &str) -> u64 {
    let line = net.output(side, &[RINGWAY, "nstat", "-asz", "--name", name, counter]);
    let value = line.lines().last().and_then(|line| line.split_whitespace().nth(1));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {counter}: {line}"))
}

/// Fetches a file and compares it with the one on disk.
fn compare(net: &Net, launcher: &[&str], url: &str, file: &str) {
    let fetch = [launcher, &["curl", "-sS", "--fail", "--max-time", "50", url]].concat().join(" ");
    net.output(Client, &["sh", "-c", &format!("{fetch} | cmp - {file}")]);
}

#[test]
fn a_download_goes_to_the_kernel_and_small_replies_stay() {
    let net = Net::new();
    let file = huge(&net);
    let (_service, name) = net.serve(Server, &["--config", &net.file("ringway.toml", CONFIG)]);
    let nginx = [RINGWAY, "run", "-q", "--name", &name, "--", "nginx", "-c", &nginx_config(&net, 80)];
    let mut nginx = net.spawn(Server, &nginx);
    net.wait_served(Server, 80, &mut nginx);
    net.output(Client, &["wrk", "-t1", "-c8", "-d1", &net.url(80, "small.txt")]);
    assert_eq!(counter(&net, Server, &name, "RingwaySocketsHandedOver"), 0);
    for count in 1..=2 {
        compare(&net, &[], &net.url(80, "huge.bin"), &file);
        assert_eq!(counter(&net, Server, &name, "RingwayBulkHandedOver"), count);
    }
    let listed = net.output(Server, &[RINGWAY, "ss", "--name", &name, "-Htnp", "sport", "=", ":80"]);
    assert!(listed.contains("path:kernel reason:bulk count:2"), "{listed}");
    // nginx has written over its environment, in which the service's name stood.
    let why = net.run(Server, &[RINGWAY, "why", ":80"]);
    assert_eq!(why.code(), 1, "the kernel serves some of it: {}", why.stdout);
    assert!(why.stdout.contains(&format!("on Ringway, service {name}")) && why.stdout.contains("policy.bulk"), "{}", why.stdout);
}

#[test]
fn a_client_goes_on_in_the_kernel_with_what_it_receives() {
    let net = Net::new();
    let file = huge(&net);
    let mut nginx = net.spawn(Server, &["nginx", "-c", &nginx_config(&net, 80)]);
    net.wait_listening(Server, 80, &mut nginx);
    let (_service, name) = net.serve(Client, &["--config", &net.file("ringway.toml", CONFIG)]);
    compare(&net, &[RINGWAY, "run", "-q", "--name", &name, "--"], &net.url(80, "huge.bin"), &file);
    assert_eq!(counter(&net, Client, &name, "RingwayBulkHandedOver"), 1);
}

/// `policy.bulk = "auto"`, the default, follows what was measured here.
#[test]
fn doctor_measures_and_a_service_follows_it() {
    let net = Net::new();
    let file = huge(&net);
    let state = text(&net.path("state"));
    let variables = [("RINGWAY_STATE_DIRECTORY", state.as_str())];
    let report = net.spawn_with(Server, &[RINGWAY, "doctor", "--measure", "--json"], &variables, None).finish(DEADLINE);
    let report: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
    let choice = report["bulk"][0]["choice"].as_str().unwrap_or_else(|| panic!("nothing was measured: {report}")).to_owned();
    let path = net.path("state").join("measured.toml");
    let measured = std::fs::read_to_string(&path).expect("it is written down");
    assert!(measured.contains(&format!("bulk = \"{choice}\"")), "{measured}");
    // Without a measurement of this kernel it is as with "sent".
    for (word, kernel, expected) in [("stack", "kernel =", 0), ("sent", "kernel =", 1), ("stack", "kernels =", 1)] {
        let changed = measured.replace(&format!("\"{choice}\""), &format!("\"{word}\"")).replace("kernel =", kernel);
        std::fs::write(&path, changed).expect("a folder of ours");
        let name = format!("measured-{word}-{expected}");
        let mut service = net.spawn_with(Server, &[RINGWAY, "serve", "--name", &name], &variables, None);
        service.wait_for_error_line("ready");
        let nginx = [RINGWAY, "run", "-q", "--name", &name, "--", "nginx", "-c", &nginx_config(&net, 80)];
        let mut nginx = net.spawn(Server, &nginx);
        net.wait_served(Server, 80, &mut nginx);
        compare(&net, &[], &net.url(80, "huge.bin"), &file);
        assert_eq!(counter(&net, Server, &name, "RingwayBulkHandedOver"), expected, "{word}, {kernel}");
        nginx.signal(rustix::process::Signal::QUIT);
        nginx.finish(DEADLINE).success();
    }
}
