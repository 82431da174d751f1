//! execl, execlp, execle: the forms of exec that take their arguments one by one, until a null pointer.
//!
//! Rust cannot define a function with any number of arguments, so a few instructions save the registers in which the
//! first of them came and say where the others lie. Read the System V ABI for x86-64, §3.2.3 first. Elsewhere libc's own
//! definitions serve; then a socket passed on by these three is found only if it was named before.

use crate::process::{execve, execvpe, own_environment};
use crate::real::Strings;
use libc::{c_char, c_int};
use std::arch::naked_asm;

/// Which of the three was called.
const EXECL: usize = 0;
const EXECLP: usize = 1;
const EXECLE: usize = 2;
/// Arguments behind the path that come in registers.
const IN_REGISTERS: usize = 5;

macro_rules! listed {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> c_int {
            naked_asm!(
                // 56 bytes below the return address keep the stack aligned to 16 for the call.
                "sub rsp, 56",
                "mov [rsp], rsi",
                "mov [rsp + 8], rdx",
                "mov [rsp + 16], rcx",
                "mov [rsp + 24], r8",
                "mov [rsp + 32], r9",
                "mov rsi, rsp",
                "lea rdx, [rsp + 64]",
                "mov ecx, {kind}",
                "call {call}",
                "add rsp, 56",
                "ret",
                kind = const $kind,
                call = sym call,
            )
        }
    };
}

listed! {
    /// execl(3).
    execl, EXECL
}
listed! {
    /// execlp(3).
    execlp, EXECLP
}
listed! {
    /// execle(3).
    execle, EXECLE
}

/// # Safety
/// `registers` are the arguments behind `path` that came in registers, `stack` the further ones; a null pointer is among
/// them, and for `EXECLE` the environment follows it.
unsafe extern "C" fn call(path: *const c_char, registers: Strings, stack: Strings, kind: usize) -> c_int {
    let at = |index: usize| match index.checked_sub(IN_REGISTERS) {
        // SAFETY: asked for only up to the null pointer, and one further for `EXECLE`.
        None => unsafe { *registers.add(index) },
        // SAFETY: as above.
        Some(index) => unsafe { *stack.add(index) },
    };
    let mut arguments: Vec<*const c_char> = Vec::new();
    loop {
        let argument = at(arguments.len());
        arguments.push(argument);
        if argument.is_null() {
            break;
        }
    }
    let environment = if kind == EXECLE { at(arguments.len()).cast() } else { own_environment() };
    if kind == EXECLP {
        // SAFETY: the program's own call; `arguments` ends with a null pointer.
        return unsafe { execvpe(path, arguments.as_ptr(), environment) };
    }
    // SAFETY: as above.
    unsafe { execve(path, arguments.as_ptr(), environment) }
}
