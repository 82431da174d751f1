use super::*;

fn of(options: &[&str], flags: &str) -> Source {
    Source::of(Path::new("/nowhere"), options, flags)
}

#[test]
fn the_tools_options_are_read() {
    let local = |options: &[&str]| of(options, "").local().to_string();
    assert_eq!(local(&["packetdrill", "script.pkt"]), "192.168.0.1");
    assert_eq!(local(&["packetdrill", "--local_ip=10.1.2.3", "script.pkt"]), "10.1.2.3");
    assert_eq!(local(&["packetdrill", "--local_ip", "10.1.2.3", "script.pkt"]), "10.1.2.3");
    let mtu = |options: &[&str], flags: &str| of(options, flags).mtu;
    assert_eq!(mtu(&["packetdrill", "--mtu=1400"], ""), Some(1_400));
    assert_eq!(mtu(&["packetdrill", "--mtu=1400"], "local_ip=10.0.0.1,mtu=9000"), Some(9_000));
    assert_eq!(mtu(&[], "mtu=7"), None);
    // The name of a script is not an option.
    assert_eq!(mtu(&["packetdrill", "path mtu=1400.pkt", "pmtu=1300", "tests/--mtu=900/x.pkt"], ""), None);
}

#[test]
fn the_peer_is_the_tools() {
    let remote = |options: &[&str]| of(options, "").remote.to_string();
    assert_eq!(remote(&[]), "192.0.2.1");
    assert_eq!(remote(&["--ip_version=ipv6"]), "2001:db8::1");
    assert_eq!(remote(&["--local_ip=fd00::1"]), "2001:db8::1");
    assert_eq!(remote(&["--remote_ip=10.0.0.9"]), "10.0.0.9");
}

/// Options of a script stand in front of its events.
#[test]
fn the_scripts_options_are_read() {
    let script = "// --mtu=1100\n--mtu=1200 --tolerance_usecs=5000\n\n   0 socket(...) = 3\n--mtu=1300\n";
    assert_eq!(of_script(script).collect::<Vec<_>>(), ["--mtu=1200", "--tolerance_usecs=5000"]);
    assert_eq!(of_script("").count(), 0);
}

/// A folder with settings, gone when it is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Settings are as they are when they are read; what is no setting is left out.
#[test]
fn the_systems_settings_are_followed() {
    let folder = Folder(std::env::temp_dir().join(format!("ringway-packetdrill-{}", std::process::id())));
    let sysctls = folder.0.join("proc/sys/net/ipv4");
    let interface = folder.0.join(INTERFACE);
    for path in [&sysctls, &interface] {
        fs::create_dir_all(path).expect("a folder of this test");
    }
    let put = |path: PathBuf, value: &str| fs::write(path, value).expect("a file of this test");
    let source = Source::of(&folder.0, &[], "");
    assert_eq!(source.read(), Settings { sysctl: Sysctl::default(), mtu: MTU_DEFAULT });
    put(sysctls.join("tcp_sack"), "0\n");
    put(sysctls.join("unknown"), "1\n");
    put(interface.join("mtu"), "1300\n");
    let mut sysctl = Sysctl::default();
    sysctl.set("tcp_sack", "0");
    assert_eq!(source.read(), Settings { sysctl: sysctl.clone(), mtu: 1_300 });
    assert_eq!(Source::of(&folder.0, &["--mtu=1400"], "").read().mtu, 1_400);
    for nonsense in ["", "12", "1300 bytes", "70000"] {
        put(interface.join("mtu"), nonsense);
        assert_eq!(source.read(), Settings { sysctl: sysctl.clone(), mtu: MTU_DEFAULT }, "{nonsense}");
    }
}
