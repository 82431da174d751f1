//! A system call as the kernel has it: past libc, and so past whoever stands in front of libc's functions.
//!
//! The preload library covers libc's symbols, `syscall` among them; what this crate does with descriptors of its own inside
//! that library must not come back to it. On machines without a convention here it is libc's `syscall`, which nobody covers there.

use libc::c_long;

/// The kernel's answer to system call `number`; an error is a negative errno. Arguments that the call does not have are not read.
///
/// # Safety
/// What the system call asks for: pointers among the arguments are valid for what it does with them.
#[cfg(target_arch = "x86_64")]
#[inline]
pub unsafe fn system_call(number: c_long, arguments: [c_long; 6]) -> c_long {
    let [a, b, c, d, e, f] = arguments;
    let answer;
    // SAFETY: the calling convention of Linux on x86-64 (syscall(2), table 1); the rest is the caller's promise.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// The kernel's answer to system call `number`; an error is a negative errno. Arguments that the call does not have are not read.
///
/// # Safety
/// What the system call asks for: pointers among the arguments are valid for what it does with them.
#[cfg(target_arch = "aarch64")]
#[inline]
pub unsafe fn system_call(number: c_long, arguments: [c_long; 6]) -> c_long {
    let [a, b, c, d, e, f] = arguments;
    let answer;
    // SAFETY: the calling convention of Linux on AArch64 (syscall(2), table 1); the rest is the caller's promise.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number, inlateout("x0") a => answer,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    answer
}

/// The kernel's answer to system call `number`; an error is a negative errno. Arguments that the call does not have are not read.
///
/// # Safety
/// What the system call asks for: pointers among the arguments are valid for what it does with them.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub unsafe fn system_call(number: c_long, arguments: [c_long; 6]) -> c_long {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller's promise.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    let error = || std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    if answer < 0 { -c_long::from(error()) } else { answer }
}
