//! Delivery rate: the rate at which the network delivers a connection's data.
//!
//! Read draft-ietf-ccwg-bbr §4.1 first; names and steps are the draft's (C.delivered, P.first_send_time, RS.interval). Every
//! packet in flight has a record of the state when it was sent. When it is delivered, the sample is the bytes delivered in
//! between over the longer of the two times (sending them, acknowledging them). Only connections with a rate-based
//! congestion control keep records. Retransmissions split records, so that each has the time at which its bytes were last
//! sent. Times are microseconds.

use alloc::collections::VecDeque;
use core::ops::Range;

use crate::wire::sequence::SeqNum;

/// Maximum number of records; what is sent beyond belongs to the last one.
const PACKETS_MAX: usize = 1 << 16;

/// State of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    Lost,
    Delivered,
}

/// A packet, or a part of one in the same state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    start: SeqNum,
    pub(crate) len: u32,
    /// P.send_time
    sent_us: u64,
    /// P.first_send_time
    first_sent_us: u64,
    /// P.delivered_time
    delivered_us: u64,
    /// P.delivered
    delivered: u64,
    /// P.lost
    pub(crate) lost: u64,
    /// P.tx_in_flight
    pub(crate) in_flight: u32,
    /// P.is_app_limited
    pub(crate) app_limited: bool,
    /// It is a retransmission: which of the transmissions has arrived is not known.
    again: bool,
    fate: Fate,
}

impl Packet {
    fn end(&self) -> SeqNum {
        self.start + self.len
    }
}

/// RS: what one acknowledgment says of the path. Volumes are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// Something was delivered. The fields below, except the next, are those of the delivered packet that was sent last.
    pub has_data: bool,
    /// Delivered by this acknowledgment (RS.newly_acked).
    pub newly_acked: u32,
    /// Delivered before the packet was sent (RS.prior_delivered).
    pub prior_delivered: u64,
    /// The application was the limit when it was sent (RS.is_app_limited).
    pub app_limited: bool,
    /// In flight when it was sent, itself included (RS.tx_in_flight).
    pub in_flight: u32,
    /// Lost since it was sent (RS.lost).
    pub lost: u64,
    /// Delivered since it was sent (RS.delivered).
    pub delivered: u64,
    /// The rate at which that was delivered, bytes per second (RS.delivery_rate); 0: no reliable sample.
    pub delivery_rate: u64,
    /// The packet's round-trip time, microseconds (RS.rtt); 0: none.
    pub rtt_us: u32,
    send_elapsed_us: u64,
    ack_elapsed_us: u64,
    sent_us: u64,
    end: SeqNum,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// Sorted by sequence number, disjoint.
    packets: VecDeque<Packet>,
    /// C.delivered, bytes.
    pub(crate) delivered: u64,
    /// C.delivered_time
    delivered_us: u64,
    /// C.first_send_time
    first_sent_us: u64,
    /// C.lost, bytes.
    pub(crate) lost: u64,
    /// C.app_limited: samples are application-limited until this many bytes are delivered; 0: they are not.
    app_limited: u64,
    /// Sample of the ACK that is being processed.
    sample: Sample,
    /// The last reliable rate, and true when it was application-limited; for TCP_INFO.
    pub(crate) latest: (u64, bool),
}

/// Bytes that were sent.
#[derive(Clone, Copy)]
pub(crate) struct Transmission {
    pub(crate) start: SeqNum,
    pub(crate) len: u32,
    /// They were sent before.
    pub(crate) again: bool,
}

impl Rate {
    /// Returns true while samples are limited by the application.
    pub(crate) fn is_application_limited(&self) -> bool {
        self.app_limited != 0
    }

    /// MarkConnectionAppLimited
    pub(crate) fn mark_application_limited(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + in_flight as u64).max(1);
    }

    /// OnPacketSent. `in_flight` includes it.
    pub(crate) fn sent(&mut self, now_us: u64, in_flight: u32, sent: Transmission) {
        let Transmission { start, len, again } = sent;
        if len == 0 {
            return;
        }
        if in_flight <= len {
            self.first_sent_us = now_us;
            self.delivered_us = now_us;
        }
        let fresh = Packet {
            start,
            len,
            sent_us: now_us,
            first_sent_us: self.first_sent_us,
            delivered_us: self.delivered_us,
            delivered: self.delivered,
            lost: self.lost,
            in_flight,
            app_limited: self.app_limited != 0,
            again,
            fate: Fate::UnderWay,
        };
        if again {
            for index in self.isolate(start, start + len) {
                let Packet { start, len, .. } = self.packets[index];
                self.packets[index] = Packet { start, len, ..fresh };
            }
        } else if self.packets.len() < PACKETS_MAX {
            self.packets.push_back(fresh);
        } else if let Some(last) = self.packets.back_mut() {
            last.len += len;
        }
    }

    /// Splits records at `start` and `end`. Returns the indexes of those in between.
    fn isolate(&mut self, start: SeqNum, end: SeqNum) -> Range<usize> {
        let first = self.cut(start);
        first..self.cut(end).max(first)
    }

    /// Splits the record that contains `at`. Returns the index of the first record at or after `at`.
    fn cut(&mut self, at: SeqNum) -> usize {
        let index = self.packets.partition_point(|packet| packet.end().at_or_before(at));
        match self.packets.get(index).copied() {
            Some(packet) if packet.start.before(at) => {
                let len = at - packet.start;
                self.packets[index].len = len;
                self.packets.insert(index + 1, Packet { start: at, len: packet.len - len, ..packet });
                index + 1
            }
            _ => index,
        }
    }

    /// Takes the first SACK of the bytes `start..end`.
    pub(crate) fn sacked(&mut self, now_us: u64, start: SeqNum, end: SeqNum) {
        for index in self.isolate(start, end) {
            let packet = self.packets[index];
            self.packets[index].fate = Fate::Delivered;
            self.deliver(now_us, &packet);
        }
    }

    /// Takes the acknowledgment of everything before `una`.
    pub(crate) fn acknowledged(&mut self, now_us: u64, una: SeqNum) {
        while let Some(front) = self.packets.front_mut()
            && front.start.before(una)
        {
            if front.end().after(una) {
                let part = Packet { len: una - front.start, ..*front };
                front.len -= part.len;
                front.start = una;
                self.deliver(now_us, &part);
            } else if let Some(packet) = self.packets.pop_front() {
                self.deliver(now_us, &packet);
            }
        }
    }

    /// UpdateRateSample
    fn deliver(&mut self, now_us: u64, packet: &Packet) {
        if packet.fate == Fate::Delivered {
            return;
        }
        self.delivered += packet.len as u64;
        self.delivered_us = now_us;
        let sample = &mut self.sample;
        sample.newly_acked = sample.newly_acked.saturating_add(packet.len);
        // IsNewestPacket
        let is_newest = packet.sent_us > sample.sent_us || (packet.sent_us == sample.sent_us && packet.end().after(sample.end));
        if sample.has_data && !is_newest {
            return;
        }
        *sample = Sample {
            has_data: true,
            newly_acked: sample.newly_acked,
            prior_delivered: packet.delivered,
            app_limited: packet.app_limited,
            in_flight: packet.in_flight,
            lost: packet.lost,
            rtt_us: if packet.again { 0 } else { (now_us - packet.sent_us).clamp(1, u32::MAX as u64) as u32 },
            send_elapsed_us: packet.sent_us - packet.first_sent_us,
            ack_elapsed_us: now_us - packet.delivered_us,
            sent_us: packet.sent_us,
            end: packet.end(),
            ..Sample::default()
        };
        self.first_sent_us = packet.sent_us;
    }

    /// GenerateRateSample: returns the ACK's sample. `min_rtt_us`: no reliable sample is shorter.
    pub(crate) fn take_sample(&mut self, min_rtt_us: u32) -> Sample {
        if self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let mut sample = core::mem::take(&mut self.sample);
        if !sample.has_data {
            return sample;
        }
        sample.lost = self.lost - sample.lost;
        sample.delivered = self.delivered - sample.prior_delivered;
        let interval_us = sample.send_elapsed_us.max(sample.ack_elapsed_us);
        if interval_us >= min_rtt_us as u64 && interval_us > 0 {
            sample.delivery_rate = sample.delivered.saturating_mul(1_000_000) / interval_us;
            // Linux: an application-limited sample is shown only if it is the better one.
            if !sample.app_limited || sample.delivery_rate >= self.latest.0 {
                self.latest = (sample.delivery_rate, sample.app_limited);
            }
        }
        sample
    }

    /// Marks the bytes `start..end` lost: calls `visit` for every packet (or part) newly marked, with C.lost so far.
    pub(crate) fn lost(&mut self, start: SeqNum, end: SeqNum, visit: &mut dyn FnMut(&Packet, u64)) {
        for index in self.isolate(start, end) {
            if self.packets[index].fate == Fate::UnderWay {
                self.packets[index].fate = Fate::Lost;
                self.lost += self.packets[index].len as u64;
                visit(&self.packets[index], self.lost);
            }
        }
    }

    /// Takes all loss marks back.
    pub(crate) fn nothing_lost(&mut self) {
        for packet in self.packets.iter_mut().filter(|packet| packet.fate == Fate::Lost) {
            packet.fate = Fate::UnderWay;
        }
    }
}

#[cfg(test)]
mod tests;
