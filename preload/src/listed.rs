//! Programs that the machine's list puts on Ringway: /etc/ld.so.preload loads the library into every program, and this says in which it works.
//!
//! Promises: takes no memory from the heap; a list that others than root could have written says nothing. Does not do: scripts, whose
//! program is their interpreter.

use crate::reading::{File, PathBuffer};
use libc::{c_int, c_long};
use ringway_channel::attach::{LIST, LIST_BYTES, listed};
use ringway_shm::system_call::system_call;
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Room for the list.
pub(crate) type Room = [MaybeUninit<u8>; LIST_BYTES];

/// The name of the service that the list has for this program; `None`: it is not listed.
pub(crate) fn service_of_this_program(room: &mut Room) -> Option<&[u8]> {
    service_of_this_program_in(LIST, room)
}

pub(crate) fn service_of_this_program_in<'a>(list: &CStr, room: &'a mut Room) -> Option<&'a [u8]> {
    let file = File::open(libc::AT_FDCWD, list.as_ptr()).ok()?;
    let status = file.status()?;
    let is_file = status.st_mode & libc::S_IFMT == libc::S_IFREG;
    if !is_file || status.st_uid != 0 || status.st_mode & (libc::S_IWGRP | libc::S_IWOTH) != 0 {
        return None;
    }
    let mut program = PathBuffer::new();
    let (path, at, len) = (c"/proc/self/exe".as_ptr(), program.bytes.as_mut_ptr(), program.bytes.len());
    let directory = c_long::from(libc::AT_FDCWD as c_int);
    // SAFETY: a C string, and a local of that length.
    let count = unsafe { system_call(libc::SYS_readlinkat, [directory, path as c_long, at as c_long, len as c_long, 0, 0]) };
    let program = program.bytes.get(..usize::try_from(count).ok()?)?;
    listed(file.read(0, room), program)
}
