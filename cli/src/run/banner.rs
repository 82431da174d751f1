//! The banner: one line that says what is accelerated, or why the program is not.

use ringway_service::plan::Planned;

/// Describes the served interfaces: `eth0 10.0.0.1 (af_packet, vnet headers)`.
pub(crate) fn served(interfaces: &[Planned]) -> String {
    let one = |planned: &Planned| {
        let addresses: Vec<String> = planned.addresses.iter().map(|cidr| cidr.ip.to_string()).collect();
        format!("{} {} ({})", planned.name, addresses.join(" "), planned.device())
    };
    interfaces.iter().map(one).collect::<Vec<String>>().join(", ")
}

/// Formats the banner for program `name`; `served` comes from [`served`]; `notes` are appended.
pub(super) fn line(name: &str, pid: u32, served: &str, notes: &[String], obstacles: &[String]) -> String {
    let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
    if obstacles.is_empty() {
        format!(
            "ringway: {name}[{pid}]: accelerated TCP and UDP on {served}; loopback -> kernel{notes}; \"ringway ss\" to inspect"
        )
    } else {
        format!("ringway: {name}[{pid}]: not accelerated, everything -> kernel: {}{notes}", obstacles.join("; "))
    }
}

#[cfg(test)]
mod tests;
