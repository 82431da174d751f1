//! What the library is told: by the tool's options and flags, by the options of the script, and by the system, whose settings a
//! script's commands change.
//!
//! Promises: a name of a file is no option; a word that makes no sense is left out. Does not do: routes to other hosts than the
//! tool's peer.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use ringway_sim::machine::Sysctl;

use crate::route;

/// Where the settings come from.
pub(crate) struct Source {
    /// The folder that has `proc` and `sys`.
    root: PathBuf,
    /// The machine's address.
    local: IpAddr,
    /// The address of the tool's peer.
    remote: IpAddr,
    /// As given by the tool; `None`: the interface's.
    mtu: Option<u16>,
}

/// Settings of the system that a running machine follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) sysctl: Sysctl,
    pub(crate) mtu: u16,
}

impl Source {
    /// Reads the tool's options, its script's, and its flags.
    pub(crate) fn of_tool(flags: &str) -> Source {
        let command = fs::read("/proc/self/cmdline").unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        let own: Vec<&str> = command.split('\0').collect();
        let script = own.iter().rev().find(|word| word.ends_with(".pkt")).map(fs::read_to_string);
        let script = script.and_then(Result::ok).unwrap_or_default();
        let options: Vec<&str> = of_script(&script).chain(own).collect();
        Source::of(Path::new("/"), &options, flags)
    }

    /// Takes options, `--name=value` or `--name value`, and words `name=value` of flags; the last one counts.
    pub(crate) fn of(root: &Path, options: &[&str], flags: &str) -> Source {
        let value = |name: &str| {
            let of = |word: &'_ str| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_string());
            let flag = flags.split([',', ' ']).filter_map(of).next_back();
            flag.or_else(|| {
                let mut own = options.iter().enumerate().filter_map(|(at, option)| {
                    let option = option.strip_prefix("--")?;
                    if option == name { options.get(at + 1).map(|value| value.to_string()) } else { of(option) }
                });
                own.next_back()
            })
        };
        let address = |name: &str| value(name).and_then(|text| text.parse().ok());
        let local = address("local_ip").unwrap_or(LOCAL);
        let is_ipv6 = local.is_ipv6() || value("ip_version").is_some_and(|version| version == "ipv6");
        let remote = address("remote_ip").unwrap_or(if is_ipv6 { REMOTE_IPV6 } else { REMOTE_IPV4 });
        let mtu = value("mtu").and_then(|text| text.parse().ok()).filter(|mtu| *mtu >= MTU_MIN);
        Source { root: root.to_path_buf(), local, remote, mtu }
    }

    /// Returns the machine's address.
    pub(crate) fn local(&self) -> IpAddr {
        self.local
    }

    /// Reads the system's settings as they are now.
    pub(crate) fn read(&self) -> Settings {
        let mut sysctl = Sysctl::default();
        for name in Sysctl::names() {
            if let Ok(value) = fs::read_to_string(self.root.join("proc/sys/net/ipv4").join(name)) {
                sysctl.set(name, &value);
            }
        }
        Settings { sysctl, mtu: self.mtu.or_else(|| self.interface_mtu()).unwrap_or(MTU_DEFAULT) }
    }

    /// Returns the MTU of the interface that the tool's scripts name, or of the route to the peer through it, if that is
    /// smaller. `None`: there is no such interface.
    fn interface_mtu(&self) -> Option<u16> {
        let own = |name: &str| fs::read_to_string(self.root.join(INTERFACE).join(name)).ok()?.trim().parse::<u32>().ok();
        let route = own("ifindex").and_then(|index| route::mtu(self.remote, index));
        let mtu = own("mtu")?.min(route.unwrap_or(u32::MAX));
        u16::try_from(mtu).ok().filter(|mtu| *mtu >= MTU_MIN)
    }
}

/// Returns the options of a script: the words of lines that begin with one, in front of the first event.
fn of_script(script: &str) -> impl Iterator<Item = &str> {
    let head = script.lines().map(str::trim).take_while(|line| !line.starts_with(|first: char| "0123456789+`".contains(first)));
    head.filter(|line| line.starts_with("--")).flat_map(str::split_whitespace)
}

/// Below the root: the interface that the tool's scripts name.
const INTERFACE: &str = "sys/class/net/tun0";
/// The tool's defaults.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1));
const REMOTE_IPV4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const REMOTE_IPV6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
const MTU_DEFAULT: u16 = 1_500;
const MTU_MIN: u16 = 576;

#[cfg(test)]
mod tests;
