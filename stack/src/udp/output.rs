//! Sends datagrams, second half: headers and checksums, in queue order. Read RFC 768, RFC 8200 §8.1 first.
//!
//! Uses the cached header template while flow and generation are unchanged, otherwise makes a new one. Without a template
//! (the neighbor is being resolved), and for datagrams that must be fragmented, `Ip` adds the headers.

use ringway_shm::{Burst, Checksum, Frame, Instant, Segmentation, SegmentationKind};

use crate::env::Env;
use crate::event::{Event, SocketId};
use crate::ip::{Flow, LinkInfo, OutputError, Template};
use crate::stats::Counter;
use crate::wire::checksum;
use crate::wire::udp::{CHECKSUM_OFFSET, HEADER_LEN, Header, checksum_field};

use super::{UDP_BIT, Udp};

/// A waiting datagram; its frames, payload only, are in `outgoing_frames`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) socket: u32,
    pub(crate) generation: u32,
    pub(crate) flow: Flow,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    /// Length of the payload, bytes.
    pub(crate) len: u16,
    /// Memory of its frames.
    pub(crate) memory: u32,
    /// Payload of each datagram of a batch that the link cuts; 0: this is one datagram.
    pub(crate) segment: u16,
    /// It fits one packet and has "don't fragment" set.
    pub(crate) whole: bool,
    pub(crate) no_checksum: bool,
    /// Interface of a multicast or broadcast datagram.
    pub(crate) multicast: Option<u32>,
    /// Sockets of this host get a copy.
    pub(crate) loops: bool,
}

impl Udp {
    /// Returns true when datagrams wait.
    #[inline]
    pub(crate) fn has_to_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Writes the waiting datagrams. Returns true when the budget was used up and there is more.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Instant, env: &mut Env, out: &mut [Burst]) -> bool {
        self.has_to_write() && self.write_waiting(now, env, out)
    }

    fn write_waiting(&mut self, now: Instant, env: &mut Env, out: &mut [Burst]) -> bool {
        let mut budget = BUDGET_BYTES;
        while budget > 0
            && let Some(outgoing) = self.outgoing.pop_front()
        {
            budget = budget.saturating_sub(usize::from(outgoing.len) + HEADER_LEN);
            let mut more = true;
            while more && let Some(frame) = self.outgoing_frames.pop() {
                more = frame.continues();
                self.packet.push(frame);
            }
            let datagrams = if outgoing.segment == 0 { 1 } else { outgoing.len.div_ceil(outgoing.segment) };
            env.counters.add(Counter::UdpOutDatagrams, datagrams.into());
            self.write(now, env, &outgoing, out);
            self.packet.clear();
            self.release(env, &outgoing);
        }
        !self.outgoing.is_empty()
    }

    /// Writes the datagram of `self.packet`.
    fn write(&mut self, now: Instant, env: &mut Env, outgoing: &Outgoing, out: &mut [Burst]) {
        let Some(mut first) = self.packet.pop() else { return };
        let len = HEADER_LEN + usize::from(outgoing.len);
        let header =
            Header { source_port: outgoing.local_port, destination_port: outgoing.remote_port, length: len as u16, checksum: 0 };
        header.write(first.push(HEADER_LEN));
        let template = if outgoing.whole && outgoing.multicast.is_none() { self.template(now, env, outgoing) } else { None };
        let pseudo = match &template {
            Some(template) => checksum::add(template.pseudo_sum, len as u16),
            None => checksum::pseudo_header(outgoing.flow.local, outgoing.flow.remote, outgoing.flow.protocol, len as u32),
        };
        let train = outgoing.segment > 0;
        if train && !outgoing.is_cut_by_the_link(env) {
            // The route has changed since the batch was queued.
            return env.counters.count(Counter::IpOutNoRoutes);
        }
        let partial = template.is_some_and(|template| env.ip.link(template.interface.into()).sends_partial_checksums);
        if train || (partial && !outgoing.no_checksum) {
            put_checksum(&mut first, pseudo);
            first.set_checksum(Checksum::Partial { start: 0, offset: CHECKSUM_OFFSET as u16 });
            if train {
                first.set_segmentation(Segmentation { kind: SegmentationKind::Udp, size: outgoing.segment });
            }
        } else if !outgoing.no_checksum {
            let parts = core::iter::once(first.payload()).chain(self.packet.iter().map(Frame::payload));
            let sum = checksum::add(pseudo, checksum::sum_of_parts(parts));
            put_checksum(&mut first, checksum_field(sum));
        }
        if let Some(template) = template {
            template.push_headers(&mut first, len);
            let out = &mut out[template.interface as usize];
            out.push(first);
            while let Some(frame) = self.packet.pop() {
                out.push(frame);
            }
            return;
        }
        if let Some(interface) = outgoing.multicast.filter(|_| outgoing.loops) {
            self.loop_back(env, outgoing, interface, &first);
        }
        let mut packet = Burst::default();
        packet.push(first);
        packet.append(&mut self.packet);
        if let Some(interface) = outgoing.multicast {
            // A multicast packet with TTL 0 stays on this host.
            if outgoing.flow.ttl > 0 || !outgoing.flow.remote.is_multicast() {
                let (ip, mut env) = env.ip_at(now);
                ip.send_to_many(&mut env, (&outgoing.flow, interface), &mut packet, out);
            }
            return;
        }
        let (ip, mut env) = env.ip_at(now);
        if outgoing.whole {
            ip.send(&mut env, &outgoing.flow, &mut packet, out);
        } else {
            ip.send_fragmentable(&mut env, &outgoing.flow, &mut packet, out);
        }
    }

    /// Returns the header template of a datagram's flow: the socket's last one, or a new one. `None`: the neighbor is being
    /// resolved, or the route is gone.
    fn template(&mut self, now: Instant, env: &mut Env, outgoing: &Outgoing) -> Option<Template> {
        let socket = self.table.get_mut(outgoing.socket).filter(|socket| socket.generation == outgoing.generation);
        let cached = socket.as_ref().and_then(|socket| socket.template);
        if let Some((flow, template)) = cached
            && flow == outgoing.flow
            && template.generation == env.ip.generation()
        {
            return Some(template);
        }
        match env.ip.template(now, &outgoing.flow) {
            Ok(template) => {
                if let Some(socket) = socket {
                    socket.template = Some((outgoing.flow, template));
                }
                Some(template)
            }
            Err(OutputError::Unresolved | OutputError::NoRoute) => None,
        }
    }

    /// Returns a datagram's memory to its socket, and may signal that there is space again.
    fn release(&mut self, env: &mut Env, outgoing: &Outgoing) {
        let socket = self.table.get_mut(outgoing.socket).filter(|socket| socket.generation == outgoing.generation);
        let Some(socket) = socket else { return };
        socket.sending_memory -= outgoing.memory;
        if socket.wants_room && socket.sending_memory <= socket.send_buffer / 2 {
            socket.wants_room = false;
            let id = SocketId { index: outgoing.socket | UDP_BIT, generation: socket.generation };
            env.events.push_back(Event::Ready { socket: id, user_token: socket.user_token });
        }
    }
}

impl Outgoing {
    /// Returns true when the link of the current route cuts batches.
    fn is_cut_by_the_link(&self, env: &Env) -> bool {
        let path = env.ip.route(self.flow.remote, Some(self.flow.local));
        path.is_some_and(|path| cuts_trains(&env.ip.link(path.interface)))
    }
}

/// Returns true when a link takes a batch of datagrams in one packet.
pub(super) fn cuts_trains(link: &LinkInfo) -> bool {
    link.segments_udp && link.sends_partial_checksums && link.gathers
}

fn put_checksum(first: &mut Frame, field: u16) {
    first.bytes_mut()[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&field.to_be_bytes());
}

/// Maximum number of bytes written by one `transmit`.
const BUDGET_BYTES: usize = 512 << 10;
