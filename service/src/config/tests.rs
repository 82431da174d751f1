use ringway_shm::Duration;
use ringway_stack::{Autoconfiguration, FastOpenKeys, StackConfig, TcpConfig};

use ringway_engine::quota::Standard;

use super::keys::KEYS;
use super::{Config, DeviceChoice, Value};

fn parse(text: &str) -> Result<Config, String> {
    Config::parse("t.toml", text, Vec::new()).map_err(|error| error.to_string())
}

fn with_variable(name: &str, value: &str) -> Result<Config, String> {
    Config::parse("t.toml", "", vec![(name.into(), value.into())]).map_err(|error| error.to_string())
}

#[test]
fn nothing_said_is_the_stacks_own_defaults() {
    let config = parse("").expect("an empty file is valid");
    let (stack, tcp) = (StackConfig::default(), TcpConfig::default());
    assert_eq!(format!("{:?}", config.stack.tcp), format!("{tcp:?}"));
    assert_eq!(format!("{:?}", config.stack), format!("{stack:?}"));
    assert_eq!(config.interface.names, None);
    assert_eq!(config.worker.spin, None);
    assert!(config.changed().is_empty());
}

#[test]
fn values_are_read() {
    let text = "[interface]\nname = [\"eth0\", \"eth1\"]\ndevice = \"xdp\"\nmtu = 9000\n[worker]\nspin_us = 5\n[tcp]\nsack = false\nretries = 3";
    let config = parse(text).expect("valid");
    assert_eq!(config.interface.names, Some(vec!["eth0".to_owned(), "eth1".to_owned()]));
    assert_eq!(config.interface.device, DeviceChoice::Xdp);
    assert_eq!(config.interface.mtu, Some(9000));
    assert_eq!(config.worker.spin, Some(Duration::from_micros(5)));
    assert!(!config.stack.tcp.sack);
    assert_eq!(config.stack.tcp.retries, 3);
    assert_eq!(config.changed().len(), 6);
}

#[test]
fn an_unknown_key_is_an_error_with_place_and_suggestion() {
    let error = parse("[tcp]\nretries = 9\nsend_buffer_byte = 4096\n").expect_err("unknown key");
    assert_eq!(error, "t.toml:3: unknown key tcp.send_buffer_byte; did you mean tcp.send_buffer_bytes?");
}

#[test]
fn a_key_in_the_wrong_section_is_found() {
    let error = parse("[worker]\nframes_large = 1024\n").expect_err("wrong section");
    assert_eq!(error, "t.toml:2: unknown key worker.frames_large; did you mean memory.frames_large?");
}

#[test]
fn an_unknown_section_is_an_error_with_suggestion() {
    let error = parse("[interfaces]\n").expect_err("unknown section");
    assert_eq!(error, "t.toml:1: unknown section [interfaces]; did you mean interface?");
    let error = parse("[zzz]\n").expect_err("unknown section");
    assert_eq!(error, "t.toml:1: unknown section [zzz]; \"ringway config show\" prints all");
}

#[test]
fn all_problems_are_told_at_once() {
    let error = parse("[tcp]\nretries = 1\nsack = 1\n[worker]\nspin_us = \"much\"\n").expect_err("three problems");
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(
        lines,
        [
            "t.toml:2: tcp.retries: 1 is out of range, 3 to 255",
            "t.toml:3: tcp.sack: 1 cannot stand here, true or false",
            "t.toml:5: worker.spin_us: \"much\" cannot stand here, \"auto\" or 0 to 10000",
        ]
    );
}

#[test]
fn numbers_that_are_none_are_errors() {
    for text in [
        "retries = -3",
        "retries = 99999999999999999999999",
        "retries = 3.5",
        "retries = [3]",
        "retries = 1979-05-27",
        "retries = {}",
    ] {
        parse(&format!("[tcp]\n{text}\n")).expect_err(text);
    }
    assert_eq!(parse("[tcp]\nretries = 0x10").expect("hexadecimal is TOML").stack.tcp.retries, 16);
}

#[test]
fn broken_toml_names_its_line() {
    let error = parse("[tcp]\nretries = \n").expect_err("no value");
    assert!(error.starts_with("t.toml:2: "), "{error}");
}

#[test]
fn the_environment_overrides_the_file() {
    let variables = vec![("RINGWAY_TCP_RETRIES".into(), "7".into()), ("RINGWAY_INTERFACE_NAME".into(), "veth1, veth2".into())];
    let config = Config::parse("t.toml", "[tcp]\nretries = 4", variables).expect("valid");
    assert_eq!(config.stack.tcp.retries, 7);
    assert_eq!(config.interface.names, Some(vec!["veth1".to_owned(), "veth2".to_owned()]));
    assert!(config.show().contains("retries = 7  # from RINGWAY_TCP_RETRIES"));
}

#[test]
fn a_wrong_variable_is_an_error_and_a_foreign_one_is_not() {
    let error = with_variable("RINGWAY_TCP_RETRYS", "7").expect_err("unknown key");
    assert_eq!(error, "RINGWAY_TCP_RETRYS: unknown key tcp.retrys; did you mean tcp.retries?");
    with_variable("RINGWAY_TCP_RETRIES", "many").expect_err("not a number");
    with_variable("RINGWAY_POLICY_STRICT", "perhaps").expect_err("not a flag");
    assert!(with_variable("RINGWAY_POLICY_STRICT", "1").expect("a flag").policy.strict);
    with_variable("RINGWAY_SOCKET", "/run/x").expect("not a key");
    with_variable("HOME", "/root").expect("not a key");
}

#[test]
fn keys_that_contradict_each_other_are_errors() {
    parse("[tcp]\nrto_min_ms = 5000\nrto_max_ms = 2000\nrto_initial_ms = 3000").expect_err("min above max");
    parse("[tcp]\nephemeral_port_first = 50000\nephemeral_port_last = 40000").expect_err("last before first");
    parse("[interface]\ndevice = \"tap\"").expect_err("tap without address");
    parse("[interface]\naddress = \"10.0.0.2/24\"").expect_err("address without tap");
    parse("[interface]\ndevice = \"tap\"\naddress = \"10.0.0.2/33\"").expect_err("prefix too long");
    parse("[interface]\ndevice = \"tap\"\naddress = \"10.0.0.2/24\"").expect("complete");
    parse("[interface]\naddress6 = \"fd00::2/64\"").expect_err("address without tap");
    let tap = "[interface]\ndevice = \"tap\"\naddress = \"10.0.0.2/24\"";
    parse(&format!("{tap}\naddress6 = \"fd00::2/64\"\ngateway6 = \"fd00::1\"")).expect("complete");
    parse(&format!("{tap}\naddress6 = \"10.0.1.2/24\"")).expect_err("of the other family");
    parse(&format!("{tap}\naddress6 = \"fd00::2/127\"")).expect_err("prefix too long");
    parse(&format!("{tap}\ngateway = \"fd00::1\"")).expect_err("of the other family");
    parse(&format!("{tap}\ngateway6 = \"10.0.0.1\"")).expect_err("of the other family");
}

#[test]
fn what_is_shown_can_be_read_back() {
    let text = "[interface]\nname = \"eth\\\"0\"\n[limits]\ngroups = 3\n";
    let shown = parse(text).expect("valid").show();
    let again = parse(&shown).expect("what is shown is valid");
    assert_eq!(again.interface.names, Some(vec!["eth\"0".to_owned()]));
    assert_eq!(again.limits.groups, 3);
    assert_eq!(again.changed().len(), 2);
}

#[test]
fn every_default_passes_its_own_check_and_paths_are_unique() {
    for (index, key) in KEYS.iter().enumerate() {
        let default = key.default_value();
        let again =
            key.check(if default == super::Value::Auto { super::Value::Text("auto".to_owned()) } else { default.clone() });
        assert_eq!(again, Ok(default), "{}", key.path);
        assert!(!key.why.is_empty());
        assert!(KEYS[..index].iter().all(|earlier| earlier.path != key.path), "{} twice", key.path);
    }
}

#[test]
fn a_tap_device_makes_addresses_and_is_on_a_vlan_when_it_is_told_to() {
    let tap = "[interface]\ndevice = \"tap\"\naddress = \"10.0.0.2/24\"\n";
    let plain = parse(tap).expect("valid");
    assert_eq!((plain.interface.autoconfiguration, plain.interface.vlan), (Autoconfiguration::Off, None));
    for (word, how) in [("stable", Autoconfiguration::Stable), ("eui64", Autoconfiguration::Eui64)] {
        let config = parse(&format!("{tap}autoconfiguration = \"{word}\"\nvlan = 4094")).expect("valid");
        assert_eq!((config.interface.autoconfiguration, config.interface.vlan), (how, Some(4_094)));
        let again = parse(&config.show()).expect("what is shown is valid");
        assert_eq!((again.interface.autoconfiguration, again.interface.vlan), (how, Some(4_094)));
    }
    let wrong = [
        (format!("{tap}vlan = 4095"), "t.toml:4: interface.vlan: 4095 is out of range, 0 to 4094"),
        (
            format!("{tap}autoconfiguration = \"on\""),
            "t.toml:4: interface.autoconfiguration: \"on\" cannot stand here, \"off\" or \"stable\" or \"eui64\"",
        ),
        (
            "[interface]\nvlan = 5".to_owned(),
            "t.toml:2: interface.vlan: only a tap device has one; of others, name the kernel's VLAN interface",
        ),
        (
            "[interface]\nautoconfiguration = \"eui64\"".to_owned(),
            "t.toml:2: interface.autoconfiguration: only a tap device makes addresses; others share the kernel's",
        ),
    ];
    for (text, problem) in wrong {
        assert_eq!(parse(&text).expect_err("wrong"), problem);
    }
}

#[test]
fn workers_and_slots_fit_the_numbers_of_sockets() {
    assert_eq!(parse("").expect("the defaults go together").worker.count, 1);
    assert_eq!(parse("[worker]\ncount = 8").expect("so many are possible").worker.count, 8);
    parse("[worker]\ncount = 9").expect_err("more are not");
    let region = |text: &str| parse(text).expect("so many are possible").region.slots;
    assert_eq!((region(""), region("[worker]\ncount = 8")), (262_144, 131_072), "all together are as many as can be told apart");
}

/// Keys are written as Linux writes them, whose words are little-endian; what is no key is told with the key's name.
#[test]
fn fast_open_keys() {
    let keys =
        |value: &str| parse(&format!("[tcp]\nfast_open_keys = \"{value}\"\n")).map(|config| config.stack.tcp.fast_open.keys);
    let one = "00112233-44556677-8899aabb-ccddeeff";
    let bytes = *b"\x33\x22\x11\x00\x77\x66\x55\x44\xbb\xaa\x99\x88\xff\xee\xdd\xcc";
    assert_eq!(keys("").expect("good"), None);
    assert_eq!(keys(one).expect("good"), Some(FastOpenKeys { primary: bytes, backup: None }));
    let two = keys(&format!("00000000-00000000-00000000-00000001,{one}")).expect("good").expect("keys");
    assert_eq!((two.primary[12], two.backup), (1, Some(bytes)));
    for bad in ["x", "00112233-44556677-8899aabb", "0011223-344556677-8899aabb-ccddeeff", "+0112233-44556677-8899aabb-ccddeeff"] {
        let error = keys(bad).expect_err("no key");
        assert!(error.contains("tcp.fast_open_keys"), "{bad}: {error}");
    }
    assert!(keys(&format!("{one},")).is_err() && keys(&format!("{one},{one},{one}")).is_err());
}

/// The table of quotas, its keys and its row in docs/isolation.md say the same.
#[test]
fn every_quota_has_a_key_with_its_default_and_is_documented() {
    let document = include_str!("../../../docs/isolation.md");
    for info in ringway_engine::QUOTAS {
        let path = format!("limits.{}", info.key);
        let key = KEYS.iter().find(|key| key.path == path).unwrap_or_else(|| panic!("no key {path}"));
        let documented = |line: &&str| line.contains(&format!("`{path}`")) && line.contains(&format!("`{}`", info.counter));
        let row = document.lines().find(documented).unwrap_or_else(|| panic!("no row with {path} and {}", info.counter));
        match info.standard {
            Standard::Number(number) => {
                assert_eq!(key.default_value(), Value::Number(number), "{path}");
                assert!(row.replace(',', "").contains(&format!("| {number} |")), "{row}");
            }
            Standard::Auto(text) => {
                assert_eq!(key.default_value(), Value::Auto, "{path}");
                assert!(key.why.ends_with(&format!("auto: {text}.")), "{path}");
                assert!(row.contains(&format!("| {text} |")), "{row}");
            }
        }
    }
}

/// A group's memory is what the section memory makes of it, or less: then there are fewer chunks.
#[test]
fn memory_of_a_group_is_bounded() {
    let region = |text: &str| parse(text).map(|config| config.region);
    let usual = region("").expect("the defaults go together");
    let mib = usual.bytes().div_ceil(1 << 20);
    assert_eq!(region(&format!("[limits]\nmemory_per_group_mib = {mib}")).expect("as much"), usual);
    let less = region(&format!("[limits]\nmemory_per_group_mib = {}", mib - 20)).expect("it fits with fewer chunks");
    assert!(less.bytes() <= (mib - 20) << 20 && less.rx_large < usual.rx_large && less.slots == usual.slots);
    let error = region("[limits]\nmemory_per_group_mib = 1").expect_err("the sockets alone take more");
    assert!(error.contains("limits.memory_per_group_mib: is less than the") && error.contains("memory.slots"), "{error}");
    let small = region("[limits]\nmemory_per_group_mib = 16\n[memory]\nslots = 1024").expect("few sockets fit");
    assert!(small.bytes() <= 16 << 20);
}

/// An impossible value is named with its key and the right values.
#[test]
fn quotas_out_of_range_are_errors() {
    for line in
        ["processes_per_group = 4033", "requests_per_second = 0", "half_open_per_user = 0", "chunk_bytes_per_socket = 4095"]
    {
        let error = parse(&format!("[limits]\n{line}")).expect_err("out of range");
        let key = line.split_once(' ').expect("a key").0;
        assert!(error.contains(&format!("limits.{key}")) && error.contains("out of range"), "{error}");
    }
}

#[test]
fn a_profile_stands_where_the_defaults_would() {
    for profile in super::profiles::PROFILES {
        let alone = parse(&format!("[service]\nprofile = \"{}\"", profile.name)).expect(profile.name);
        let changed = alone.changed();
        assert_eq!(changed.len(), profile.settings.len() + 1, "{}: a setting is the default", profile.name);
        assert!(profile.settings.iter().all(|setting| changed.iter().any(|(key, _)| *key == setting.key)), "{}", profile.name);
        assert!(alone.region.is_valid());
    }
    let mixed = parse("[service]\nprofile = \"memory\"\n[limits]\nconnections = 999\n").expect("it is right");
    assert_eq!((mixed.stack.connections_max, mixed.stack.time_wait_max), (999, 4096), "the file goes before the profile");
    assert!(mixed.show().contains("time_wait = 4096  # from profile memory"));
    assert!(parse("[service]\nprofile = \"fast\"").is_err());
}

#[test]
fn what_is_set_in_a_running_service_goes_before_file_and_environment() {
    let environment = vec![("RINGWAY_TCP_RETRIES".into(), "9".into())];
    let values = super::read::parse("t.toml", "[tcp]\nretries = 8\n", environment, Some("[tcp]\nretries = 5\n")).expect("right");
    assert_eq!((values.number("tcp.retries"), values.origin("tcp.retries")), (5, "ringway config set"));
    let wrong = super::read::parse("t.toml", "", Vec::new(), Some("[tcp]\nretries = 1\n")).expect_err("out of range");
    assert_eq!(wrong.0[0].origin, "ringway config set");
}
