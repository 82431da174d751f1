//! A system call as the kernel has it: past libc, and so past any library in front of libc's functions.
//!
//! The preload library covers libc's symbols, `syscall` among them; what this crate does with descriptors of its own inside
//! that library must not come back to it. On machines without a convention here it is libc's `syscall`, which is not intercepted there.

use libc::c_long;

/// The kernel's answer to system call `number`; an error is a negative errno. Arguments that the call does not have are not read.
///
/// # Safety
/// What the system call asks for: pointers among the arguments are valid for what it does with them.
#[inline]
pub unsafe fn system_call(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> c_long {
    let answer;
    // SAFETY: the calling convention of Linux on x86-64 (syscall(2), table 1); the rest is the caller's promise.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: the same on AArch64.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number, inlateout("x0") a => answer,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        // SAFETY: the caller's promise.
        let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
        let error = || std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        answer = if result < 0 { -c_long::from(error()) } else { result };
    }
    answer
}
