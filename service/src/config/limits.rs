//! Limits of one application, one user, and all of them: the section `limits`, and the size of a region.

use ringway_channel::Shape;
use ringway_engine::{GroupQuotas, UserQuotas};

use super::value::Values;

/// Limits of one application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Application groups at most.
    pub groups: u32,
    /// Those of one user other than root.
    pub groups_per_user: u32,
    /// Sockets of one group at most.
    pub sockets_per_group: u32,
    /// Kernel sockets at most that all users show for their ports.
    pub shown_sockets: u32,
    /// Those of one user.
    pub shown_sockets_per_user: u32,
    /// Connections at most that no application has any more.
    pub orphans: u32,
    /// Wait contexts at most; `None`: a quarter of the descriptors.
    pub wait_contexts: Option<u64>,
    /// Those of one user; `None`: an eighth of the descriptors.
    pub wait_contexts_per_user: Option<u64>,
    /// Ports at most that the service chooses for connections; `None`: three quarters of the descriptors.
    pub ports: Option<u64>,
    /// Those of one user.
    pub ports_per_user: u32,
    /// Packets of served ports that go on to the kernel in a second at most; 0: all.
    pub kernel_packets_per_second: u32,
    /// Connections of processes to each broker at most.
    pub attach_connections: u32,
    /// Those of one user that have said nothing.
    pub silent_connections_per_user: u32,
    /// Processes of one group at most.
    pub processes_per_group: u32,
    /// Requests that one group may make in a second.
    pub requests_per_second: u32,
    /// Bytes that one socket may hold in chunks, in one direction.
    pub chunk_bytes_per_socket: u32,
}

impl GroupLimits {
    pub(super) fn new(values: &Values) -> GroupLimits {
        GroupLimits {
            groups: values.u32("limits.groups"),
            groups_per_user: values.u32("limits.groups_per_user"),
            sockets_per_group: values.u32("limits.sockets_per_group"),
            shown_sockets: values.u32("limits.shown_sockets"),
            shown_sockets_per_user: values.u32("limits.shown_sockets_per_user"),
            orphans: values.u32("limits.orphans"),
            wait_contexts: values.auto_number("limits.wait_contexts"),
            wait_contexts_per_user: values.auto_number("limits.wait_contexts_per_user"),
            ports: values.auto_number("limits.ports"),
            ports_per_user: values.u32("limits.ports_per_user"),
            attach_connections: values.u32("limits.attach_connections"),
            kernel_packets_per_second: values.u32("limits.kernel_packets_per_second"),
            silent_connections_per_user: values.u32("limits.silent_connections_per_user"),
            processes_per_group: values.u32("limits.processes_per_group"),
            requests_per_second: values.u32("limits.requests_per_second"),
            chunk_bytes_per_socket: values.u32("limits.chunk_bytes_per_socket"),
        }
    }

    /// Returns one user's quotas of a worker.
    pub(crate) fn user(&self) -> UserQuotas {
        UserQuotas { groups: self.groups_per_user, ports: self.ports_per_user }
    }

    /// Returns one group's quotas of a worker.
    pub(crate) fn group(&self) -> GroupQuotas {
        GroupQuotas {
            sockets: self.sockets_per_group,
            processes: self.processes_per_group,
            requests_per_second: self.requests_per_second,
            chunk_bytes: self.chunk_bytes_per_socket,
        }
    }
}

/// Sockets that an application can tell apart, at all workers together.
const SOCKET_NUMBERS: u32 = 1 << 20;

/// So many bulk send chunks for each bulk receive chunk, which is twice as large and comes back as soon as it is read.
const BULK_PER_ROOM: u32 = 8;

/// Of each kind of chunk that every region has, one has so many however little memory there is.
const FEWEST_CHUNKS: u32 = 64;

/// The region, made smaller until it fits `limits.memory_per_group_mib`: half as many chunks each time. Where it does not fit
/// in the end, the configuration is refused.
pub(super) fn region(values: &Values) -> Shape {
    let mut shape = configured_region(values);
    let most = values.auto_number("limits.memory_per_group_mib").map_or(u64::MAX, |mib| mib << 20);
    while shape.is_valid() && shape.bytes() as u64 > most {
        let smaller = halved(&shape);
        if smaller == shape {
            break;
        }
        shape = smaller;
    }
    shape
}

fn halved(shape: &Shape) -> Shape {
    let half = |count: u32| if count <= FEWEST_CHUNKS { count } else { (count / 2).max(FEWEST_CHUNKS) };
    Shape {
        rx_large: half(shape.rx_large),
        rx_small: half(shape.rx_small),
        tx_large: half(shape.tx_large),
        tx_small: half(shape.tx_small),
        tx_bulk: shape.tx_bulk / 2,
        rx_bulk: shape.rx_bulk / 2,
        rx_middle: shape.rx_middle / 2,
        ..*shape
    }
}

fn configured_region(values: &Values) -> Shape {
    let (large, small) = (values.u32("memory.chunks_large"), values.u32("memory.chunks_small"));
    Shape {
        slots: values.u32("memory.slots").min(SOCKET_NUMBERS / values.u32("worker.count").next_power_of_two()),
        rx_large: large,
        rx_small: small,
        tx_large: large,
        tx_small: small,
        tx_bulk: values.u32("memory.chunks_bulk"),
        rx_bulk: values.u32("memory.chunks_bulk") / BULK_PER_ROOM,
        rx_middle: values.u32("memory.chunks_bulk"),
    }
}
