//! The unwinder (libgcc_s) is loaded when something unwinds, instead of with each program that starts.
//!
//! Rust's runtime names twelve functions of it. Linked as usual, they make the loader map, bind and run the constructors of
//! `libgcc_s.so.1` in every child; those ask with `cpuid` what the processor can do, which leaves a virtual machine each time. So the eleven
//! names are defined here, hidden from the program, and each jumps to the function of the program's own `libgcc_s`: the one that glibc loads
//! for a cancelled thread too, so that there is one unwinder and one state. A further name would bring the library back;
//! `run::a_child_without_sockets_costs_little` tells.
//!
//! A jump, and not a call, since some of the functions look at the caller's registers and return address.

use libc::{c_char, c_void};
use std::arch::global_asm;
use std::sync::atomic::{AtomicPtr, Ordering};

const LIBRARY: &std::ffi::CStr = c"libgcc_s.so.1";

macro_rules! unwinder {
    ($($name:literal),*) => {
        const NAMES: &[&std::ffi::CStr] = &[$(match std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!(),
        }),*];

        static FOUND: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES.len()];

        unwinder!(@define 0; $($name,)*);
    };
    (@define $number:expr;) => {};
    (@define $number:expr; $name:literal, $($rest:literal,)*) => {
        global_asm!(
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            // No function of the twelve has more than three arguments. Three words below the return address keep the stack aligned.
            "push rdi",
            "push rsi",
            "push rdx",
            "mov edi, {number}",
            "call {find}",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "jmp rax",
            concat!(".size ", $name, ", . - ", $name),
            number = const $number,
            find = sym find,
        );
        unwinder!(@define $number + 1; $($rest,)*);
    };
}

unwinder!(
    "_Unwind_Backtrace",
    "_Unwind_DeleteException",
    "_Unwind_GetDataRelBase",
    "_Unwind_GetIP",
    "_Unwind_GetIPInfo",
    "_Unwind_GetLanguageSpecificData",
    "_Unwind_GetRegionStart",
    "_Unwind_GetTextRelBase",
    "_Unwind_RaiseException",
    "_Unwind_Resume",
    "_Unwind_SetGR",
    "_Unwind_SetIP"
);

/// The address of a function of the unwinder. Without one nothing can unwind: the program ends.
extern "C" fn find(number: usize) -> *mut c_void {
    let known = FOUND[number].load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: C strings. glibc has the library already where a thread was cancelled; else it is loaded now, for good.
    let address = unsafe { libc::dlsym(libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW), NAMES[number].as_ptr()) };
    if address.is_null() {
        say_missing();
    }
    FOUND[number].store(address, Ordering::Relaxed);
    address
}

#[cold]
fn say_missing() -> ! {
    let line = b"ringway: libgcc_s.so.1 cannot be loaded\n";
    // SAFETY: a constant; nothing of Rust's runtime, which may be what unwinds.
    unsafe {
        crate::real::write(libc::STDERR_FILENO, line.as_ptr().cast::<c_char>().cast(), line.len());
        libc::abort()
    }
}
