//! Kernel sockets with an option for which they must stay the kernel's.
//!
//! Promises: a mark belongs to the socket, not to a number. It is found by the kernel's cookie (SO_COOKIE), which no
//! other socket ever has, so it holds for duplicates and in a child, and ends with its socket. No lock, one allocation:
//! any thread and any signal handler may use it. Does not do: passing marks to a program that gets the socket by exec
//! or SCM_RIGHTS; that program asks the kernel for readable options (`table::readable`). Beyond `MARKS` marks the
//! oldest is forgotten; its socket is connected or listens by then.

use super::table::{self, Known};
use super::{congestion_of, is_congestion};
use crate::Posix;
use crate::fallback::Fd;
use crate::first_use::{FirstUse, boxed};
use crate::options::table::Rule;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A cookie in the upper 48 bits, an option's code in the lower 16; zero: free.
#[derive(Default)]
pub(crate) struct Marks {
    words: FirstUse<[AtomicU64; MARKS]>,
    /// Number of marks ever made.
    made: AtomicUsize,
}

impl Marks {
    fn is_empty(&self) -> bool {
        self.made.load(Ordering::Relaxed) == 0
    }

    fn words(&self) -> &[AtomicU64] {
        let made = self.made.load(Ordering::Relaxed).min(MARKS);
        self.words.get().map_or(&[], |words| &words[..made])
    }

    fn set(&self, cookie: u64, code: u16) {
        let word = word(cookie, code);
        if self.words().iter().any(|known| known.load(Ordering::Relaxed) == word) {
            return;
        }
        let words = self.words.get_or_init(|| boxed(|| AtomicU64::new(0)));
        let place = self.made.fetch_add(1, Ordering::Relaxed) % MARKS;
        words[place].store(word, Ordering::Release);
    }

    fn unset(&self, cookie: u64, code: u16) {
        let word = word(cookie, code);
        for known in self.words() {
            // A different word is another mark.
            known.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed).ok();
        }
    }

    /// Codes with which the socket is marked.
    fn of(&self, cookie: u64) -> impl Iterator<Item = u16> {
        let known = self.words().iter().map(|known| known.load(Ordering::Acquire));
        known.filter(move |word| *word != 0 && word >> 16 == cookie).map(|word| word as u16)
    }
}

impl Posix {
    /// Updates the marks after the program has set this option on a kernel socket.
    pub(crate) fn mark_option(&self, fd: Fd, level: i32, name: i32, value: &[u8]) {
        let Some(option) = table::find(level, name) else { return };
        let is_kernels = |rule| matches!(rule, Rule::Kernels { .. });
        let claims = if is_congestion(level, name) {
            congestion_of(value).is_none()
        } else if is_kernels(option.stream()) || is_kernels(option.datagram()) {
            option.stream().claims(value) || option.datagram().claims(value)
        } else {
            return;
        };
        if !claims && self.marks.is_empty() {
            return;
        }
        let Some(cookie) = self.cookie(fd) else { return };
        if claims {
            self.marks.set(cookie, option.code());
            if is_group_program(level, name) {
                self.marks.set(ALL_GROUPS, option.code());
            }
        } else {
            self.marks.unset(cookie, option.code());
        }
    }

    /// Marks a socket that the stack has handed over, and which it does not take again.
    pub(crate) fn keep_with_kernel(&self, fd: Fd) {
        if let Some(cookie) = self.cookie(fd) {
            self.marks.set(cookie, HANDED_OVER);
        }
    }

    /// Returns true for a socket that is the kernel's because the stack has handed it over.
    pub(crate) fn was_handed_over(&self, fd: Fd) -> bool {
        !self.marks.is_empty() && self.cookie(fd).is_some_and(|cookie| self.marks.of(cookie).any(|code| code == HANDED_OVER))
    }

    /// Marks a socket from another program, which may have set options unknown to this one.
    pub(crate) fn mark_foreign(&self, fd: Fd) {
        if let Some(cookie) = self.cookie(fd) {
            self.marks.set(cookie, FOREIGN);
        }
    }

    /// Returns true for a socket from another program.
    pub(crate) fn is_foreign(&self, fd: Fd) -> bool {
        !self.marks.is_empty() && self.cookie(fd).is_some_and(|cookie| self.marks.of(cookie).any(|code| code == FOREIGN))
    }

    /// The option, if any, for which the kernel must keep the socket. `rule`: that of a stream, or of a datagram
    /// socket.
    pub(crate) fn kernels_option(&self, fd: Fd, rule: fn(Known) -> Rule) -> Option<&'static str> {
        if self.marks.is_empty() {
            return None;
        }
        let cookie = self.cookie(fd)?;
        let is_kernels = |option: &Known| matches!(rule(*option), Rule::Kernels { .. }) || *option == congestion();
        let mut marked = self.marks.of(cookie).filter(|code| !matches!(*code, FOREIGN | HANDED_OVER)).map(Known::of_code);
        if let Some(option) = marked.find(is_kernels) {
            return Some(option.name());
        }
        if let Some(code) = self.marks.of(ALL_GROUPS).next()
            && self.kernel_number(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT) == Some(1)
        {
            return Some(Known::of_code(code).name());
        }
        if !self.is_foreign(fd) {
            return None;
        }
        let is_set = |&(level, name, option): &(i32, i32, Known)| {
            let mut bytes = [0; 64];
            let len = self.kernel.option(fd, level, name, &mut bytes).unwrap_or(0);
            len > 0 && rule(option).claims(&bytes[..len.min(64)])
        };
        table::readable().find(is_set).map(|(_, _, option)| option.name())
    }

    /// Logs the option, for log lines about the socket that contain only its address.
    pub(crate) fn say_option(&self, name: &str) {
        if self.settings.log_fallback {
            self.kernel.say(&format!("ringway: option served by the kernel: {name}"));
        }
    }

    fn cookie(&self, fd: Fd) -> Option<u64> {
        let mut bytes = [0; 8];
        let len = self.kernel.option(fd, libc::SOL_SOCKET, SO_COOKIE, &mut bytes).ok()?;
        (len == 8).then(|| u64::from_ne_bytes(bytes) & COOKIE_MASK)
    }
}

/// Returns true for options by which one socket's program decides for its whole reuseport group.
fn is_group_program(level: i32, name: i32) -> bool {
    level == libc::SOL_SOCKET && matches!(name, libc::SO_ATTACH_REUSEPORT_CBPF | libc::SO_ATTACH_REUSEPORT_EBPF)
}

fn congestion() -> Known {
    table::find(libc::IPPROTO_TCP, libc::TCP_CONGESTION).expect("it is in the table")
}

fn word(cookie: u64, code: u16) -> u64 {
    cookie << 16 | u64::from(code)
}

/// asm-generic/socket.h
const SO_COOKIE: i32 = 57;
/// The kernel counts sockets from one.
const COOKIE_MASK: u64 = (1 << 48) - 1;
/// Cookie of no socket: stands for all sockets in reuseport groups, because one of this process has a program.
const ALL_GROUPS: u64 = 0;
/// No option has these codes.
const FOREIGN: u16 = 0xfffe;
const HANDED_OVER: u16 = 0xfffd;
/// Maximum number of marks of a process.
const MARKS: usize = 16_384;
