//! The configuration as a user meets it.

use rustix::process::Signal;

use crate::harness::*;

#[test]
fn every_key_is_shown_with_its_default_and_reason() {
    let net = Net::new();
    let shown = net.output(Server, &[RINGWAY, "config", "show"]);
    for section in ["[interface]", "[worker]", "[memory]", "[tcp]", "[limits]"] {
        assert!(shown.contains(section), "no {section}:\n{shown}");
    }
    let mut reason = false;
    for line in shown.lines().map(str::trim) {
        assert!(!line.contains(" = ") || line.starts_with('#') || reason || line.contains(" # "), "no reason beside: {line}");
        reason = line.starts_with('#');
    }
}

#[test]
fn what_is_shown_is_a_valid_configuration() {
    let net = Net::new();
    let file = net.file("ringway.toml", net.output(Server, &[RINGWAY, "config", "show"]));
    net.output(Server, &[RINGWAY, "run", "--config", &file, "--", "true"]);
}

#[test]
fn an_unknown_key_is_an_error_with_a_suggestion() {
    let net = Net::new();
    let file = net.file("ringway.toml", "[tcp]\nreceive_bufer_bytes = 65536\n");
    for arguments in
        [&[RINGWAY, "run", "--config", &file, "--", "true"][..], &[RINGWAY, "serve", "--name", "never", "--config", &file]]
    {
        let refused = net.run(Server, arguments);
        assert_ne!(refused.code(), 0);
        assert!(
            refused.stderr.contains("receive_bufer_bytes") && refused.stderr.contains("receive_buffer_bytes"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    let net = Net::new();
    for (text, word) in [
        ("[tcp]\ninitial_window = 0\n", "initial_window"),
        ("[tcp]\nsack = 7\n", "sack"),
        ("[interface]\ndevice = \"nic\"\n", "device"),
    ] {
        let file = net.file("ringway.toml", text);
        let refused = net.run(Server, &[RINGWAY, "run", "--config", &file, "--", "true"]);
        assert_ne!(refused.code(), 0, "{text}");
        assert!(refused.stderr.contains(word), "{text}: {}", refused.stderr);
    }
}

#[test]
fn the_environment_overrides_and_is_checked() {
    let net = Net::new();
    let show = [RINGWAY, "config", "show", "--effective"];
    let set = |value| net.spawn_with(Server, &show, &[("RINGWAY_TCP_RECEIVE_BUFFER_BYTES", value)], None).finish(DEADLINE);
    assert!(set("123456").success().stdout.contains("receive_buffer_bytes = 123456"));
    let refused = set("many");
    assert_ne!(refused.code(), 0);
    assert!(refused.stderr.contains("RINGWAY_TCP_RECEIVE_BUFFER_BYTES"), "{}", refused.stderr);
}

#[test]
fn a_second_service_of_the_same_name_is_refused() {
    let net = Net::new();
    let (_service, name) = net.serve(Server, &[]);
    let second = net.run(Server, &[RINGWAY, "serve", "--name", &name]);
    assert_ne!(second.code(), 0);
    assert!(second.stderr.contains(&name), "{}", second.stderr);
}

/// The exit status and both outputs of `ringway config …`.
fn config(net: &Net, arguments: &[&str]) -> (i32, String) {
    let done = net.run(Server, &[&[RINGWAY, "config"], arguments].concat());
    (done.code(), done.stdout + &done.stderr)
}

#[test]
fn a_running_service_is_changed_and_compared_with_its_file() {
    let net = Net::of_one_worker();
    let file = net.file("ringway.toml", "[tcp]\nretries = 8 # few\n");
    let (mut service, name) = net.serve(Server, &["--config", &file]);
    service.wait_for_error_line("ready");
    assert_eq!(config(&net, &["diff", "--name", &name]), (0, String::new()));
    assert_eq!(
        config(&net, &["set", "--name", &name, "tcp.retries=5", "service.drain_s=3"]).1,
        "tcp.retries = 5\nservice.drain_s = 3\n"
    );
    let (code, text) = config(&net, &["diff", "--name", &name]);
    assert!(
        code == 1 && text.starts_with("tcp.retries: 5 -> 8 (now from ringway config set, which goes before the file)"),
        "{text}"
    );
    let shown = config(&net, &["show", "--name", &name, "--json"]).1;
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("it is JSON");
    assert_eq!((&shown["tcp.retries"]["value"], &shown["tcp.retries"]["live"]), (&5.into(), &true.into()));
    assert_eq!((&shown["memory.slots"]["live"], &shown["tcp.retries"]["default"]), (&false.into(), &15.into()));

    let (code, text) = config(&net, &["set", "--name", &name, "memory.slots=4096"]);
    assert!(code == 1 && text.contains("memory.slots needs a restart"), "{text}");
    // Right alone, wrong beside what holds.
    let (code, text) = config(&net, &["set", "--name", &name, "tcp.rto_min_ms=50000"]);
    assert!(code == 1 && text.contains("tcp.rto_initial_ms"), "{text}");
    assert_eq!(
        config(&net, &["unset", "--name", &name, "tcp.retries", "service.drain_s"]),
        (0, "tcp.retries = 8\nservice.drain_s = 0\n".to_owned())
    );

    let (code, text) = config(&net, &["set", "--name", &name, "--persist", "tcp.retries=6", "memory.slots=4096"]);
    assert!(
        code == 0 && text.contains("memory.slots = 262144 until the service is restarted") && text.contains("tcp.retries = 6\n"),
        "{text}"
    );
    let written = std::fs::read_to_string(&file).expect("the test's own");
    assert_eq!(written, "[tcp]\nretries = 6 # few\n\n[memory]\nslots = 4096\n");
    assert_eq!(config(&net, &["diff", "--name", &name]), (1, "memory.slots: 262144 -> 4096 (needs a restart)\n".to_owned()));
    service.signal(Signal::TERM);
    service.finish(DEADLINE).success();
    let (code, text) = config(&net, &["set", "--name", &name, "tcp.retries=5"]);
    assert!(code == 1 && text.contains("no service"), "{text}");
}

#[test]
fn limits_of_the_whole_service_change_while_it_runs() {
    let net = Net::new();
    let file = net.file("ringway.toml", "[limits]\ngroups = 1\n");
    let (_service, name) = net.serve(Server, &["--config", &file]);
    let run = [RINGWAY, "run", "-e", "strict", "--name", &name, "--"];
    let last = [&run[..], &["true"]].concat();
    let waits = ["python3", "-c", "import signal; print('runs', flush=True); signal.pause()"];
    let mut first = net.spawn(Server, &[&run[..], &waits].concat());
    net.wait_printed(&mut first, "runs");
    assert_ne!(net.run(Server, &last).code(), 0, "one group is all that there may be");
    let set =
        ["set", "--name", &name, "limits.groups=8", "limits.connections=300000", "limits.time_wait=100", "policy.bulk=stack"];
    let (code, text) = config(&net, &set);
    assert!(code == 0 && text.contains("limits.connections = 300000\n"), "{text}");
    net.run(Server, &last).success();
    let (code, text) = config(&net, &["set", "--name", &name, "limits.ports=1000"]);
    assert!(code == 1 && text.contains("limits.ports needs a restart"), "{text}");
}

#[test]
fn a_program_runs_with_each_profile() {
    let net = Net::new();
    for profile in ["latency", "throughput", "many_connections", "memory"] {
        let done = net.run(Server, &[RINGWAY, "run", "--profile", profile, "--", "true"]).success();
        assert!(done.stderr.contains("ringway:"), "{profile}: {}", done.stderr);
    }
    let wrong = net.run(Server, &[RINGWAY, "run", "--profile", "fast", "--", "true"]);
    assert!(wrong.code() == 2 && wrong.stderr.contains("many_connections"), "{}", wrong.stderr);
    assert!(config(&net, &["profiles"]).1.contains("worker.spin_us = 1000: "));
}

/// The service's sockets, as it lists them.
fn sockets(net: &Net, name: &str) -> String {
    net.output(Server, &[RINGWAY, "ss", "-tanH", "--name", name])
}

#[test]
fn rules_leave_ports_and_connections_to_the_kernel() {
    let net = Net::new();
    let rules = "[[rule]]\naction = \"accelerate\"\nport = 8081\n[[rule]]\naction = \"kernel\"\nprotocol = \"tcp\"\nport = \"8080-8089\"\n\
                 [[rule]]\naction = \"kernel\"\npeer_port = 5000\n";
    let file = net.file("ringway.toml", rules);
    let (_service, name) = net.serve(Server, &["--config", &file]);
    let program = net.file(
        "program.py",
        "import socket\nkept = []\nfor port in 8080, 8081:\n  s = socket.create_server(('', port)); kept.append(s)\n\
         print('listening', flush=True)\nfor s in kept:\n  c, _ = s.accept(); c.sendall(c.recv(9)); kept.append(c)\ninput()\n",
    );
    let mut program = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "python3", &program]);
    net.wait_printed(&mut program, "listening");
    net.wait_served(Server, 8081, &mut program);
    let all = sockets(&net, &name);
    assert!(all.lines().any(|line| line.contains(":8080") && line.contains("path:kernel reason:rule")), "{all}");
    let kernel = net.output(Server, &["ss", "-Hltn"]);
    assert!(kernel.contains(":8080"), "{kernel}");
    let ip = net.address(Server);
    let client = format!(
        "import socket\nfor port in 8080, 8081:\n  s = socket.create_connection(('{ip}', port), 5)\n  s.sendall(b'ping'); print(s.recv(9))\n"
    );
    assert_eq!(net.output(Client, &["python3", "-c", &client]), "b'ping'\nb'ping'\n");
}

#[test]
fn a_rule_leaves_programs_to_the_kernel() {
    let net = Net::of_one_worker();
    let file = net.file("ringway.toml", "[[rule]]\naction = \"kernel\"\nprogram = \"sleep\"\nuser = \"root\"\n");
    let (_service, name) = net.serve(Server, &["--config", &file]);
    let refused = net.run(Server, &[RINGWAY, "run", "--name", &name, "--", "sleep", "0"]).success();
    assert!(refused.stderr.contains("a rule of the configuration"), "{}", refused.stderr);
    let served = net.run(Server, &[RINGWAY, "run", "--name", &name, "--", "true"]).success();
    assert!(!served.stderr.contains("a rule of the configuration"), "{}", served.stderr);
    assert_eq!(config(&net, &["check", &file]).1, "rule: action = \"kernel\", program = \"sleep\", user = \"root\"\n");
}

/// A copy of a program has its name and its bytes, and is another file.
#[test]
fn a_rule_names_the_file_that_a_program_runs() {
    let net = Net::new();
    let copied = net.file("folder/sleep", "");
    std::fs::copy("/usr/bin/sleep", &copied).expect("every machine has it");
    let digest = net.output(Server, &["sha256sum", &copied]);
    let digest = digest.split(' ').next().expect("the digest is first");
    let rules = format!(
        "[[rule]]\naction = \"kernel\"\npath = \"/usr/bin/sleep\"\n\
         [[rule]]\naction = \"kernel\"\npath = \"{copied}\"\nsha256 = \"{}\"\n\
         [[rule]]\naction = \"accelerate\"\npath = \"{copied}\"\nsha256 = \"{digest}\"\n\
         [[rule]]\naction = \"deny\"\nprogram = \"sleep\"\n",
        "0".repeat(64)
    );
    let file = net.file("ringway.toml", &rules);
    let (_service, name) = net.serve(Server, &["--config", &file]);
    let said = |program: &str| net.run(Server, &[RINGWAY, "run", "--name", &name, "--", program, "0"]);
    let refused = said("/usr/bin/sleep").success().stderr;
    assert!(refused.contains("leaves it to the kernel (action = \"kernel\", path = \"/usr/bin/sleep\""), "{refused}");
    let served = said(&copied).success().stderr;
    assert!(!served.contains("a rule of the configuration"), "{served}");
    // The file is another one from now on: none of the first three rules fits it.
    let append = std::fs::OpenOptions::new().append(true).open(&copied);
    append.and_then(|mut file| std::io::Write::write_all(&mut file, b"x")).expect("it is ours");
    let denied = said(&copied);
    assert!(denied.code() == 125 && denied.stderr.contains("denies it: a rule"), "{}", denied.stderr);
}

/// Four connections of a program send together no faster than its rule allows, and when the rule goes, as fast as they can.
#[test]
fn connections_share_the_rate_of_their_rule() {
    let net = Net::new();
    let rule = "[[rule]]\naction = \"accelerate\"\nprogram = \"python3\"\ntotal_rate = \"16mbit\"\n";
    let file = net.file("ringway.toml", rule);
    let (mut service, name) = net.serve(Server, &["--config", &file]);
    let server = net.file(
        "server.py",
        "import socket, threading\n\
         def send(c):\n  while c.recv(1): c.sendall(bytes(500_000))\n\
         s = socket.create_server(('', 8080)); print('listening', flush=True)\n\
         while True: threading.Thread(target=send, args=(s.accept()[0],), daemon=True).start()\n",
    );
    let mut server = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "python3", &server]);
    net.wait_printed(&mut server, "listening");
    net.wait_served(Server, 8080, &mut server);
    let ip = net.address(Server);
    let client = net.file(
        "client.py",
        format!(
            "import selectors, signal, socket, time\n\
             signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n\
             socks = [socket.create_connection(('{ip}', 8080), 20) for _ in range(4)]\n\
             while True:\n  start, left = time.monotonic(), dict.fromkeys(socks, 500_000)\n\
             \x20 for s in socks: s.sendall(b'x')\n  chosen = selectors.DefaultSelector()\n\
             \x20 for s in socks: chosen.register(s, selectors.EVENT_READ)\n  least = None\n\
             \x20 while any(left.values()):\n    for key, _ in chosen.select():\n      s = key.fileobj; left[s] -= len(s.recv(1 << 16))\n\
             \x20     if not left[s]:\n        chosen.unregister(s)\n        if least is None: least = 500_000 - max(left.values())\n\
             \x20 took = time.monotonic() - start\n  print('slow' if took > 0.8 else 'fast', 'even' if least > 100_000 else 'uneven', flush=True)\n\
             \x20 signal.sigwait([signal.SIGUSR1])\n"
        ),
    );
    let mut client = net.spawn(Client, &["python3", &client]);
    // Two million bytes at two million a second, but for the credit.
    net.wait_printed(&mut client, "slow even");
    std::fs::write(&file, "").expect("the test's file");
    service.signal(Signal::HUP);
    service.wait_for_error_line("changed: rule;");
    wait_until("they send as fast as they can", DEADLINE, || {
        client.signal(Signal::USR1);
        client.stdout().contains("fast")
    });
}

/// A port goes to the kernel and comes back while its program runs; the open connection goes home without a byte lost.
#[test]
fn rules_change_while_connections_are_open() {
    rules_change("1");
}

/// Two stacks have the port.
#[test]
fn rules_change_while_connections_are_open_at_two_workers() {
    rules_change("2");
}

fn rules_change(workers: &str) {
    let net = Net::new();
    let file = net.file("ringway.toml", "");
    let (mut service, name) = net.serve(Server, &["--config", &file, "--workers", workers]);
    let program = net.file(
        "program.py",
        "import socket, threading\n\
         def echo(c):\n  while True:\n    some = c.recv(4096)\n    if not some: return\n    c.sendall(some)\n\
         s = socket.create_server(('', 8080)); print('listening', flush=True)\n\
         while True: threading.Thread(target=echo, args=(s.accept()[0],), daemon=True).start()\n",
    );
    let mut program = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "python3", &program]);
    net.wait_printed(&mut program, "listening");
    net.wait_served(Server, 8080, &mut program);
    let ip = net.address(Server);
    let client = net.file(
        "client.py",
        format!(
            "import signal, socket, sys\nopened = []\n\
             signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n\
             while True:\n  opened.append(socket.create_connection(('{ip}', 8080), 20))\n\
             \x20 for c in opened:\n    for i in range(200):\n      data = b'%06d' % i\n      c.sendall(data)\n\
             \x20     assert c.recv(6, socket.MSG_WAITALL) == data\n\
             \x20 print('all of', len(opened), flush=True)\n  signal.sigwait([signal.SIGUSR1])\n"
        ),
    );
    let mut client = net.spawn(Client, &["python3", &client]);
    net.wait_printed(&mut client, "all of 1");
    let kernels = || net.output(Server, &["ss", "-Htn", "state", "established", "( sport = :8080 )"]).lines().count();
    assert_eq!(kernels(), 0);
    let mut rules = |text: &str, count: usize| {
        std::fs::write(&file, text).expect("the test's file");
        service.signal(Signal::HUP);
        service.wait_for_error_lines("changed: rule;", count);
    };
    let become_kernels = |count: usize| wait_until("the connection is the kernel's", DEADLINE, || kernels() == count);
    rules("[[rule]]\naction = \"kernel\"\nport = 8080\n", 1);
    become_kernels(1);
    let is_shown = || sockets(&net, &name).lines().any(|line| line.contains(":8080") && line.contains("path:kernel reason:rule"));
    wait_until("ss shows why", DEADLINE, is_shown);
    client.signal(Signal::USR1);
    net.wait_printed(&mut client, "all of 2");
    assert_eq!(kernels(), 2, "new ones are the kernel's too");
    rules("", 2);
    client.signal(Signal::USR1);
    net.wait_printed(&mut client, "all of 3");
    assert_eq!(kernels(), 2, "the kernel's stay so, and new ones are Ringway's");
    // The same by a rule about the program.
    rules("[[rule]]\naction = \"kernel\"\nprogram = \"python3\"\n", 3);
    become_kernels(3);
    client.signal(Signal::USR1);
    net.wait_printed(&mut client, "all of 4");
    assert_eq!(kernels(), 4);
    assert_eq!(net.output(Server, &["ss", "-Htn", "state", "listening", "( sport = :8080 )"]).lines().count(), 1);
}

#[test]
fn what_a_rule_denies_is_the_kernels_neither() {
    let net = Net::new();
    let rules = "[[rule]]\naction = \"deny\"\nport = 8082\n[[rule]]\naction = \"deny\"\nprotocol = \"tcp\"\npeer_port = 5000\n\
                 [[rule]]\naction = \"deny\"\nprogram = \"perl\"\n";
    let file = net.file("ringway.toml", rules);
    let (_service, name) = net.serve(Server, &["--config", &file]);
    let peer = net.address(Client);
    let program = net.file(
        "program.py",
        format!(
            "import errno, socket\n\
             def tell(what, call):\n  try: call(); print(what, 'done')\n  except OSError as e: print(what, errno.errorcode[e.errno])\n\
             s = socket.socket(); s.bind(('', 8082)); tell('listen', s.listen)\n\
             tell('connect', lambda: socket.create_connection(('{peer}', 5000), 5))\n\
             u = socket.socket(type=socket.SOCK_DGRAM); tell('bind', lambda: u.bind(('', 8082)))\n\
             tell('other', lambda: socket.create_server(('', 8083)))\n"
        ),
    );
    let run = |command: &[&str]| net.run(Server, &[&[RINGWAY, "run", "-q", "--name", &name, "--"], command].concat());
    assert_eq!(run(&["python3", &program]).success().stdout, "listen EACCES\nconnect EACCES\nbind EACCES\nother done\n");
    let denied = net.run(Server, &[RINGWAY, "run", "--name", &name, "--", "perl", "-e", "1"]);
    assert!(denied.code() == 125 && denied.stderr.contains("denies it: a rule"), "{}", denied.stderr);
    // One that `run` does not look at, such as a child, hears of it at its first socket.
    let script = format!(
        "use IO::Socket; IO::Socket::INET->new(PeerAddr => '{peer}', PeerPort => 80) or print $!{{EACCES}} ? 'EACCES' : $!;"
    );
    let child = run(&["sh", "-c", "exec perl -e \"$0\"", &script]).success();
    assert_eq!(child.stdout, "EACCES", "{}", child.stderr);
}

#[test]
fn connections_have_the_terms_of_their_rule() {
    let net = Net::new();
    let rules = "[[rule]]\naction = \"accelerate\"\nport = 8081\nrate = \"80mbit\"\ncongestion_control = \"bbr\"\n\
                 [[rule]]\naction = \"accelerate\"\nprogram = \"python3\"\nsockets = 4\n";
    let file = net.file("ringway.toml", rules);
    let (_service, name) = net.serve(Server, &["--config", &file]);
    let program = net.file(
        "program.py",
        "import signal, socket\ns = socket.create_server(('', 8081)); print('listening', flush=True)\nc, _ = s.accept()\n\
         print(c.getsockopt(6, 13, 16).rstrip(b'\\0'), c.getsockopt(1, 47), flush=True)\n\
         kept = [socket.create_server(('', 9000 + i)) for i in range(6)]\nprint('all', flush=True); signal.pause()\n",
    );
    let mut program = net.spawn(Server, &[RINGWAY, "run", "-q", "--name", &name, "--", "python3", &program]);
    net.wait_printed(&mut program, "listening");
    net.wait_served(Server, 8081, &mut program);
    let ip = net.address(Server);
    let client = net.spawn(
        Client,
        &["python3", "-c", &format!("import signal, socket\ns = socket.create_connection(('{ip}', 8081), 5)\nsignal.pause()")],
    );
    net.wait_printed(&mut program, "all");
    net.wait_printed(&mut program, "b'bbr' 10000000");
    program.wait_while_running("a socket more than the rule allows is the kernel's", || {
        sockets(&net, &name).contains("path:kernel reason:no-resources")
    });
    drop(client);
}
