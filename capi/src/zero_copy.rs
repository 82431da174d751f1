//! ringway_read_chunk and ringway_reserve: receiving and sending without a copy.

use std::ptr;

use libc::{c_int, c_void};
use ringway::remote::{Held, HeldRoom, Stream};

use crate::answer::{Answer, Errno, borrow, number, status, take};

/// `ringway_chunk`
#[repr(C)]
pub struct Chunk {
    data: *const u8,
    len: usize,
    owner: *mut c_void,
}

/// `ringway_room`
#[repr(C)]
pub struct Room {
    data: *mut u8,
    len: usize,
    owner: *mut c_void,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_read_chunk(stream: *const Stream, chunk: *mut Chunk) -> c_int {
    // SAFETY: as the crate says.
    number(unsafe { borrow(stream) }.and_then(|stream| {
        // SAFETY: as the crate says.
        let place = unsafe { chunk.as_mut() }.ok_or(Errno(libc::EFAULT))?;
        let Some(lent) = stream.read_chunk()? else {
            *place = Chunk { data: ptr::null(), len: 0, owner: ptr::null_mut() };
            return Ok(0);
        };
        let held = lent.hold();
        let bytes = stream.bytes(&held);
        let (data, len) = (bytes.as_ptr(), bytes.len());
        *place = Chunk { data, len, owner: Box::into_raw(Box::new(held)).cast() };
        Ok(1)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_release(stream: *const Stream, chunk: *mut Chunk) {
    // SAFETY: as the crate says; its owner is a Held of `ringway_read_chunk`, or null after the first release.
    let (stream, held) = unsafe { (borrow(stream), chunk.as_mut().and_then(|chunk| owner::<Held>(&mut chunk.owner))) };
    if let (Ok(stream), Some(held)) = (stream, held) {
        stream.give_back(*held);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_reserve(stream: *const Stream, len: usize, room: *mut Room) -> c_int {
    // SAFETY: as the crate says.
    status(unsafe { borrow(stream) }.and_then(|stream| {
        // SAFETY: as the crate says.
        let place = unsafe { room.as_mut() }.ok_or(Errno(libc::EFAULT))?;
        let mut held = stream.reserve(len)?.hold();
        let bytes = stream.room_bytes(&mut held);
        let (data, len) = (bytes.as_mut_ptr(), bytes.len());
        *place = Room { data, len, owner: Box::into_raw(Box::new(held)).cast() };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_commit(stream: *const Stream, room: *mut Room, len: usize) -> c_int {
    // SAFETY: as the crate says.
    status(unsafe { taken(stream, room) }.and_then(|(stream, mut held)| {
        if len > stream.room_bytes(&mut held).len() {
            stream.cancel(held);
            return Err(Errno(libc::EINVAL));
        }
        Ok(stream.commit(held, len)?)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_cancel(stream: *const Stream, room: *mut Room) {
    // SAFETY: as the crate says.
    if let Ok((stream, held)) = unsafe { taken(stream, room) } {
        stream.cancel(held);
    }
}

/// Returns the stream and the reservation in `room`; EINVAL when it was taken before.
unsafe fn taken<'a>(stream: *const Stream, room: *mut Room) -> Answer<(&'a Stream, HeldRoom)> {
    // SAFETY: as the crate says; its owner is a HeldRoom of `ringway_reserve`, or null after commit or cancel.
    unsafe {
        let stream = borrow(stream)?;
        let room = room.as_mut().ok_or(Errno(libc::EFAULT))?;
        Ok((stream, *owner::<HeldRoom>(&mut room.owner).ok_or(Errno(libc::EINVAL))?))
    }
}

/// Takes the object that an owner word points to, and clears the word.
unsafe fn owner<T>(word: &mut *mut c_void) -> Option<Box<T>> {
    // SAFETY: as the caller says.
    unsafe { take(std::mem::replace(word, ptr::null_mut()).cast()) }
}
