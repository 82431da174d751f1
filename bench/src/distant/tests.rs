//! How machines are named.
use super::*;

#[test]
fn machines_are_named_by_a_port_or_for_ssh() {
    let ssh = |host: &str, command: &[&str]| Ok(Peer::Ssh(host.into(), command.iter().map(|word| word.to_string()).collect()));
    assert_eq!("lab:7711".parse(), Ok(Peer::Tcp("lab:7711".into())));
    assert_eq!("[fd00::1]:7711".parse(), Ok(Peer::Tcp("[fd00::1]:7711".into())));
    assert_eq!("ssh:root@lab".parse(), ssh("root@lab", &["ringway"]));
    assert_eq!("ssh:lab sudo /opt/ringway".parse(), ssh("lab", &["sudo", "/opt/ringway"]));
    // A host that ssh would take for an option is none.
    for wrong in ["", "lab", ":7711", "lab:70000", "ssh:", "ssh:-oProxyCommand=sh", "ssh: -oProxyCommand=sh"] {
        assert!(wrong.parse::<Peer>().is_err(), "{wrong}");
    }
}
