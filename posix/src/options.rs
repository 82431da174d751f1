//! setsockopt and getsockopt on a stream of the stack; `ringway_channel::options` is the table of its options.
//!
//! Before `listen` or `connect` decides, options are the kernel's: `note_option` only records *which* were ever set,
//! and at the decision they are read back from the kernel socket (`copy_kernel_options`). Afterwards the kernel checks
//! each option (the descriptor is a kernel TCP socket), the description stores it, and the stack gets what it acts on. Options
//! that the stack lacks make the socket the kernel's, or are refused (`table`, `marks`).

mod given;
pub(crate) mod marks;
mod settings;
pub(crate) mod table;

use crate::Posix;
use crate::channel::{Channel, ControlAnswer, Request, SocketOption, State};
use crate::descriptions::{Description, Flag, UNSET};
use crate::errno::{Answer, Errno};
use crate::fallback::Fd;
use crate::fd_table::{Descriptor, SocketRef};
use crate::reasons::Fallback;
use crate::tcp_info::{self, SendQueue};
use ringway_channel::options::{Form, LINUX_OPTIONS, LinuxOption, Use};
use std::net::IpAddr;
use std::sync::atomic::Ordering;

/// Number-valued options, by their index in a description.
const KNOWN: &[LinuxOption] = LINUX_OPTIONS;
const LOW_WATER: usize = index_of(libc::SOL_SOCKET, libc::SO_RCVLOWAT);
const CONNECTS_FAST: usize = index_of(libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT);
const INQUIRY: usize = index_of(libc::IPPROTO_TCP, TCP_INQ);
/// linux/tcp.h
pub(crate) const TCP_INQ: i32 = 36;
const _: () = assert!(KNOWN.len() <= CONGESTION && CONGESTION < crate::descriptions::VALUES);

/// Index of TCP_CONGESTION in a description; its value is an index into `CONGESTION_NAMES`.
const CONGESTION: usize = 39;
const CONGESTION_NAMES: [&str; 4] = ["reno", "cubic", "bbr", "dctcp"];
const CONGESTION_DEFAULT: usize = 1;

/// Bits of `options_set` beside those of `KNOWN`.
const SET_CONGESTION: u64 = 1 << 40;
const SET_LINGER: u64 = 1 << 41;
const SET_RECEIVE_TIMEOUT: u64 = 1 << 42;
const SET_SEND_TIMEOUT: u64 = 1 << 43;
const SET_FAST_OPEN_KEY: u64 = 1 << 46;

const fn index_of(level: i32, name: i32) -> usize {
    let mut index = 0;
    while KNOWN[index].level != level || KNOWN[index].name != name {
        index += 1;
    }
    index
}

fn place(level: i32, name: i32) -> Option<usize> {
    KNOWN.iter().position(|known| (known.level, known.name) == (level, name) && known.stream != Use::Unused)
}

impl Posix {
    /// Records that the program has set an option on a socket that is (still) the kernel's.
    pub fn note_option(&self, fd: Fd, level: i32, name: i32, value: &[u8]) {
        self.mark_option(fd, level, name, value);
        let name = without_force(level, name);
        let bit = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) => SET_LINGER,
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW) => SET_RECEIVE_TIMEOUT,
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW) => SET_SEND_TIMEOUT,
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => SET_CONGESTION,
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY) => SET_FAST_OPEN_KEY,
            _ => match place(level, name) {
                Some(place) => 1 << place,
                None => return,
            },
        };
        if self.options_set.load(Ordering::Relaxed) & bit != bit {
            self.options_set.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// At the decision: copies the options of the kernel socket to the stack's socket. `peer`: the remote address of a connection
    /// to be opened.
    pub(crate) fn copy_kernel_options(&self, channel: &dyn Channel, fd: Fd, socket: SocketRef, peer: Option<IpAddr>) {
        self.copy_options(channel, (fd, socket), peer, 0);
    }

    /// The same, where `known` names options of this socket that were set while it was the stack's.
    pub(crate) fn copy_options(&self, channel: &dyn Channel, (fd, socket): (Fd, SocketRef), peer: Option<IpAddr>, known: u64) {
        let foreign = self.is_foreign(fd);
        let set = known | if foreign { u64::MAX } else { self.options_set.load(Ordering::Relaxed) };
        if set == 0 {
            return;
        }
        let description = self.descriptions.of(socket);
        for (place, known) in
            KNOWN.iter().enumerate().filter(|(place, known)| set & (1 << place) != 0 && known.stream != Use::Unused)
        {
            let Some(value) = self.kernel_number(fd, known.level, known.name) else { continue };
            if self.is_kernel_default(known, value, foreign) {
                continue;
            }
            let value = if known.form == Form::Patience && value < 0 { NO_PATIENCE.cast_signed() } else { value };
            description.values[place].store(value as u32, Ordering::Release);
            if (known.level, known.name) == (libc::SOL_SOCKET, libc::SO_OOBINLINE) {
                channel.set_urgent_in_line(socket, value != 0);
            }
            if let Some(option) = known.of_stream().filter(|_| is_about(known.level, peer)) {
                channel.set_option(socket, option, for_stack(known, value as u32));
            }
        }
        if set & SET_FAST_OPEN_KEY != 0 {
            self.pass_fast_open_keys(channel, fd, socket);
        }
        let others = [
            (SET_LINGER, libc::SOL_SOCKET, libc::SO_LINGER),
            (SET_RECEIVE_TIMEOUT, libc::SOL_SOCKET, libc::SO_RCVTIMEO),
            (SET_SEND_TIMEOUT, libc::SOL_SOCKET, libc::SO_SNDTIMEO),
            (SET_CONGESTION, libc::IPPROTO_TCP, libc::TCP_CONGESTION),
        ];
        for (_, level, name) in others.into_iter().filter(|(bit, ..)| set & bit != 0) {
            let mut bytes = [0; 16];
            if let Ok(len) = self.kernel.option(fd, level, name, &mut bytes)
                && self.set_special(channel, socket, (level, name), &bytes[..len]).is_none()
            {
                self.fall_back("setsockopt", &fd, Fallback::OptionNotServed);
            }
        }
    }

    /// Copies the keys of the kernel's listener, so that a cookie of one is valid at the other.
    fn pass_fast_open_keys(&self, channel: &dyn Channel, fd: Fd, socket: SocketRef) {
        let mut bytes = [0; 32];
        let Ok(len) = self.kernel.option(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY, &mut bytes) else { return };
        let keys = &bytes[..len.min(32)];
        let Some(primary) = keys.first_chunk() else { return };
        channel.set_fast_open_keys(socket, *primary, keys.get(16..).and_then(<[u8]>::first_chunk).copied());
    }

    /// Returns true for a value that was not set. The stack tunes an unset buffer size instead of fixing it at the
    /// kernel's initial value. For a socket from another program it is unknown what was set: a fresh socket's value
    /// counts as unset.
    fn is_kernel_default(&self, known: &LinuxOption, value: i32, foreign: bool) -> bool {
        match known.form {
            Form::Buffer { .. } => self.has_sample(known, value),
            _ => value as u32 == known.default || foreign && self.has_sample(known, value),
        }
    }

    fn has_sample(&self, known: &LinuxOption, value: i32) -> bool {
        self.sample().is_ok_and(|sample| self.kernel_number(sample, known.level, known.name) == Some(value))
    }

    /// A fresh kernel socket for comparison.
    fn sample(&self) -> Answer<Fd> {
        let known = self.sample.load(Ordering::Acquire);
        if known >= 0 {
            return Ok(known);
        }
        let fresh = self.park(self.kernel.socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)?);
        match self.sample.compare_exchange(-1, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(fresh),
            Err(earlier) => {
                self.discard_internal(fresh);
                Ok(earlier)
            }
        }
    }

    /// setsockopt(2) on a socket of ours.
    pub fn set_option(&self, at: Descriptor, level: i32, name: i32, value: &[u8]) -> Answer<()> {
        let socket = at.socket;
        let channel = self.attached().ok_or(Errno::NOTCONN)?;
        let description = self.descriptions.of(socket);
        if description.is(Flag::DATAGRAM) {
            return self.set_datagram_option(at, level, name, value);
        }
        let answer = self.set_stream_option(channel, at, (level, name), value);
        if channel.is_served_by_several(socket) {
            // A connection accepted after this call has the option, at any worker.
            self.ask(channel, socket, Request::Settle, &mut []);
        }
        answer
    }

    fn set_stream_option(
        &self,
        channel: &dyn Channel,
        Descriptor { fd, socket }: Descriptor,
        (level, name): (i32, i32),
        value: &[u8],
    ) -> Answer<()> {
        let description = self.descriptions.of(socket);
        if let Some(answer) = self.set_special(channel, socket, (level, name), value) {
            return answer;
        }
        let Some(option) = table::find(level, name) else { return Err(Errno::NOPROTOOPT) };
        if let Some(error) = option.stream().refusal(value) {
            if option.is_unlisted() {
                self.note_seen(description);
                if self.kernel.set_option(fd, level, name, value) == Err(error) {
                    // The kernel lacks it too.
                    return Err(error);
                }
            }
            return Err(self.leave_for_option(channel, socket, option, error));
        }
        if level == libc::IPPROTO_IPV6 && (!description.is(Flag::INET6) || name == libc::IPV6_V6ONLY) {
            // net/ipv6/ipv6_sockglue.c: once a socket has a port, it is fixed whether it serves IPv4.
            return Err(if description.is(Flag::INET6) { Errno::INVAL } else { Errno::NOPROTOOPT });
        }
        let place = place(level, without_force(level, name));
        // The kernel checks the value. Some options must not reach its socket, such as a shadow's O_NONBLOCK; none of
        // them comes here.
        if (level, name) == (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP) && number_of(value) == Some(0) {
            // net/ipv4/tcp.c, tcp_set_window_clamp: can be cleared only before there is a connection.
            return Err(Errno::INVAL);
        }
        let checked = if takes_any_number(level, name) && value.len() >= size_of::<i32>() {
            Ok(())
        } else {
            if place.is_none() {
                // Unlisted options are read back from the kernel's socket.
                self.note_seen(description);
            }
            self.kernel.set_option(fd, level, name, value)
        };
        match checked {
            Err(error) if place.is_none() => return Err(error),
            Err(Errno::INVAL | Errno::PERM | Errno::DOM | Errno::FAULT) if value.len() < 4 => return Err(Errno::INVAL),
            Err(error @ (Errno::INVAL | Errno::PERM)) if !is_checked_by_us(level, name) => return Err(error),
            _ => {}
        }
        if (level, name) == (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY) {
            self.pass_fast_open_keys(channel, fd, socket);
        }
        if let Some(place) = place {
            let number = if name == libc::SO_MAX_PACING_RATE { rate_of(value) } else { number_of(value) };
            let number = number.ok_or(Errno::INVAL)?;
            self.store(channel, socket, place, number);
        }
        Ok(())
    }

    /// The stack lacks the option: a connection leaves it for the kernel, which then decides ([`Errno::MOVED`]). `error`: the answer if
    /// it cannot leave, or must not.
    fn leave_for_option(&self, channel: &dyn Channel, socket: SocketRef, option: table::Known, error: Errno) -> Errno {
        let is_connected = || channel.view(socket).is_some_and(|view| view.state == State::Connected);
        if !self.settings.strict && option.stream().is_worth_leaving() && is_connected() && self.hand_over(socket) {
            return Errno::MOVED;
        }
        self.fall_back("setsockopt", &option.name(), Fallback::OptionRefused);
        error
    }

    fn store(&self, channel: &dyn Channel, socket: SocketRef, place: usize, number: i32) {
        let known = &KNOWN[place];
        let value = match known.form {
            Form::Switch => u32::from(number != 0),
            Form::Number => number as u32,
            // net/ipv4/tcp.c, tcp_set_rcvlowat.
            Form::LowWater if number < 0 => LOW_WATER_MAX,
            Form::LowWater => (number as u32).clamp(1, LOW_WATER_MAX),
            Form::Retries => seconds_of_retries(number),
            Form::Clamp if number == 0 => 0,
            Form::Clamp => (number.max(0) as u32).max(CLAMP_MIN),
            Form::Patience if number > FIN_TIMEOUT_MAX_S => FIN_TIMEOUT_MAX_S as u32,
            Form::Patience if number == 0 => known.default,
            Form::Patience if number < 0 => NO_PATIENCE,
            Form::Patience => number as u32,
            // -1 asks for the default, zero (RFC 3542 §6.5).
            Form::Class => {
                if number == -1 {
                    0
                } else {
                    number as u32 & CLASS_MASK
                }
            }
            Form::Buffer { least } => (number.max(0) as u32).min(BUFFER_MAX).saturating_mul(2).max(least),
        };
        self.descriptions.of(socket).values[place].store(value, Ordering::Release);
        if (known.level, known.name) == (libc::SOL_SOCKET, libc::SO_OOBINLINE) {
            channel.set_urgent_in_line(socket, value != 0);
        }
        let peer = channel.addresses(socket).map(|(_, remote)| remote).filter(|remote| remote.port() != 0);
        if let Some(option) = known.of_stream().filter(|_| is_about(known.level, peer.map(|peer| peer.ip()))) {
            channel.set_option(socket, option, for_stack(known, value));
        }
    }

    /// Returns true if TCP_FASTOPEN_CONNECT is set.
    pub(crate) fn connects_fast(&self, socket: SocketRef) -> bool {
        self.descriptions.of(socket).values[CONNECTS_FAST].load(Ordering::Acquire) == 1
    }

    /// Sets an option with a value other than one number. `None`: it is none of those.
    fn set_special(
        &self,
        channel: &dyn Channel,
        socket: SocketRef,
        (level, name): (i32, i32),
        value: &[u8],
    ) -> Option<Answer<()>> {
        let description = self.descriptions.of(socket);
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW) => {
                Some(timeout_nanos(value).map(|nanos| description.receive_timeout.store(nanos, Ordering::Release)))
            }
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW) => {
                Some(timeout_nanos(value).map(|nanos| description.send_timeout.store(nanos, Ordering::Release)))
            }
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let (Some(on), Some(seconds)) = (number_of(value), value.get(4..8).and_then(number_of)) else {
                    return Some(Err(Errno::INVAL));
                };
                let linger = if on != 0 { seconds.clamp(0, i32::from(u16::MAX)) } else { -1 };
                description.linger.store(linger, Ordering::Release);
                // The last holder may end without a close.
                channel.set_option(socket, SocketOption::ResetAtClose, u32::from(linger == 0));
                Some(Ok(()))
            }
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let Some(index) = congestion_of(value) else {
                    let option = table::find(level, name).expect("it is in the table");
                    return Some(Err(self.leave_for_option(channel, socket, option, Errno::NOENT)));
                };
                description.values[CONGESTION].store(index as u32, Ordering::Release);
                channel.set_option(socket, SocketOption::Congestion, index as u32);
                Some(Ok(()))
            }
            _ => None,
        }
    }

    /// getsockopt(2) on a socket of ours; returns the length written to `out`.
    pub fn option(&self, at: Descriptor, level: i32, name: i32, out: &mut [u8]) -> Answer<usize> {
        let Descriptor { fd, socket } = at;
        let channel = self.attached().ok_or(Errno::NOTCONN)?;
        let description = self.descriptions.of(socket);
        if description.is(Flag::DATAGRAM) {
            return self.datagram_option(at, level, name, out);
        }
        let timeout = |nanos: u64| timeval_of(nanos);
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => put_number(out, self.pending_error(socket, description)),
            (libc::SOL_SOCKET, libc::SO_TYPE) => put_number(out, libc::SOCK_STREAM),
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => put_number(out, libc::IPPROTO_TCP),
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => {
                put_number(out, if description.is(Flag::INET6) { libc::AF_INET6 } else { libc::AF_INET })
            }
            (libc::SOL_SOCKET, libc::SO_PEERNAME) => self.peer_socket_name(socket).map(|name| put(out, name.as_slice())),
            (libc::IPPROTO_TCP, libc::TCP_ZEROCOPY_RECEIVE) => Err(Errno::NOPROTOOPT),
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
                let listening = channel.view(socket).is_some_and(|view| view.state == State::Listening);
                put_number(out, i32::from(listening))
            }
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO | SO_RCVTIMEO_NEW) => {
                Ok(put(out, &timeout(description.receive_timeout.load(Ordering::Acquire))))
            }
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO | SO_SNDTIMEO_NEW) => {
                Ok(put(out, &timeout(description.send_timeout.load(Ordering::Acquire))))
            }
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let linger = description.linger.load(Ordering::Acquire);
                let mut bytes = [0; 8];
                bytes[..4].copy_from_slice(&i32::from(linger >= 0).to_ne_bytes());
                bytes[4..].copy_from_slice(&linger.max(0).to_ne_bytes());
                Ok(put(out, &bytes))
            }
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
                let index = self.congestion(channel, socket, description);
                let word = index.and_then(|index| CONGESTION_NAMES.get(index)).unwrap_or(&CONGESTION_NAMES[CONGESTION_DEFAULT]);
                let mut bytes = [0; 16];
                bytes[..word.len()].copy_from_slice(word.as_bytes());
                Ok(put(out, &bytes))
            }
            (libc::SOL_SOCKET, libc::SO_MEMINFO) => Ok(put(out, &self.memory(channel, socket, description))),
            (libc::IPPROTO_TCP, libc::TCP_INFO) => match channel.view(socket).filter(|view| view.state == State::Listening) {
                Some(view) => {
                    let len = self.kernel.option(fd, level, name, out)?;
                    tcp_info::add_waiting(&mut out[..len], view.readable);
                    Ok(len)
                }
                None => self.tcp_info(channel, socket, out),
            },
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) if channel.view(socket).is_some_and(|view| view.state == State::Connected) => {
                let mut info = [0; tcp_info::LEN];
                self.tcp_info(channel, socket, &mut info)?;
                put_number(out, tcp_info::send_segment(&info) as i32)
            }
            (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU)
                if channel.view(socket).is_some_and(|view| view.state == State::Connected) =>
            {
                let mut info = [0; tcp_info::LEN];
                self.tcp_info(channel, socket, &mut info)?;
                put_number(out, tcp_info::path_mtu(&info) as i32)
            }
            _ if level == libc::IPPROTO_IPV6 && !description.is(Flag::INET6) => self.kernel.option(fd, level, name, out),
            _ => match place(level, name) {
                Some(place) => put_number(out, self.value(channel, socket, description, place)),
                None => self.option_of_kernel(fd, description, (level, name), out),
            },
        }
    }

    fn option_of_kernel(&self, fd: Fd, description: &Description, (level, name): (i32, i32), out: &mut [u8]) -> Answer<usize> {
        if (level, name) == (libc::SOL_SOCKET, libc::SO_COOKIE) {
            // No other connection may reuse the kernel socket.
            self.note_seen(description);
        }
        self.kernel.option(fd, level, name, out)
    }

    /// SO_MEMINFO (net/core/sock.c, sk_get_meminfo): what is queued in each direction, and the limits. What Linux counts besides
    /// is its own memory.
    fn memory(&self, channel: &dyn Channel, socket: SocketRef, description: &Description) -> [u8; 36] {
        let limit = |name: i32| {
            place(libc::SOL_SOCKET, name).map_or(0, |place| self.value(channel, socket, description, place).cast_unsigned())
        };
        let stream = channel.view(socket).filter(|view| view.state != State::Listening);
        let unread = stream.map_or(0, |view| u32::try_from(view.readable).unwrap_or(u32::MAX));
        let queued = stream.map_or(0, |_| self.send_queue(channel, socket).unacknowledged);
        let queued = u32::try_from(queued).unwrap_or(u32::MAX);
        let figures = [unread, limit(libc::SO_RCVBUF), queued, limit(libc::SO_SNDBUF), 0, queued, 0, 0, 0];
        let mut bytes = [0; 36];
        for (to, figure) in bytes.chunks_exact_mut(4).zip(figures) {
            to.copy_from_slice(&figure.to_ne_bytes());
        }
        bytes
    }

    /// SO_ERROR: reported once.
    fn pending_error(&self, socket: SocketRef, description: &Description) -> i32 {
        if self.service_is_dead() && !description.mark(Flag::DEATH_REPORTED) {
            return Errno::CONNRESET.0;
        }
        self.take_failure(socket).map_or(0, |error| error.0)
    }

    pub(crate) fn tcp_info(&self, channel: &dyn Channel, socket: SocketRef, out: &mut [u8]) -> Answer<usize> {
        match self.ask(channel, socket, Request::Info, out) {
            Some(ControlAnswer::Bytes(len)) => Ok(len),
            Some(_) => Err(Errno::NOBUFS),
            None => Err(Errno::NOTCONN),
        }
    }

    /// Returns the lengths of a stream's send queue; what waits in the channel if the service does not answer.
    pub(crate) fn send_queue(&self, channel: &dyn Channel, socket: SocketRef) -> SendQueue {
        let mut info = [0; tcp_info::LEN];
        self.tcp_info(channel, socket, &mut info).map_or_else(
            |_| SendQueue { unacknowledged: channel.unacknowledged(socket), not_sent: channel.unacknowledged(socket) },
            |_| tcp_info::send_queue(&info),
        )
    }
}

/// Returns true if TCP_INQ is set.
pub(crate) fn tells_unread(description: &Description) -> bool {
    description.values[INQUIRY].load(Ordering::Acquire) == 1
}

/// SO_RCVLOWAT: bytes for which a read waits.
pub(crate) fn receive_low_water(description: &Description) -> usize {
    match description.values[LOW_WATER].load(Ordering::Acquire) {
        UNSET => 1,
        bytes => bytes as usize,
    }
}

/// Returns true if the option applies: those of IP act on packets of their own family only; a listener may have peers
/// of both.
fn is_about(level: i32, peer: Option<IpAddr>) -> bool {
    match (level, peer) {
        (libc::IPPROTO_IP, Some(peer)) => peer.is_ipv4(),
        (libc::IPPROTO_IPV6, Some(peer)) => peer.is_ipv6(),
        _ => true,
    }
}

/// Converts a value for the stack. Linux doubles buffer sizes for its bookkeeping; the stack's are net bytes.
fn for_stack(known: &LinuxOption, value: u32) -> u32 {
    match known.form {
        Form::Buffer { .. } => value / 2,
        // -1 asks for the default (RFC 3542 §6.3).
        Form::Number if value == UNSET => known.default,
        Form::Switch | Form::Number | Form::LowWater | Form::Class | Form::Retries | Form::Clamp | Form::Patience => value,
    }
}

/// Value that TCP_DEFER_ACCEPT reads back: the time of the fewest retransmissions that reach `seconds`, the first after
/// one second and each next after twice the time, up to two minutes.
fn seconds_of_retries(seconds: i32) -> u32 {
    if seconds <= 0 {
        return 0;
    }
    let (mut period, mut timeout, mut retries) = (1, 1, 1);
    while (seconds as u32) > period && retries < u8::MAX {
        timeout = (timeout * 2).min(120);
        period += timeout;
        retries += 1;
    }
    period
}

fn put(out: &mut [u8], value: &[u8]) -> usize {
    let len = out.len().min(value.len());
    out[..len].copy_from_slice(&value[..len]);
    len
}

pub(crate) fn put_number(out: &mut [u8], value: i32) -> Answer<usize> {
    Ok(put(out, &value.to_ne_bytes()))
}

/// Parses an `int`; Linux takes one byte too for IP_TOS and IP_TTL.
fn number_of(value: &[u8]) -> Option<i32> {
    match value {
        [byte] => Some(i32::from(*byte)),
        _ => value.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes)),
    }
}

/// Parses SO_MAX_PACING_RATE, an `unsigned int` or an `unsigned long`; a value that does not fit means no limit.
fn rate_of(value: &[u8]) -> Option<i32> {
    match value.first_chunk::<8>() {
        Some(bytes) => Some(u32::try_from(u64::from_ne_bytes(*bytes)).unwrap_or(u32::MAX).cast_signed()),
        None => number_of(value),
    }
}

/// Parses a timeout; net/core/sock.c, sock_set_timeout: negative is "at once", zero is "for ever".
pub(crate) fn timeout_nanos(value: &[u8]) -> Answer<u64> {
    let bytes = value.first_chunk::<16>().ok_or(Errno::INVAL)?;
    let (seconds, micros) = bytes.split_at(8);
    let seconds = i64::from_ne_bytes(seconds.try_into().expect("eight bytes"));
    let micros = i64::from_ne_bytes(micros.try_into().expect("eight bytes"));
    if !(0..1_000_000).contains(&micros) {
        return Err(Errno::DOM);
    }
    if seconds < 0 {
        return Ok(1);
    }
    Ok((seconds as u64).saturating_mul(1_000_000_000).saturating_add(micros as u64 * 1_000))
}

fn timeval_of(nanos: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&((nanos / 1_000_000_000) as i64).to_ne_bytes());
    bytes[8..].copy_from_slice(&((nanos % 1_000_000_000 / 1_000) as i64).to_ne_bytes());
    bytes
}

/// Maps the privileged buffer options to the normal ones: the buffer is the same.
pub(crate) fn without_force(level: i32, name: i32) -> i32 {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE) => libc::SO_SNDBUF,
        (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE) => libc::SO_RCVBUF,
        _ => name,
    }
}

fn is_congestion(level: i32, name: i32) -> bool {
    (level, name) == (libc::IPPROTO_TCP, libc::TCP_CONGESTION)
}

/// Index of a congestion control's name, which ends at a zero byte.
fn congestion_of(value: &[u8]) -> Option<usize> {
    let word = value.split(|byte| *byte == 0).next().unwrap_or(&[]);
    CONGESTION_NAMES.iter().position(|name| name.as_bytes() == word)
}

/// Returns true for options that the kernel's unconnected socket would refuse because of its state.
fn is_checked_by_us(level: i32, name: i32) -> bool {
    level == libc::IPPROTO_TCP && name == libc::TCP_WINDOW_CLAMP
}

/// Returns true for switches that servers set for every message and that accept any number: the kernel checks nothing.
fn takes_any_number(level: i32, name: i32) -> bool {
    level == libc::IPPROTO_TCP && matches!(name, libc::TCP_NODELAY | libc::TCP_CORK | libc::TCP_QUICKACK)
}

/// Half of net.ipv4.tcp_rmem[2] by default.
const LOW_WATER_MAX: u32 = 3 << 20;
/// Half of SOCK_MIN_RCVBUF.
const CLAMP_MIN: u32 = 1_152;
/// No FIN-WAIT-2 time; not -1, the value that a negative one reads back as, because -1 means unset here.
const NO_PATIENCE: u32 = 1 << 31;
/// TCP_FIN_TIMEOUT_MAX
const FIN_TIMEOUT_MAX_S: i32 = 120;
/// A type of service or traffic class without its ECN bits.
const CLASS_MASK: u32 = 0xfc;
/// linux/socket.h, 64-bit time.
const SO_RCVTIMEO_NEW: i32 = 66;
const SO_SNDTIMEO_NEW: i32 = 67;
/// net.core.wmem_max and rmem_max by default.
const BUFFER_MAX: u32 = 212_992;

#[cfg(test)]
mod tests;
