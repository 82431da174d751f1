//! Options whose default is a setting of the service, which may be another than Linux's.

use super::{CONGESTION, Form, KNOWN, NO_PATIENCE};
use crate::Posix;
use crate::channel::{Channel, ControlAnswer, Request, SocketOption};
use crate::descriptions::{Description, UNSET};
use crate::fd_table::SocketRef;
use std::sync::atomic::Ordering;

impl Posix {
    /// Returns the number that the option at `place` reads back as.
    pub(super) fn value(&self, channel: &dyn Channel, socket: SocketRef, description: &Description, place: usize) -> i32 {
        let known = &KNOWN[place];
        match description.values[place].load(Ordering::Acquire) {
            UNSET => self.setting(channel, socket, known.of_stream()).unwrap_or(known.default as i32),
            NO_PATIENCE if known.form == Form::Patience => -1,
            value => value as i32,
        }
    }

    /// Returns the place of the congestion control's name: the program's choice, or the service's.
    pub(super) fn congestion(&self, channel: &dyn Channel, socket: SocketRef, description: &Description) -> Option<usize> {
        match description.values[CONGESTION].load(Ordering::Acquire) {
            UNSET => usize::try_from(self.setting(channel, socket, Some(SocketOption::Congestion))?).ok(),
            index => Some(index as usize),
        }
    }

    /// Asks the service for the value that is in effect although the program has set none. `None`: the default is fixed, or
    /// the service does not answer.
    fn setting(&self, channel: &dyn Channel, socket: SocketRef, option: Option<SocketOption>) -> Option<i32> {
        let option = option.filter(|option| FROM_SETTINGS.contains(option))?;
        let mut bytes = [0; 4];
        let answer = self.ask(channel, socket, Request::Option { option }, &mut bytes);
        (answer == Some(ControlAnswer::Bytes(4))).then(|| i32::from_le_bytes(bytes))
    }
}

const FROM_SETTINGS: [SocketOption; 6] = [
    SocketOption::KeepIdle,
    SocketOption::KeepInterval,
    SocketOption::KeepCount,
    SocketOption::SynCount,
    SocketOption::Congestion,
    SocketOption::PacingRate,
];
