//! The stack of a role with `--sockets ringway`.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::Args;
use ringway::NetConfig;
use ringway::{Net, Nets, Seat};
use ringway_stack::Cidr;

use crate::wire::memory::{End, take};

/// Arguments of a role's own stack.
#[derive(Args, Clone, Debug)]
pub(super) struct StackArguments {
    /// Address of the stack
    #[arg(long)]
    address: Option<Cidr>,
    /// Use this interface through AF_PACKET
    #[arg(long, value_name = "INTERFACE")]
    packet: Option<String>,
    /// Create this TAP interface
    #[arg(long, value_name = "INTERFACE", requires = "neighbor")]
    tap: Option<String>,
    /// Address of the kernel on the TAP interface
    #[arg(long)]
    neighbor: Option<Ipv4Addr>,
    /// Number of further addresses after the stack's own, for more connections than one address has ports
    #[arg(long, default_value_t = 0)]
    more_addresses: u8,
    /// Largest number of connections
    #[arg(long, default_value_t = 65_536)]
    connections_max: u32,
    /// File of the shared statistics
    #[arg(long)]
    stats: Option<PathBuf>,
}

/// Opens a stack with one interface; without `--packet` and `--tap`, the end of a link received over standard input.
pub(super) fn open(arguments: &StackArguments, end: End) -> io::Result<Net> {
    let address = arguments.address.ok_or_else(|| io::Error::other("a stack needs --address"))?;
    let mut net = Net::new(configuration(arguments))?;
    let number = if let Some(interface) = &arguments.packet {
        net.add_packet(interface, address)?
    } else if let Some(interface) = &arguments.tap {
        let number = net.add_tap(interface, address)?;
        let neighbor = arguments.neighbor.map(|neighbor| (neighbor, address.prefix_len));
        ringway_device::interface::set_up(interface, None, neighbor)?;
        number
    } else {
        net.add_link(take(io::stdin(), end)?, address)?
    };
    let more = (1..=arguments.more_addresses).filter_map(|step| following(address, step));
    let addresses = std::iter::once(address).chain(more).collect();
    net.stack().set_addresses(number, addresses);
    Ok(net)
}

/// Opens the same interface for several workers; returns a `Seat` for each.
pub(super) fn seats(arguments: &StackArguments, workers: usize) -> io::Result<Vec<Seat>> {
    let address = arguments.address.ok_or_else(|| io::Error::other("a stack needs --address"))?;
    let interface = arguments.packet.as_ref().ok_or_else(|| io::Error::other("several workers need --packet"))?;
    Nets::packet(&configuration(arguments), workers, interface, address)
}

fn configuration(arguments: &StackArguments) -> NetConfig {
    let mut config = NetConfig::default();
    config.stack.connections_max = arguments.connections_max;
    config.stats_path = arguments.stats.clone();
    config
}

/// The address `step` after this one; IPv4 only.
fn following(address: Cidr, step: u8) -> Option<Cidr> {
    let IpAddr::V4(ip) = address.ip else { return None };
    let ip = Ipv4Addr::from(u32::from(ip).checked_add(u32::from(step))?);
    Some(Cidr { ip: IpAddr::V4(ip), ..address })
}
