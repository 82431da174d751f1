//! A connection that no program has accepted goes on in the accept queue of the kernel listener that stands under the stack's.
//!
//! ```text
//!   an acknowledgment of the peer's      -> ESTABLISHED, in the queue (`ringway_device::steering::AcceptQueues`)
//!   its bytes that are unread, its FIN   -> received once more
//! ```
//! All of it is segments of the peer's that are shown to the kernel. Promises: what the listener's program accepts has every byte that the peer has
//! sent; a failure leaves no connection, or one that is reset. The kernel acknowledges to the peer what it is shown, which the peer
//! knows already. Does not do: a connection on which this end has sent something; steering, which comes after it: until then the flow's own packets
//! find silence, and are repeated.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use ringway_device::repair::{self, Number};
use ringway_device::steering::{AcceptQueues, Clock, received_by_kernel};
use ringway_stack::State;
use ringway_stack::handover::ConnectionImage;
use ringway_stack::wire::tcp::{ACK, FIN, PSH, RST};
use rustix::net::getsockname;

use super::course::{agreed, clock};
use super::inject::{Injector, Peer, Segment, wait_for};
use super::plan::{Fin, Plan};
use super::{Leaving, Refusal, check_socket, flow_of};

/// The kernel's window for a connection that no program has read from yet: 64 KiB, less what a segment takes beside its bytes.
const UNREAD_MAX: usize = 56 << 10;

/// Puts the connection into the queue of `listener`, a kernel socket that listens at its address and port.
///
/// # Errors
/// [`Refusal`]; the kernel has no connection then, or one that is reset. The queues are open from then on, for the next one.
///
/// # Blocking
/// Some milliseconds where segments do not arrive.
pub fn enqueue(
    leaving: &Leaving<'_>,
    listener: BorrowedFd<'_>,
    injector: &Injector,
    queues: &mut AcceptQueues,
) -> Result<(), Refusal> {
    let image = leaving.image;
    let plan = check(leaving, listener)?;
    let (peer, flow) = (Peer { image, injector }, flow_of(image));
    if received_by_kernel(&flow)?.is_some() {
        return Err(Refusal::InUse);
    }
    let timestamps = image.terms.timestamps.and_then(|clock| clock.recent);
    let timestamps = timestamps.map(|recent| Clock { recent, now: clock(image) });
    queues.open(&flow, &agreed(image), timestamps)?;
    peer.show(segment(ACK, plan.receive_start, &plan, image), &[])?;
    wait_for(|| Ok(received_by_kernel(&flow)?.is_some())).map_err(|_| Refusal::Queue)?;
    let brought = bring(leaving, &plan, peer);
    if brought.is_err() {
        take_back(leaving, injector);
    }
    brought
}

/// Resets what the kernel has of the connection, whose flow has not been steered to it.
pub fn take_back(leaving: &Leaving<'_>, injector: &Injector) {
    let Ok(plan) = Plan::of(leaving) else { return };
    let received = received_by_kernel(&flow_of(leaving.image)).ok().flatten().unwrap_or(0);
    let expected = plan.receive_start.wrapping_add(received as u32);
    let peer = Peer { image: leaving.image, injector };
    // Where the segment does not arrive, the connection ends by itself: no packet of its peer's comes.
    peer.show(segment(RST | ACK, expected, &plan, leaving.image), &[]).unwrap_or_default();
}

/// Shows the unread bytes and the FIN. Where the program has ended the connection meanwhile, it was there.
fn bring(leaving: &Leaving<'_>, plan: &Plan, peer: Peer<'_>) -> Result<(), Refusal> {
    let (image, flow) = (leaving.image, flow_of(leaving.image));
    let mut sequence = plan.receive_start;
    for piece in [leaving.delivered, &image.receiving.unread].iter().flat_map(|bytes| bytes.chunks(image.terms.mss.into())) {
        peer.show(segment(ACK | PSH, sequence, plan, image), piece)?;
        sequence = sequence.wrapping_add(piece.len() as u32);
    }
    if plan.peer_fin {
        peer.show(segment(ACK | FIN, sequence, plan, image), &[])?;
    }
    let all = u64::from(image.receiving.nxt.wrapping_sub(plan.receive_start));
    wait_for(|| Ok(received_by_kernel(&flow)?.is_none_or(|received| received >= all))).map_err(|_| Refusal::Queue)
}

fn segment(flags: u8, sequence: u32, plan: &Plan, image: &ConnectionImage) -> Segment {
    Segment { flags, sequence, acknowledgment: plan.send_start, echo: clock(image) }
}

/// Is this a connection that can wait in a queue, and a listener that would have got it?
fn check(leaving: &Leaving<'_>, listener: BorrowedFd<'_>) -> Result<Plan, Refusal> {
    let image = leaving.image;
    if image.has_urgent_data() {
        return Err(Refusal::Urgent);
    }
    let plan = Plan::of(leaving)?;
    let has_sent = image.sending.una != image.sending.nxt || !plan.unsent(leaving).is_empty();
    if has_sent || plan.fin != Fin::No {
        return Err(Refusal::Contradiction);
    }
    check_socket(listener, State::Listen, image)?;
    let bound = SocketAddr::try_from(getsockname(listener)?)?;
    if bound.port() != image.local.port || !(bound.ip().is_unspecified() || bound.ip().to_canonical() == image.local.ip) {
        return Err(Refusal::Address);
    }
    let is_bound_to_interface = repair::number(listener, Number::BoundInterface)? != 0;
    if is_bound_to_interface || leaving.delivered.len() + image.receiving.unread.len() > UNREAD_MAX {
        return Err(Refusal::Queue);
    }
    Ok(plan)
}
