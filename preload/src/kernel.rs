//! `Kernel` over the next libc definitions.

use crate::c::{checked, checked_size};
use crate::{real, signals};
use libc::{c_int, c_long, c_void, sigset_t, socklen_t, timespec};
use ringway_posix::fallback::{Fd, Identity, Kernel, OnExec, RawAddress, SignalMask, words_of_epoll};
use ringway_posix::{Answer, Errno};
use ringway_shm::system_call::system_call;
use ringway_shm::{Duration, Instant, PayloadMut};
use std::io::{IoSlice, IoSliceMut};

/// The real thing.
pub(crate) struct LibcKernel;

// Each block below calls a libc function with pointers made from references that outlive the call.
impl Kernel for LibcKernel {
    fn socket(&self, domain: i32, kind: i32, protocol: i32) -> Answer<Fd> {
        // SAFETY: plain numbers.
        checked(unsafe { real::socket(domain, kind, protocol) })
    }

    fn bind(&self, fd: Fd, address: &[u8]) -> Answer<()> {
        // SAFETY: `address` is valid for its length.
        checked(unsafe { real::bind(fd, address.as_ptr().cast(), address.len() as socklen_t) }).map(drop)
    }

    fn connect(&self, fd: Fd, address: &[u8]) -> Answer<()> {
        // SAFETY: `address` is valid for its length.
        checked(unsafe { real::connect(fd, address.as_ptr().cast(), address.len() as socklen_t) }).map(drop)
    }

    fn listen(&self, fd: Fd, backlog: i32) -> Answer<()> {
        // SAFETY: plain numbers.
        checked(unsafe { real::listen(fd, backlog) }).map(drop)
    }

    fn accept4(&self, fd: Fd, flags: i32) -> Answer<(Fd, RawAddress)> {
        let mut name = RawAddress { bytes: [0; 128], len: 0 };
        let mut len = name.bytes.len() as socklen_t;
        // SAFETY: `name.bytes` has `len` bytes.
        let new = checked(unsafe { real::accept4(fd, name.bytes.as_mut_ptr().cast(), &raw mut len, flags) })?;
        name.len = len as usize;
        Ok((new, name))
    }

    fn shutdown(&self, fd: Fd, how: i32) -> Answer<()> {
        // SAFETY: plain numbers.
        checked(unsafe { real::shutdown(fd, how) }).map(drop)
    }

    fn is_connected(&self, fd: Fd) -> bool {
        let mut len = 0;
        // SAFETY: no byte of the name is asked for.
        unsafe { real::getpeername(fd, std::ptr::null_mut(), &mut len) == 0 }
    }

    fn local_address(&self, fd: Fd) -> Answer<RawAddress> {
        let mut name = RawAddress { bytes: [0; 128], len: 0 };
        let mut len = name.bytes.len() as socklen_t;
        // SAFETY: `name.bytes` has `len` bytes.
        checked(unsafe { real::getsockname(fd, name.bytes.as_mut_ptr().cast(), &raw mut len) })?;
        name.len = len as usize;
        Ok(name)
    }

    fn set_option(&self, fd: Fd, level: i32, name: i32, value: &[u8]) -> Answer<()> {
        // SAFETY: `value` is valid for its length.
        checked(unsafe { real::setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as socklen_t) }).map(drop)
    }

    fn option(&self, fd: Fd, level: i32, name: i32, value: &mut [u8]) -> Answer<usize> {
        let mut len = value.len() as socklen_t;
        // SAFETY: `value` has `len` bytes.
        checked(unsafe { real::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) })?;
        Ok(len as usize)
    }

    fn close(&self, fd: Fd) -> Answer<()> {
        // SAFETY: a plain number; the table says which side it belongs to.
        checked(unsafe { real::close(fd) }).map(drop)
    }

    fn duplicate(&self, fd: Fd, minimum: Fd, on_exec: OnExec) -> Answer<Fd> {
        let command = if on_exec == OnExec::Close { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
        // SAFETY: plain numbers. A negative minimum stays one: the kernel says EINVAL.
        checked(unsafe { real::fcntl(fd, command, minimum as libc::c_ulong) })
    }

    fn duplicate_to(&self, old: Fd, new: Fd, on_exec: OnExec) -> Answer<Fd> {
        // SAFETY: plain numbers.
        checked(unsafe { real::dup3(old, new, if on_exec == OnExec::Close { libc::O_CLOEXEC } else { 0 }) })
    }

    fn descriptor_flags(&self, fd: Fd) -> Answer<i32> {
        // SAFETY: plain numbers.
        checked(unsafe { real::fcntl(fd, libc::F_GETFD, 0) })
    }

    fn status_flags(&self, fd: Fd) -> Answer<i32> {
        // SAFETY: plain numbers.
        checked(unsafe { real::fcntl(fd, libc::F_GETFL, 0) })
    }

    fn set_status_flags(&self, fd: Fd, flags: i32) -> Answer<()> {
        // SAFETY: plain numbers.
        checked(unsafe { real::fcntl(fd, libc::F_SETFL, flags as libc::c_ulong) }).map(drop)
    }

    fn set_owner(&self, fd: Fd, process: u32) -> Answer<()> {
        // SAFETY: plain numbers.
        checked(unsafe { real::fcntl(fd, libc::F_SETOWN, process.into()) }).map(drop)
    }

    fn identity(&self, fd: Fd) -> Answer<Identity> {
        let mut file = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: `file` is room for one stat; this library does not export fstat.
        checked(unsafe { libc::fstat(fd, file.as_mut_ptr()) })?;
        // SAFETY: fstat has filled it.
        let file = unsafe { file.assume_init() };
        Ok(Identity { device: file.st_dev, inode: file.st_ino, kind: file.st_mode })
    }

    fn for_each_descriptor(&self, visit: &mut dyn FnMut(Fd)) -> Answer<()> {
        // Every program that starts does this: none of it takes memory, unless there are many.
        if FEW.iter().any(|limit| visit_few(*limit, visit)) {
            return Ok(());
        }
        // opendir(3) would take 32 KiB of the heap.
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: a C string.
        let directory = checked(unsafe { libc::openat(libc::AT_FDCWD, c"/proc/self/fd".as_ptr(), flags) })?;
        let (mut found, mut entries) = (Vec::new(), [0_u8; 2_048]);
        let end = loop {
            // SAFETY: `entries` is room for so many bytes.
            let count = unsafe { libc::syscall(libc::SYS_getdents64, directory, entries.as_mut_ptr(), entries.len()) };
            match checked_size(count as libc::ssize_t) {
                Ok(0) => break Ok(()),
                Ok(count) => found.extend(numbers(&entries[..count]).filter(|&fd| fd != directory)),
                Err(error) => break Err(error),
            }
        };
        self.close(directory)?;
        end?;
        found.into_iter().for_each(visit);
        Ok(())
    }

    fn descriptor_limit(&self) -> u64 {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is room for one rlimit.
        match checked(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }) {
            Ok(_) => limit.rlim_cur,
            Err(_) => 1024,
        }
    }

    fn read(&self, fd: Fd, pieces: &mut [IoSliceMut<'_>]) -> Answer<usize> {
        // SAFETY: IoSliceMut has the layout of iovec.
        checked_size(unsafe { real::readv(fd, pieces.as_ptr().cast(), pieces.len() as c_int) })
    }

    fn write(&self, fd: Fd, pieces: &[IoSlice<'_>]) -> Answer<usize> {
        // SAFETY: IoSlice has the layout of iovec.
        checked_size(unsafe { real::writev(fd, pieces.as_ptr().cast(), pieces.len() as c_int) })
    }

    fn read_at(&self, fd: Fd, mut bytes: PayloadMut<'_>, offset: i64) -> Answer<usize> {
        // SAFETY: `bytes` may be written for its length.
        checked_size(unsafe { real::pread(fd, bytes.as_mut_ptr().cast(), bytes.len(), offset) })
    }

    fn seek_by(&self, fd: Fd, distance: i64) -> Answer<i64> {
        // SAFETY: plain numbers; this library does not export lseek.
        let position = unsafe { libc::lseek(fd, distance, libc::SEEK_CUR) };
        if position < 0 { Err(crate::c::errno()) } else { Ok(position) }
    }

    fn bytes_readable(&self, fd: Fd) -> Answer<i32> {
        let mut count: c_int = 0;
        // SAFETY: FIONREAD writes one int.
        checked(unsafe { real::ioctl(fd, libc::FIONREAD, (&raw mut count) as libc::c_ulong) })?;
        Ok(count)
    }

    fn poll(&self, set: &mut [libc::pollfd], timeout: Option<Duration>, mask: Option<SignalMask>) -> Answer<usize> {
        let timeout = timeout.map(time_of);
        let mask = mask.map(set_of);
        let (timeout, mask) = (pointer(timeout.as_ref()), pointer(mask.as_ref()));
        // SAFETY: `set` is valid for its length; the two others are null or point at values that outlive the call.
        checked(unsafe { real::ppoll(set.as_mut_ptr(), set.len() as libc::nfds_t, timeout, mask) }).map(|count| count as usize)
    }

    fn event_counter(&self) -> Answer<Fd> {
        // SAFETY: plain numbers.
        checked(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })
    }

    fn raise_event(&self, fd: Fd) {
        let one: u64 = 1;
        // SAFETY: eight bytes from a local. A full counter is as good as one more.
        unsafe { real::write(fd, (&raw const one).cast::<c_void>(), 8) };
    }

    fn epoll_create(&self, flags: i32) -> Answer<Fd> {
        // SAFETY: plain numbers.
        checked(unsafe { real::epoll_create1(flags) })
    }

    fn epoll_control(&self, epoll: Fd, operation: i32, fd: Fd, event: Option<libc::epoll_event>) -> Answer<()> {
        let mut event = event;
        let pointer = event.as_mut().map_or(std::ptr::null_mut(), |event| event as *mut _);
        // SAFETY: null (for DEL) or a local that outlives the call.
        checked(unsafe { real::epoll_ctl(epoll, operation, fd, pointer) }).map(drop)
    }

    fn epoll_wait(
        &self,
        epoll: Fd,
        events: &mut [libc::epoll_event],
        timeout: Option<Duration>,
        mask: Option<SignalMask>,
    ) -> Answer<usize> {
        let (room, mask) = (events.len() as c_int, mask.map(set_of));
        let mask = pointer(mask.as_ref());
        let whole_ms = match timeout {
            None => Some(-1),
            Some(timeout) if timeout.as_nanos() % 1_000_000 == 0 => c_int::try_from(timeout.as_nanos() / 1_000_000).ok(),
            Some(_) => None,
        };
        let count = match whole_ms {
            // SAFETY: `events` has `room` entries; `mask` is null or a local.
            Some(ms) => unsafe { real::epoll_pwait(epoll, events.as_mut_ptr(), room, ms, mask) },
            None => {
                let time = timeout.map(time_of);
                // SAFETY: as above; `time` is a local.
                match unsafe { real::epoll_pwait2(epoll, events.as_mut_ptr(), room, pointer(time.as_ref()), mask) } {
                    // Linux before 5.11, and processes that filter system calls by a list from then.
                    // SAFETY: as above.
                    -1 if crate::c::errno().0 == libc::ENOSYS => unsafe {
                        real::epoll_pwait(epoll, events.as_mut_ptr(), room, timeout.map_or(-1, millis_up), mask)
                    },
                    count => count,
                }
            }
        };
        checked(count).map(|count| count as usize)
    }

    fn watched_words(&self, epoll: Fd) -> Answer<Vec<u64>> {
        let told = std::fs::read_to_string(format!("/proc/self/fdinfo/{epoll}"));
        let told = told.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
        Ok(words_of_epoll(&told))
    }

    fn now(&self) -> Instant {
        let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is room for one timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    fn wall_clock(&self) -> Duration {
        let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is room for one timespec.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
        Duration::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    fn yield_now(&self) {
        std::thread::yield_now();
    }

    fn pause(&self, span: Duration) {
        let time = time_of(span);
        // SAFETY: a local; the rest of an interrupted sleep is not wanted.
        unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
    }

    fn has_other_threads(&self) -> bool {
        std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.take(2).count() > 1)
    }

    fn process_id(&self) -> u32 {
        // SAFETY: no arguments. Not libc's: a child of fork begins without its pages.
        unsafe { system_call(libc::SYS_getpid, [0; 6]) as u32 }
    }

    fn raise_broken_pipe(&self) {
        // SAFETY: plain number; goes to the calling thread.
        unsafe { libc::raise(libc::SIGPIPE) };
    }

    fn restarts_after_signal(&self) -> bool {
        signals::all_restart()
    }

    fn say(&self, line: &str) {
        crate::stderr::say([line.as_bytes(), b"\n"]);
    }
}

fn pointer<T>(value: Option<&T>) -> *const T {
    value.map_or(std::ptr::null(), |value| value as *const T)
}

fn time_of(span: Duration) -> timespec {
    let nanos = span.as_nanos();
    timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

/// Whole milliseconds, not fewer than `span`.
fn millis_up(span: Duration) -> c_int {
    c_int::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
}

/// A C signal set with the kernel's 64 bits.
fn set_of(mask: SignalMask) -> sigset_t {
    // SAFETY: sigset_t is an array of integers; all zero is the empty set.
    let mut set: sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: sigset_t is at least eight bytes; its first word holds the kernel's signals 1 to 64.
    unsafe { (&raw mut set).cast::<u64>().write_unaligned(mask.0) };
    set
}

/// The kernel's 64 bits of a C signal set.
///
/// # Safety
/// `set` is null or valid.
pub(crate) unsafe fn mask_of(set: *const sigset_t) -> Option<SignalMask> {
    // SAFETY: not null, and at least eight bytes.
    (!set.is_null()).then(|| SignalMask(unsafe { set.cast::<u64>().read_unaligned() }))
}

/// Sizes of a table of descriptors that is small: it costs less to ask for each number than to list them. Linux begins with the first.
const FEW: [usize; 2] = [64, 256];

/// Visits the open descriptors of a process whose table has no more than `limit` places, in two system calls and without a file of
/// proc(5). False, without a visit: it has a larger one, or the kernel does not say. `limit`: one of [`FEW`].
///
/// select(2) takes no notice of a number beyond the table (its man page, BUGS), and says EBADF of one in the table that is not open.
fn visit_few(limit: usize, visit: &mut dyn FnMut(Fd)) -> bool {
    const MAX: usize = FEW[FEW.len() - 1];
    const WORD_BITS: usize = libc::c_ulong::BITS as usize;
    let mut set: [libc::pollfd; MAX + 1] = std::array::from_fn(|fd| libc::pollfd { fd: fd as Fd, events: 0, revents: 0 });
    // The kernel writes what is left of it.
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `set` has more entries.
    let polled = unsafe {
        system_call(libc::SYS_ppoll, [set.as_mut_ptr() as c_long, limit as c_long + 1, (&raw mut now) as c_long, 0, 0, 0])
    };
    let is_open = |entry: &libc::pollfd| entry.revents & libc::POLLNVAL == 0;
    if polled < 0 || is_open(&set[limit]) {
        return false;
    }
    let mut beyond: [libc::c_ulong; MAX / WORD_BITS + 1] = [0; MAX / WORD_BITS + 1];
    beyond[limit / WORD_BITS] = 1;
    let wanted = beyond.as_mut_ptr() as c_long;
    // SAFETY: the set has room for so many numbers.
    let selected = unsafe { system_call(libc::SYS_pselect6, [limit as c_long + 1, wanted, 0, 0, (&raw mut now) as c_long, 0]) };
    if selected == 0 {
        set[..limit].iter().filter(|entry| is_open(entry)).for_each(|entry| visit(entry.fd));
    }
    selected == 0
}

/// The names of directory entries that are numbers (getdents64(2), struct linux_dirent64).
fn numbers(mut entries: &[u8]) -> impl Iterator<Item = Fd> {
    const LENGTH: std::ops::Range<usize> = 16..18;
    const NAME: usize = 19;
    std::iter::from_fn(move || {
        let length = u16::from_ne_bytes(entries.get(LENGTH)?.try_into().ok()?).into();
        let entry = entries.get(..length)?;
        entries = &entries[length..];
        let name = entry.get(NAME..)?;
        Some(std::str::from_utf8(name.split(|&byte| byte == 0).next()?).ok().and_then(|name| name.parse().ok()))
    })
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::{FEW, LibcKernel, numbers, visit_few};
    use ringway_posix::fallback::{Kernel, OnExec};

    /// An entry as the kernel writes it.
    fn entry(name: &str) -> Vec<u8> {
        let length = (19 + name.len() + 1).next_multiple_of(8);
        let mut entry = vec![0; length];
        entry[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
        entry[19..19 + name.len()].copy_from_slice(name.as_bytes());
        entry
    }

    /// Other tests of this process open and close descriptors meanwhile, with the lowest numbers.
    #[test]
    fn a_descriptor_is_found_in_a_table_of_any_size() {
        for minimum in FEW.map(|limit| limit as i32 - 20).into_iter().chain([1_000]) {
            let fd = LibcKernel.duplicate(0, minimum, OnExec::Close).expect("a number is free");
            let open = LibcKernel.open_descriptors().expect("they are listed");
            assert!(open.contains(&fd), "{fd}: {open:?}");
            let beyond = FEW.into_iter().filter(|limit| *limit <= fd as usize);
            beyond.for_each(|limit| assert!(!visit_few(limit, &mut |_| panic!("of {limit}, beside {fd}"))));
            LibcKernel.close(fd).expect("it is open");
        }
        let fd = LibcKernel.duplicate(0, 1_000, OnExec::Close).expect("a number is free");
        LibcKernel.close(fd).expect("it is open");
        assert!(!LibcKernel.open_descriptors().expect("they are listed").contains(&fd), "{fd} is closed");
    }

    #[test]
    fn descriptors_are_read_from_what_the_kernel_lists() {
        let listed =
            |names: &[&str]| numbers(&names.iter().flat_map(|name| entry(name)).collect::<Vec<u8>>()).collect::<Vec<_>>();
        assert_eq!(listed(&[".", "..", "0", "1", "17", "16256"]), [0, 1, 17, 16_256]);
        assert_eq!(listed(&[]), []);
        assert_eq!(numbers(&[0; 40]).count(), 0, "an entry of no length ends the list");
        assert_eq!(numbers(&entry("5")[..20]).count(), 0);
    }
}
