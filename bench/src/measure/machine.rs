//! The machine of a measurement.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use ringway_device::interface::Interface;

/// What a machine is, by name.
pub type Facts = BTreeMap<String, String>;

/// Names of facts.
pub(crate) const PROCESSOR: &str = "processor";
pub(crate) const KERNEL: &str = "kernel";
pub(crate) const CONGESTION_CONTROLS: &str = "congestion controls";
/// Further facts, which are the words of a file.
const SETTINGS: &[(&str, &str)] = &[
    ("frequency governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("threads of a core", "/sys/devices/system/cpu/smt/active"),
    ("clock", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("congestion control", "/proc/sys/net/ipv4/tcp_congestion_control"),
    (CONGESTION_CONTROLS, "/proc/sys/net/ipv4/tcp_available_congestion_control"),
    ("tcp_rmem", "/proc/sys/net/ipv4/tcp_rmem"),
    ("tcp_wmem", "/proc/sys/net/ipv4/tcp_wmem"),
];

/// What of this machine may change a figure; of its interfaces, the one with `address`.
pub fn facts(address: IpAddr) -> Facts {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let file = |path: &str| fs::read_to_string(path).map(|text| words(&text)).unwrap_or_default();
    let mut facts = Facts::new();
    let mut put = |name: &str, value: String| {
        if !value.is_empty() {
            facts.insert(name.into(), value);
        }
    };
    put(PROCESSOR, processor());
    put(KERNEL, kernel());
    put("commit", commit().into());
    put("address", address.to_string());
    SETTINGS.iter().for_each(|(name, path)| put(name, file(path)));
    if let Some(interface) = interface_with(address) {
        put("interface", interface.name.clone());
        put("driver", interface.driver);
        put("MTU", interface.mtu.to_string());
        put("receive queues", interface.receive_queues.to_string());
        put("TCP segmentation", if interface.tcp_segmentation { "on" } else { "off" }.into());
        // A virtual one has none, or says -1.
        put("speed, Mbit/s", file(&format!("/sys/class/net/{}/speed", interface.name)).replace("-1", ""));
    }
    facts
}

/// The interface that has this address.
fn interface_with(address: IpAddr) -> Option<Interface> {
    let mut ip = Command::new("ip");
    let output = ip.args(["-o", "address", "show", "to", &address.to_string()]).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // `2: eth0    inet 192.0.2.1/24 ...`
    Interface::open(text.split_whitespace().nth(1)?.split('@').next()?).ok()
}

/// Processor and number of cores.
pub fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    let model = model.unwrap_or(std::env::consts::ARCH);
    format!("{model}, {} cores", cores())
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Release of the kernel.
pub fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The commit that this binary was built from; `unknown` outside a repository.
pub fn commit() -> &'static str {
    option_env!("RINGWAY_COMMIT").unwrap_or("unknown")
}
