//! The stack of a role that has one of its own.

use std::io;
use std::net::Ipv4Addr;

use clap::Args;
use ringway::WorkerConfig;
use ringway::api::Net;
use ringway_stack::Cidr;

use crate::wire::memory::{End, take};

/// Where a role's own stack gets its packets.
#[derive(Args, Clone, Debug)]
pub(super) struct StackArguments {
    /// The stack's address
    #[arg(long)]
    address: Option<Cidr>,
    /// Join the link of this interface, by AF_PACKET
    #[arg(long, value_name = "INTERFACE")]
    packet: Option<String>,
    /// Make this TAP interface
    #[arg(long, value_name = "INTERFACE", requires = "neighbor")]
    tap: Option<String>,
    /// The kernel's own address on the TAP interface
    #[arg(long)]
    neighbor: Option<Ipv4Addr>,
    /// Connections at most
    #[arg(long, default_value_t = 65_536)]
    connections_max: u32,
}

/// A stack with its one interface; with neither of both named, the end of a link that comes over standard input.
pub(super) fn open(arguments: &StackArguments, end: End) -> io::Result<Net> {
    let address = arguments.address.ok_or_else(|| io::Error::other("a stack needs --address"))?;
    let mut config = WorkerConfig::default();
    config.stack.connections_max = arguments.connections_max;
    let mut net = Net::new(config)?;
    if let Some(interface) = &arguments.packet {
        net.add_packet(interface, address)?;
    } else if let Some(interface) = &arguments.tap {
        net.add_tap(interface, address)?;
        let neighbor = arguments.neighbor.map(|neighbor| (neighbor, address.prefix_len));
        ringway_device::interface::set_up(interface, None, neighbor)?;
    } else {
        net.add_link(take(io::stdin(), end)?, address)?;
    }
    Ok(net)
}
