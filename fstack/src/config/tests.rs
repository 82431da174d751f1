use super::*;

const FILE: &str = "\
[dpdk]
lcore_mask=1 # one core
port_list=0
[port0]
addr=192.168.1.2
netmask=255.255.255.0
gateway=192.168.1.1
[freebsd.sysctl]
net.inet.tcp.sendspace=16384
";

#[test]
fn a_file_names_ports_and_what_has_no_effect() {
    let (ports, ignored) = read(FILE).expect("it is right");
    assert_eq!(ports, [Port { number: 0, address: "192.168.1.2".parse().expect("an address") }]);
    assert_eq!(ignored, ["dpdk", "freebsd.sysctl"]);
}

#[test]
fn a_mistake_names_its_line() {
    for (text, part) in
        [("[dpdk]\n[cards]", "line 2: [cards]"), ("[port0]\naddr=1.2.3", "line 2: `1.2.3`"), ("\nwhat", "line 2: `what`")]
    {
        assert!(read(text).expect_err(text).contains(part), "{text}");
    }
}

#[test]
fn the_options_of_the_command_line_are_found_among_the_programs() {
    let arguments = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let ignored = load(&arguments("program --proc-type=auto -x --proc-id 1 name")).expect("no file is named");
    assert_eq!(ignored.len(), 2, "{ignored:?}");
    assert!(load(&arguments("program --conf")).expect_err("no value").contains("lacks"));
    assert!(load(&arguments("program -c /nowhere/config.ini")).expect_err("no file").contains("/nowhere/config.ini"));
    // What a program is started with is not the library's.
    assert_eq!(load(&[]), Ok(Vec::new()));
}
