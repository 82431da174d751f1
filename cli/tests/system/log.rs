//! The log of a service: standard error in each format, and the record that `ringway log` reads.

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::*;

fn log(net: &Net, name: &str, more: &[&str]) -> String {
    net.output(Server, &[&[RINGWAY, "log", "--name", name], more].concat())
}

fn run_program(net: &Net, name: &str) {
    net.output(
        Server,
        &[
            RINGWAY,
            "run",
            "-q",
            "--name",
            name,
            "--",
            "python3",
            "-c",
            "import socket; s = socket.socket(); s.bind(('', 7000)); s.listen()",
        ],
    );
}

#[test]
fn the_record_says_what_attaches_and_follows_on() {
    let net = Net::new();
    let (service, name) = net.serve(Server, &[]);
    run_program(&net, &name);
    let mut follower = net.spawn(Server, &[RINGWAY, "log", "-f", "-l", "info", "--name", &name]);
    net.wait_printed(&mut follower, "ready");
    wait_until("the end of the program", DEADLINE, || log(&net, &name, &["-t", "attach"]).contains("has ended"));
    let all = log(&net, &name, &[]);
    for words in [" INFO  service: service ", " DEBUG attach: process ", " attaches\n"] {
        assert!(all.contains(words), "no {words:?}:\n{all}");
    }
    assert!(!service.stderr().contains("attaches"), "debug is for the record: {}", service.stderr());
    let last = log(&net, &name, &["-n", "1", "-t", "attach", "-j"]);
    let last: Value = serde_json::from_str(&last).expect("one line of JSON");
    assert!(last["pid"].is_u64() && last["target"] == "ringway::attach", "{last}");
    assert_eq!(log(&net, &name, &["-l", "warn", "-t", "attach"]), "");
    // The filter of standard error changes while the service runs.
    net.output(Server, &[RINGWAY, "config", "set", "--name", &name, "log.filter=info,ringway::attach=debug"]);
    net.wait_printed(&mut follower, "config: configuration read again: changed: log.filter");
    run_program(&net, &name);
    wait_until("the program on standard error", DEADLINE, || service.stderr().contains("attaches"));
    let refused = net.run(Server, &[RINGWAY, "config", "set", "--name", &name, "log.filter=ringway::attach=loud"]);
    assert!(refused.code() != 0 && refused.stderr.contains("no level"), "{}", refused.stderr);
    let other_user = ["setpriv", "--reuid", "65534", "--clear-groups", RINGWAY, "log", "--name", &name];
    let refused = net.run(Server, &other_user);
    assert!(refused.code() == 1 && refused.stderr.contains("Permission denied"), "{}", refused.stderr);
}

#[test]
fn the_record_of_a_killed_service_stays_and_that_of_a_stopped_one_goes() {
    let net = Net::new();
    let (mut service, name) = net.serve(Server, &[]);
    wait_until("the record", DEADLINE, || log(&net, &name, &["-t", "service"]).contains("ready"));
    service.signal(Signal::KILL);
    wait_until("its end", DEADLINE, || service.poll().is_some());
    assert_eq!(log(&net, &name, &["-t", "service"]).matches("ready").count(), 1);
    let mut service = net.spawn(Server, &[RINGWAY, "serve", "--name", &name]);
    service.wait_for_error_line("ready");
    wait_until("both", DEADLINE, || log(&net, &name, &["-t", "service"]).matches("ready").count() == 2);
    service.signal(Signal::TERM);
    service.finish(DEADLINE).success();
    let gone = net.run(Server, &[RINGWAY, "log", "--name", &name]);
    assert!(gone.code() == 1 && gone.stderr.contains("No such file"), "{}", gone.stderr);
}

#[test]
fn standard_error_has_the_format_that_was_chosen() {
    let net = Net::new();
    // As systemd does where its journal reads; the machine's own journal, if it has one, is hidden.
    let journal = "mount -t tmpfs tmpfs /run/systemd 2>/dev/null; JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec \"$@\"";
    let name = format!("log-auto-{}", std::process::id());
    let mut service = net.spawn(Server, &["unshare", "--mount", "sh", "-c", journal, "sh", RINGWAY, "serve", "--name", &name]);
    service.wait_for_error_line("<6>service ");
    service.signal(Signal::TERM);
    service.finish(DEADLINE).success();
    for (format, start) in
        [("text", "20"), ("json", "{\"timestamp\""), ("journald", "<6>service "), ("plain", "ringway: service ")]
    {
        let name = format!("log-{format}-{}", std::process::id());
        let variables = [("RINGWAY_LOG_FORMAT", format)];
        let mut service = net.spawn_with(Server, &[RINGWAY, "serve", "--name", &name], &variables, None);
        service.wait_for_error_line("ready");
        let text = service.stderr();
        assert!(text.lines().any(|line| line.starts_with(start) && line.contains("ready")), "{format}: {text}");
        service.signal(Signal::TERM);
        service.finish(DEADLINE).success();
    }
}

/// With a journal of its own, in a mount namespace of its own.
#[test]
fn the_journal_has_the_values_of_an_event_as_fields() {
    let net = Net::new();
    let script = net.file("journal.sh", include_str!("log/journal.sh"));
    let printed = net.output(Server, &["unshare", "--mount", "sh", &script, RINGWAY]);
    let entries: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let entry = |part: &str, words: &str| {
        let is_it =
            |entry: &&Value| entry["RINGWAY_PART"] == part && entry["MESSAGE"].as_str().is_some_and(|text| text.contains(words));
        entries.iter().find(is_it).unwrap_or_else(|| panic!("no {words:?} of {part}:\n{printed}"))
    };
    let ready = entry("service", "ready");
    assert!(ready["SYSLOG_IDENTIFIER"] == "ringway" && ready["_TRANSPORT"] == "journal" && ready["PRIORITY"] == "6", "{ready}");
    let attached = entry("attach", " attaches");
    assert!(attached["PRIORITY"] == "7" && attached["RINGWAY_UID"] == "0", "{attached}");
    let pid = attached["RINGWAY_PID"].as_str().expect("fields are text");
    assert!(attached["MESSAGE"].as_str().is_some_and(|text| text.contains(pid)), "{attached}");
}
