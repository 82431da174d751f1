//! The service is replaced under load: it ends, hands its connections over, and another one of the same name comes, to which the
//! programs attach and their listeners return. No request fails.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::*;

/// Between the beginning of one service and the end of it.
const LIFE: Duration = Duration::from_secs(1);
/// How often the service is replaced in the long run.
const LONG_REPLACEMENTS: usize = 60;

/// A service that is replaced.
struct Replaced {
    net: Net,
    name: String,
    service: Option<Process>,
    options: &'static [&'static str],
}

impl Replaced {
    fn start() -> Replaced {
        Replaced::with(&[])
    }

    /// Every service has these options.
    fn with(options: &'static [&'static str]) -> Replaced {
        let net = Net::new();
        let (service, name) = net.serve(Server, options);
        Replaced { net, name, service: Some(service), options }
    }

    fn run(&self, program: &[&str]) -> Process {
        self.net.spawn(Server, &[&[RINGWAY, "run", "-q", "--name", &self.name, "--"], program].concat())
    }

    /// Ends the service after a while under load, and starts the next one.
    fn replace(&mut self) {
        std::thread::sleep(LIFE);
        let service = self.service.take().expect("one runs");
        service.signal(Signal::TERM);
        let ended = service.finish(DEADLINE).success();
        assert!(!ended.stderr.contains("not handed over"), "{}", ended.stderr);
        let mut service = self.net.spawn(Server, &[&[RINGWAY, "serve", "--name", &self.name], self.options].concat());
        service.wait_for_error_line("ready");
        self.service = Some(service);
    }

    /// Waits until the service that runs now has had a connection of this port; a short one is seen in TIME-WAIT only.
    fn wait_for_connections(&self, port: u16) {
        let filter = format!(":{port}");
        wait_until("the service has connections again", DEADLINE, || {
            let rows = self.net.output(Server, &[RINGWAY, "ss", "--name", &self.name, "-Htan"]);
            rows.lines().any(|row| row.contains(&filter) && !row.contains("path:kernel") && !row.starts_with("LISTEN"))
        });
    }

    fn nginx(&mut self) -> Process {
        crate::http::site(&self.net);
        let config = crate::http::nginx_config(&self.net, 80);
        let mut nginx = self.run(&["nginx", "-c", &config]);
        self.net.wait_served(Server, 80, &mut nginx);
        nginx
    }

    /// Kept and short connections, until `prove_wrk`. Of the latter 200 a second: a port of the client's that is in TIME-WAIT at the
    /// kernel leads to the kernel for a minute, and there are 14,000.
    fn wrk(&self) -> [Process; 2] {
        let url = self.net.url(80, "small.txt");
        let kept = self.net.spawn(Client, &["wrk", "-t1", "-c8", "-d10m", &url]);
        let pause = self.net.file("pause.lua", "function delay() return 20 end");
        [kept, self.net.spawn(Client, &["wrk", "-t1", "-c4", "-d10m", "-s", &pause, "-H", "Connection: close", &url])]
    }

    fn redis(&self) -> Process {
        #[rustfmt::skip]
        let mut redis = self.run(&[
            "redis-server", "--port", "6379", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--appendonly", "no",
        ]);
        self.net.wait_served(Server, 6379, &mut redis);
        redis
    }

    /// Increments that are carried out once each, besides others.
    fn redis_load(&self, requests: &str) -> Process {
        let host = self.net.address(Server);
        let load = ["redis-benchmark", "-h", &host, "-p", "6379", "-c", "8", "-n", requests, "-t", "set,get,incr", "--csv"];
        self.net.spawn(Client, &load)
    }

    fn prove_redis(&self, load: Process, requests: &str) {
        let ended = load.finish(DEADLINE).success();
        assert!(!ended.stdout.to_lowercase().contains("err") && ended.stderr.is_empty(), "{} {}", ended.stdout, ended.stderr);
        let ask = ["redis-cli", "-h", &self.net.address(Server), "-p", "6379", "GET", "counter:__rand_int__"];
        assert_eq!(self.net.output(Client, &ask).trim(), requests, "every increment has been carried out once");
    }
}

/// Ends a load: no request of it has failed.
fn prove_wrk(load: Process) {
    load.signal(Signal::INT);
    let said = load.finish(DEADLINE).success().stdout;
    assert!(said.contains("requests in") && !said.contains("Socket errors") && !said.contains("Non-2xx"), "{said}");
}

#[test]
fn the_service_is_replaced_while_nginx_is_under_load() {
    is_replaced_under_load(Replaced::start());
}

/// No worker knows the connections of the other.
#[test]
fn a_service_of_two_workers_is_replaced_while_nginx_is_under_load() {
    is_replaced_under_load(Replaced::with(&["--workers", "2"]));
}

fn is_replaced_under_load(mut house: Replaced) {
    let nginx = house.nginx();
    let load = house.wrk();
    for _ in 0..4 {
        house.replace();
        house.wait_for_connections(80);
    }
    load.into_iter().for_each(prove_wrk);
    nginx.signal(Signal::QUIT);
    nginx.finish(DEADLINE).success();
}

/// One that could not start leaves the other alone.
#[test]
fn a_service_takes_the_place_of_another() {
    let mut house = Replaced::start();
    let nginx = house.nginx();
    let load = house.wrk();
    let name = house.name.clone();
    let fails = |arguments: &[&str], why: &str| {
        let said = house.net.run(Server, &[&[RINGWAY, "serve"], arguments].concat());
        assert!(said.code() == 1 && said.stderr.contains(why), "{}", said.stderr);
    };
    fails(&["--name", &name], "use --replace or --name");
    let none = house.net.file("none.toml", "[interface]\nname = [\"nosuch0\"]\n");
    fails(
        &["--replace", "--name", &name, "--config", &none],
        "the service that runs is not replaced: no interface can be served",
    );
    fails(&["--replace", "--name", "private-1"], "none takes its place");
    for _ in 0..2 {
        house.wait_for_connections(80);
        let mut next = house.net.spawn(Server, &[RINGWAY, "serve", "--replace", "--name", &name]);
        next.wait_for_error_line("ready");
        let before = house.service.replace(next).expect("one ran").finish(DEADLINE).success();
        assert!(!before.stderr.contains("not handed over"), "{}", before.stderr);
    }
    house.wait_for_connections(80);
    load.into_iter().for_each(prove_wrk);
    nginx.signal(Signal::QUIT);
    nginx.finish(DEADLINE).success();
    // Where none runs, there is none to wait for.
    let service = house.service.take().expect("one runs");
    service.signal(Signal::TERM);
    service.finish(DEADLINE).success();
    let mut next = house.net.spawn(Server, &[RINGWAY, "serve", "--replace", "--name", &name]);
    next.wait_for_error_line("ready");
}

/// The client compares every reply.
#[test]
fn the_service_is_replaced_while_redis_is_under_load() {
    let mut house = Replaced::start();
    let _redis = house.redis();
    let load = house.redis_load("400000");
    for _ in 0..3 {
        house.replace();
    }
    house.prove_redis(load, "400000");
}

/// sshd's processes share the session's connection: the one that listens, the one with root's rights, and the one that reads.
#[test]
fn sessions_of_ssh_live_while_the_service_is_replaced() {
    let mut house = Replaced::start();
    let arguments = crate::ssh::sshd(&house.net);
    let mut sshd = house.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    house.net.wait_served(Server, crate::ssh::PORT, &mut sshd);
    let (options, port) = (crate::ssh::options(&house.net), crate::ssh::PORT.to_string());
    let target = format!("root@{}", house.net.address(Server));
    let options = options.iter().map(String::as_str);
    let words: Vec<&str> = ["ssh", "-p", &port].into_iter().chain(options).chain([target.as_str(), "cat"]).collect();
    let mut sessions = vec![Talker::start(&house.net, &words)];
    for _ in 0..3 {
        house.replace();
        // One that the next service, too, has to hand over.
        sessions.push(Talker::start(&house.net, &words));
    }
    sessions.into_iter().for_each(|session| session.finish(DEADLINE));
}

#[test]
#[ignore = "two minutes: make test-all"]
fn the_service_is_replaced_for_two_minutes_while_nginx_and_redis_are_under_load() {
    let mut house = Replaced::start();
    let (nginx, _redis) = (house.nginx(), house.redis());
    let (load, redis_load) = (house.wrk(), house.redis_load("600000"));
    for _ in 0..LONG_REPLACEMENTS {
        house.replace();
        house.wait_for_connections(80);
    }
    load.into_iter().for_each(prove_wrk);
    house.prove_redis(redis_load, "600000");
    nginx.signal(Signal::QUIT);
    nginx.finish(DEADLINE).success();
}
