//! What statistics and `TCP_INFO` tell of a socket.

use ringway_shm::channel::SlotIndex;
use ringway_shm::stats::{Endpoint, InfoRecord, SocketRecord};
use ringway_stack::{CongestionControl, State, TcpInfo};

use super::region::Region;
use super::socket::Kind;
use crate::core::Core;

/// Linux's number of a closed socket.
const UNCONNECTED: u8 = 7;

impl Region {
    /// Writes the statistics of the sockets that have changed.
    pub(super) fn write_records(&mut self, core: &mut Core) {
        for slot in std::mem::take(&mut self.touched) {
            let Some(socket) = self.sockets.get(slot) else { continue };
            socket.touched = false;
            let Some(index) = socket.record else { continue };
            let record = self.record(slot, core);
            core.metrics.write_socket(index, &record);
        }
    }

    fn record(&mut self, slot: SlotIndex, core: &Core) -> SocketRecord {
        let unread = self.channel.unread(slot);
        let waiting = self.channel.tx_available(slot) as u32;
        let shared = self.channel.slot(slot);
        let (local, remote, unaccepted) = (shared.local(), shared.remote(), shared.unaccepted());
        let socket = self.sockets.get(slot).expect("the caller has looked");
        let info = socket.id.and_then(|id| core.stack.info(id)).map(|info| info_record(&info)).unwrap_or_default();
        let held = socket.id.map_or(0, |id| core.stack.unread(id)) as u32;
        let options = socket.options;
        let listening = socket.listening.as_ref();
        let (state, receive_queue, send_queue) = match (socket.kind, listening) {
            (Kind::Listener, Some(listening)) => (linux_state(State::Listen), unaccepted, listening.backlog),
            _ => {
                let state = if info.state == 0 { UNCONNECTED } else { info.state as u8 };
                (state, unread + held, waiting + info.unacked_bytes as u32 + info.unsent_bytes as u32)
            }
        };
        let limit = |asked: u32| if asked == 0 { core.buffer_bytes } else { asked };
        SocketRecord {
            state,
            local: Endpoint { ip: local.ip(), port: local.port() },
            remote: Endpoint { ip: remote.ip(), port: remote.port() },
            receive_queue,
            send_queue,
            interface: u32::MAX,
            pid: self.owner.pid,
            uid: self.owner.uid,
            program: self.owner.program.clone(),
            region: self.number,
            slot,
            congestion_control: match options.congestion_control {
                _ if listening.is_some() => String::new(),
                CongestionControl::Cubic => "cubic".into(),
                CongestionControl::NewReno => "reno".into(),
            },
            info,
            memory: [receive_queue, limit(options.receive_buffer_bytes), send_queue, limit(options.send_buffer_bytes)],
        }
    }
}

/// The stack's description in the form that travels.
pub(super) fn info_record(info: &TcpInfo) -> InfoRecord {
    InfoRecord { state: u64::from(linux_state(info.state)), ..InfoRecord::default() }
}

/// Linux's number of a state.
fn linux_state(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => UNCONNECTED,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Listen => 10,
        State::Closing => 11,
    }
}
