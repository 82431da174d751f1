//! Which kernel sockets have an option for which they must stay the kernel's.
//!
//! Promises: a mark belongs to the socket, not to a number: it is found by the kernel's cookie (SO_COOKIE), which no other
//! socket ever has, so it holds for duplicates and in a child, and goes with its socket. No lock, no allocation but the first:
//! any thread, any signal handler. Does not do: pass marks on to the program that exec or SCM_RIGHTS gives the socket to; that one
//! asks the kernel for what can be read (`table::readable`). The oldest of more than `MARKS` marks is forgotten; its socket has been
//! connected or listens by then.

use super::table::{self, Known};
use super::{congestion_of, is_congestion};
use crate::Posix;
use crate::fallback::Fd;
use crate::options::table::Rule;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A cookie in the upper 48 bits, what is marked in the lower 16; zero: free.
#[derive(Default)]
pub(crate) struct Marks {
    words: OnceLock<Box<[AtomicU64]>>,
    /// How many were ever made.
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
        let words = self.words.get_or_init(|| (0..MARKS).map(|_| AtomicU64::new(0)).collect());
        let place = self.made.fetch_add(1, Ordering::Relaxed) % MARKS;
        words[place].store(word, Ordering::Release);
    }

    fn unset(&self, cookie: u64, code: u16) {
        let word = word(cookie, code);
        for known in self.words() {
            // Another word there is another's.
            known.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed).ok();
        }
    }

    /// What the socket is marked with.
    fn of(&self, cookie: u64) -> impl Iterator<Item = u16> {
        let known = self.words().iter().map(|known| known.load(Ordering::Acquire));
        known.filter(move |word| *word != 0 && word >> 16 == cookie).map(|word| word as u16)
    }
}

impl Posix {
    /// The program has set this option on a kernel socket.
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

    /// The socket comes from another program, which may have set what this one has not seen.
    pub(crate) fn mark_stranger(&self, fd: Fd) {
        if let Some(cookie) = self.cookie(fd) {
            self.marks.set(cookie, STRANGER);
        }
    }

    /// Does it come from another program?
    pub(crate) fn is_stranger(&self, fd: Fd) -> bool {
        !self.marks.is_empty() && self.cookie(fd).is_some_and(|cookie| self.marks.of(cookie).any(|code| code == STRANGER))
    }

    /// The option for which the kernel must keep the socket, if it has one. `rule`: of a stream, or of a datagram socket.
    pub(crate) fn kernels_option(&self, fd: Fd, rule: fn(Known) -> Rule) -> Option<&'static str> {
        if self.marks.is_empty() {
            return None;
        }
        let cookie = self.cookie(fd)?;
        let is_kernels = |option: &Known| matches!(rule(*option), Rule::Kernels { .. }) || *option == congestion();
        let mut marked = self.marks.of(cookie).filter(|code| *code != STRANGER).map(Known::of_code);
        if let Some(option) = marked.find(is_kernels) {
            return Some(option.name());
        }
        if let Some(code) = self.marks.of(ALL_GROUPS).next()
            && self.kernel_number(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT) == Some(1)
        {
            return Some(Known::of_code(code).name());
        }
        if !self.is_stranger(fd) {
            return None;
        }
        let is_set = |&(level, name, option): &(i32, i32, Known)| {
            let mut bytes = [0; 64];
            let len = self.kernel.option(fd, level, name, &mut bytes).unwrap_or(0);
            len > 0 && rule(option).claims(&bytes[..len.min(64)])
        };
        table::readable().find(is_set).map(|(_, _, option)| option.name())
    }

    /// Names the option where the line that says what becomes of the socket names its address.
    pub(crate) fn say_option(&self, name: &str) {
        if self.settings.log_fallback {
            self.kernel.say(&format!("ringway: an option that the kernel serves: {name}"));
        }
    }

    fn cookie(&self, fd: Fd) -> Option<u64> {
        let mut bytes = [0; 8];
        let len = self.kernel.option(fd, libc::SOL_SOCKET, SO_COOKIE, &mut bytes).ok()?;
        (len == 8).then(|| u64::from_ne_bytes(bytes) & COOKIE_MASK)
    }
}

/// One socket's program chooses for all that share its port.
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
/// A kernel counts sockets from one.
const COOKIE_MASK: u64 = (1 << 48) - 1;
/// No socket has this cookie: all that share a port with others (SO_REUSEPORT), since one of this process has a program.
const ALL_GROUPS: u64 = 0;
/// No option has this code.
const STRANGER: u16 = 0xfffe;
/// As many marks a process remembers.
const MARKS: usize = 16_384;
