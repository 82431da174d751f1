//! ringway_attach, ringway_detach.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ringway::remote::Session;

use crate::answer::{handle, take};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_attach(path: *const libc::c_char) -> *mut Session {
    if path.is_null() {
        return handle(Session::from_environment().map_err(Into::into));
    }
    // SAFETY: a C string, as the crate says.
    let path = unsafe { CStr::from_ptr(path) };
    handle(Session::attach(Path::new(OsStr::from_bytes(path.to_bytes()))).map_err(Into::into))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringway_detach(session: *mut Session) {
    // SAFETY: as the crate says.
    drop(unsafe { take(session) });
}
