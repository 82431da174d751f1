//! ringway_set_option and ringway_get_option: the header's numbers and the options behind them.

use libc::c_int;
use ringway::remote::{SocketOption, Stream};

use crate::answer::{Answer, Errno, borrow, status};

/// The options of `enum ringway_option`, from number 1 on, without gaps. The numbers are part of the C interface: they stay
/// when those of the channel change.
const OPTIONS: [SocketOption; 15] = [
    SocketOption::NoDelay,
    SocketOption::Cork,
    SocketOption::KeepAlive,
    SocketOption::KeepIdle,
    SocketOption::KeepInterval,
    SocketOption::KeepCount,
    SocketOption::UserTimeout,
    SocketOption::ReceiveBuffer,
    SocketOption::SendBuffer,
    SocketOption::MaxSegment,
    SocketOption::QuickAck,
    SocketOption::Congestion,
    SocketOption::TypeOfService,
    SocketOption::TimeToLive,
    SocketOption::PacingRate,
];

/// Returns the option of a number; ENOPROTOOPT when there is none.
fn named(number: c_int) -> Answer<SocketOption> {
    let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    index.and_then(|index| OPTIONS.get(index).copied()).ok_or(Errno(libc::ENOPROTOOPT))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_set_option(stream: *const Stream, option: c_int, value: u32) -> c_int {
    // SAFETY: as the crate says.
    status(unsafe { borrow(stream) }.and_then(|stream| Ok(stream.set_option(named(option)?, value)?)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_get_option(stream: *const Stream, option: c_int, value: *mut u32) -> c_int {
    // SAFETY: as the crate says.
    status(unsafe { borrow(stream) }.and_then(|stream| {
        if value.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let read = stream.option(named(option)?)?;
        // SAFETY: the caller says that a number fits there.
        unsafe { value.write(read) };
        Ok(())
    }))
}
