//! The configuration as a user meets it.

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
