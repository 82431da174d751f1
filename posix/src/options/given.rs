//! Options that only this library has had, for the kernel socket that goes on without it (`moved`). What the stack knows the service
//! gives it.

use super::{KNOWN, SET_CONGESTION, SET_LINGER, SET_RECEIVE_TIMEOUT, SET_SEND_TIMEOUT, timeval_of};
use crate::Posix;
use crate::descriptions::{Flag, UNSET};
use crate::fallback::Fd;
use crate::fd_table::SocketRef;
use crate::reasons::Fallback;
use ringway_channel::options::{Form, LinuxOption, Use};
use std::sync::atomic::Ordering;

impl Posix {
    /// Sets them on the kernel socket `fd` of a stream.
    pub(crate) fn give_options(&self, fd: Fd, socket: SocketRef) {
        let description = self.descriptions.of(socket);
        let give = |level: i32, name: i32, value: &[u8]| {
            if self.kernel.set_option(fd, level, name, value).is_err() {
                self.fall_back("setsockopt", &fd, Fallback::OptionRefused);
            }
        };
        let timeouts = [(libc::SO_RCVTIMEO, &description.receive_timeout), (libc::SO_SNDTIMEO, &description.send_timeout)];
        // Also what was taken back: the kernel socket may have it from before the stack had the connection.
        let is_known = !description.is(Flag::ADOPTED);
        for (name, nanos) in timeouts.map(|(name, nanos)| (name, nanos.load(Ordering::Acquire))) {
            match nanos {
                0 if !is_known => {}
                AT_ONCE => give(libc::SOL_SOCKET, name, &NEGATIVE),
                nanos => give(libc::SOL_SOCKET, name, &timeval_of(nanos)),
            }
        }
        let linger = description.linger.load(Ordering::Acquire);
        if is_known || linger >= 0 {
            let value = [i32::from(linger >= 0), linger.max(0)].map(i32::to_ne_bytes);
            give(libc::SOL_SOCKET, libc::SO_LINGER, value.as_flattened());
        }
        for (place, known) in KNOWN.iter().enumerate().filter(|(_, known)| is_given(known)) {
            match description.values[place].load(Ordering::Acquire) {
                UNSET => {}
                value => give(known.level, known.name, &value.to_ne_bytes()),
            }
        }
    }
}

impl Posix {
    /// The options that the program has set on a socket of ours, for [`copy_options`](Posix::copy_options).
    pub(crate) fn options_of(&self, socket: SocketRef) -> u64 {
        let description = self.descriptions.of(socket);
        let values = (0..KNOWN.len()).filter(|place| description.values[*place].load(Ordering::Acquire) != UNSET);
        let others = [
            (SET_RECEIVE_TIMEOUT, description.receive_timeout.load(Ordering::Acquire) != 0),
            (SET_SEND_TIMEOUT, description.send_timeout.load(Ordering::Acquire) != 0),
            (SET_LINGER, description.linger.load(Ordering::Acquire) >= 0),
            // The kernel socket has the stack's, whether it was chosen or not.
            (SET_CONGESTION, true),
        ];
        let others = others.into_iter().filter(|(_, is_set)| *is_set).map(|(bit, _)| bit);
        values.map(|place| 1 << place).chain(others).fold(0, |all, bit| all | bit)
    }
}

/// Returns true for what no worker hears of, and the kernel takes on a connected socket.
fn is_given(known: &LinuxOption) -> bool {
    known.stream == Use::Library && (known.level, known.name) != (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY)
}

const _: () = {
    let mut place = 0;
    while place < KNOWN.len() {
        // Their values are kept as the kernel takes them.
        assert!(
            !matches!(KNOWN[place].stream, Use::Library)
                || matches!(KNOWN[place].form, Form::Switch | Form::Number | Form::LowWater)
        );
        place += 1;
    }
};

/// A negative time limit, which `timeout_nanos` keeps as one nanosecond.
const AT_ONCE: u64 = 1;
const NEGATIVE: [u8; 16] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
