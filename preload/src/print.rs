//! dprintf(3) and its relatives on a socket of ours: libc would write the text inside itself, where no other library sees it.
//!
//! Promises: what libc formats goes out through this library's `write`; on any other descriptor the call is libc's.
//! Does not do: `dprintf` with its arguments one by one elsewhere than on x86-64, since Rust cannot define such a function: there a
//! few instructions make the list (System V ABI for x86-64, §3.5.7: `va_list`).

use crate::{c, io, real, shim};
use libc::{c_char, c_int, c_void};
use std::ptr;

/// `va_list` as an argument: a pointer on x86-64 and AArch64.
type Arguments = *mut c_void;

unsafe extern "C" {
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, arguments: Arguments) -> c_int;
}

/// vdprintf(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vdprintf(fd: c_int, format: *const c_char, arguments: Arguments) -> c_int {
    if shim::ours(fd).is_none() {
        // SAFETY: the program's own call.
        return unsafe { real::vdprintf(fd, format, arguments) };
    }
    let mut text = ptr::null_mut();
    // SAFETY: the program's promise about format and arguments; `text` is written before it is used.
    let len = unsafe { vasprintf(&raw mut text, format, arguments) };
    if len < 0 {
        return -1;
    }
    // SAFETY: `len` bytes are at `text`, which libc has allocated for the caller.
    unsafe {
        let all = write_all(fd, text, len as usize);
        let errno = c::errno();
        libc::free(text.cast());
        c::set_errno(errno.0);
        if all { len } else { -1 }
    }
}

/// # Safety
/// `len` bytes are at `text`.
unsafe fn write_all(fd: c_int, text: *const c_char, len: usize) -> bool {
    let mut done = 0;
    while done < len {
        // SAFETY: the caller's promise.
        let written = unsafe { io::write(fd, text.add(done).cast(), len - done) };
        if written < 0 {
            return false;
        }
        done += written as usize;
    }
    true
}

/// vdprintf(3) where the compiler checks the format.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: Arguments) -> c_int {
    if shim::ours(fd).is_none() {
        // SAFETY: the program's own call.
        return unsafe { real::__vdprintf_chk(fd, flag, format, arguments) };
    }
    // SAFETY: the same contract.
    unsafe { vdprintf(fd, format, arguments) }
}

#[cfg(target_arch = "x86_64")]
mod one_by_one {
    use super::{__vdprintf_chk, vdprintf};
    use libc::c_int;
    use std::arch::naked_asm;

    macro_rules! listed {
        ($(#[$doc:meta])* $name:ident, $named:literal, $list:literal, $call:path) => {
            $(#[$doc])*
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() -> c_int {
                naked_asm!(
                    // 216 bytes below the return address keep the stack aligned to 16: 176 of registers, 24 of the list.
                    "sub rsp, 216",
                    "mov [rsp], rdi",
                    "mov [rsp + 8], rsi",
                    "mov [rsp + 16], rdx",
                    "mov [rsp + 24], rcx",
                    "mov [rsp + 32], r8",
                    "mov [rsp + 40], r9",
                    "test al, al",
                    "je 2f",
                    "movaps [rsp + 48], xmm0",
                    "movaps [rsp + 64], xmm1",
                    "movaps [rsp + 80], xmm2",
                    "movaps [rsp + 96], xmm3",
                    "movaps [rsp + 112], xmm4",
                    "movaps [rsp + 128], xmm5",
                    "movaps [rsp + 144], xmm6",
                    "movaps [rsp + 160], xmm7",
                    "2:",
                    "mov dword ptr [rsp + 176], {named}",
                    "mov dword ptr [rsp + 180], 48",
                    "lea rax, [rsp + 224]",
                    "mov [rsp + 184], rax",
                    "mov [rsp + 192], rsp",
                    concat!("lea ", $list, ", [rsp + 176]"),
                    "call {call}",
                    "add rsp, 216",
                    "ret",
                    named = const $named,
                    call = sym $call,
                )
            }
        };
    }

    listed! {
        /// dprintf(3): two named arguments, 16 bytes of them.
        dprintf, 16, "rdx", vdprintf
    }
    listed! {
        /// dprintf(3) where the compiler checks the format: three named ones.
        __dprintf_chk, 24, "rcx", __vdprintf_chk
    }
}
