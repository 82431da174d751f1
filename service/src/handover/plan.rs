//! What of an image goes where: which bytes were sent, whose FIN is where, which state the socket must reach.

use ringway_stack::State;
use ringway_stack::handover::ConnectionImage;

use super::{Leaving, Refusal};

/// Our FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fin {
    /// None is wanted.
    No,
    /// It goes out behind what is unsent.
    Waits,
    /// It was sent, with the last number before SND.NXT.
    Sent,
    /// The peer has acknowledged it.
    Acknowledged,
}

/// See the module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) fin: Fin,
    /// The peer's FIN has arrived: the last number before RCV.NXT.
    pub(super) peer_fin: bool,
    /// Sequence number of the first unread byte.
    pub(super) receive_start: u32,
    /// Sequence number of the first byte that the peer has not acknowledged, or of our acknowledged FIN.
    pub(super) send_start: u32,
    /// Bytes of the send queue that were sent.
    pub(super) sent: usize,
    /// The state before the connection goes on.
    pub(super) state: State,
}

impl Plan {
    /// # Errors
    /// [`Refusal::Contradiction`]
    pub(super) fn of(leaving: &Leaving<'_>) -> Result<Plan, Refusal> {
        let image = leaving.image;
        let (sending, receiving) = (&image.sending, &image.receiving);
        let queued: usize = sending.extents.iter().map(|extent| extent.data.len()).sum();
        let flight = sending.nxt.wrapping_sub(sending.una) as usize;
        let sent = flight.min(queued);
        let fin = match image.state {
            State::FinWait2 => Fin::Acknowledged,
            State::FinWait1 | State::Closing | State::LastAck if flight == queued + 1 => Fin::Sent,
            State::FinWait1 | State::Closing | State::LastAck => Fin::Waits,
            _ if leaving.shuts => Fin::Waits,
            _ => Fin::No,
        };
        let has_unsent = sent < queued || !leaving.unqueued.is_empty();
        let is_over = matches!(fin, Fin::Sent | Fin::Acknowledged);
        let is_too_far = flight > queued + usize::from(fin == Fin::Sent);
        if is_over && has_unsent || is_too_far || fin == Fin::Acknowledged && flight != 0 {
            return Err(Refusal::Contradiction);
        }
        let peer_fin = matches!(image.state, State::CloseWait | State::Closing | State::LastAck);
        let unread = (leaving.delivered.len() + receiving.unread.len()) as u32;
        Ok(Plan {
            fin,
            peer_fin,
            receive_start: receiving.nxt.wrapping_sub(unread).wrapping_sub(peer_fin.into()),
            send_start: sending.una.wrapping_sub((fin == Fin::Acknowledged).into()),
            sent,
            state: state_of(fin, peer_fin, image)?,
        })
    }

    /// Returns true when no call brings the socket into its state.
    pub(super) fn needs_injection(&self) -> bool {
        self.peer_fin || self.fin == Fin::Acknowledged
    }

    /// The sequence number behind the peer's data, before its FIN.
    pub(super) fn received_up_to(&self, image: &ConnectionImage) -> u32 {
        image.receiving.nxt.wrapping_sub(self.peer_fin.into())
    }

    /// The bytes that were sent and may be sent again, in pieces.
    pub(super) fn sent<'a>(&self, image: &'a ConnectionImage) -> impl Iterator<Item = &'a [u8]> {
        image.sending.extents.iter().scan(self.sent, |left, extent| {
            let piece = &extent.data[..extent.data.len().min(*left)];
            *left -= piece.len();
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// The bytes that were not sent yet.
    pub(super) fn unsent(&self, leaving: &Leaving<'_>) -> Vec<u8> {
        let queued = leaving.image.sending.extents.iter().flat_map(|extent| &extent.data);
        queued.skip(self.sent).chain(leaving.unqueued).copied().collect()
    }
}

/// A FIN that waits is sent once the connection goes on. After both FINs have crossed, that ends in LAST-ACK where it would end in
/// CLOSING: this end has no TIME-WAIT then.
fn state_of(fin: Fin, peer_fin: bool, image: &ConnectionImage) -> Result<State, Refusal> {
    match (fin, peer_fin) {
        (Fin::No | Fin::Waits, false) => Ok(State::Established),
        (Fin::No | Fin::Waits, true) => Ok(State::CloseWait),
        (Fin::Sent, _) => Ok(image.state),
        (Fin::Acknowledged, false) => Ok(State::FinWait2),
        (Fin::Acknowledged, true) => Err(Refusal::Contradiction),
    }
}
