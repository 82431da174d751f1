//! syscall(2): system calls by number, for programs that make some of their calls without libc's wrappers.
//!
//! libuv closes descriptors so (Node.js), others poll, accept or send so. Each call that may concern a descriptor of ours goes
//! where its libc function goes; all others go to the kernel as they are. Does not do: numbers of other machines than those
//! below, for which the whole symbol stays libc's; system calls that a program makes with an instruction of its own.

use crate::c::{may_be_memory, said};
use crate::shim::posix;
use crate::{epoll, files, io, message, poll, process, ring, sockets};
use libc::{c_int, c_long, c_uint, c_ulong};
use ringway_shm::system_call::system_call;

/// The arguments of a system call; those behind the last that it has are of no meaning.
#[derive(Clone, Copy)]
struct Arguments([c_long; 6]);

impl Arguments {
    fn number(self, place: usize) -> c_int {
        self.0[place] as c_int
    }

    fn unsigned(self, place: usize) -> c_uint {
        self.0[place] as c_uint
    }

    fn size(self, place: usize) -> usize {
        self.0[place] as usize
    }

    fn pointer<T>(self, place: usize) -> *mut T {
        self.0[place] as *mut T
    }
}

/// syscall(2). Declared with all the arguments that a system call can have: what the caller did not pass is not read by
/// any process that was not passed it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    let arguments = Arguments([first, second, third, fourth, fifth, sixth]);
    if posix().is_some() {
        // SAFETY: the program's own call, with the arguments that the number stands for.
        let answer = unsafe {
            children(number, arguments)
                .or_else(|| descriptors(number, arguments))
                .or_else(|| bytes(number, arguments))
                .or_else(|| names(number, arguments))
                .or_else(|| waits(number, arguments))
        };
        if let Some(answer) = answer {
            return answer;
        }
    }
    // SAFETY: the program's own call.
    said(unsafe { system_call(number, arguments.0) })
}

/// Children that get a copy of the memory, which libc does not hear of: its handlers do not run (vsftpd makes them so). In a PID
/// namespace of its own a child does not know the number by which the service would watch it; it has no sockets of ours.
unsafe fn children(number: c_long, a: Arguments) -> Option<c_long> {
    let flags = match number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork => 0,
        libc::SYS_clone => a.0[0] as u64,
        // SAFETY: the program's promise: a `struct clone_args`, which begins with the flags.
        libc::SYS_clone3 if may_be_memory(a.pointer(0), size_of::<u64>()) => unsafe { *a.pointer(0) },
        _ => return None,
    };
    let posix = posix().filter(|_| flags & (libc::CLONE_VM | libc::CLONE_NEWPID) as u64 == 0)?;
    posix.before_fork();
    // SAFETY: the program's own call; the child goes on with a copy of this very stack.
    let answer = unsafe { system_call(number, a.0) };
    match answer {
        0 => posix.after_fork_in_child(),
        child => {
            posix.after_fork_in_parent(u32::try_from(child).ok());
            posix.fork_is_over();
        }
    }
    Some(said(answer))
}

/// Calls that make, double, close and pass on descriptors.
unsafe fn descriptors(number: c_long, a: Arguments) -> Option<c_long> {
    // SAFETY: the caller's arguments are those of the function of this name.
    let answer = unsafe {
        match number {
            libc::SYS_close => files::close(a.number(0)),
            libc::SYS_close_range => files::close_range(a.unsigned(0), a.unsigned(1), a.number(2)),
            libc::SYS_unshare => files::unshare(a.number(0)),
            libc::SYS_dup => files::dup(a.number(0)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => files::dup2(a.number(0), a.number(1)),
            libc::SYS_dup3 => files::dup3(a.number(0), a.number(1), a.number(2)),
            libc::SYS_fcntl => files::fcntl(a.number(0), a.number(1), a.0[2] as c_ulong),
            libc::SYS_ioctl => files::ioctl(a.number(0), a.0[1] as c_ulong, a.0[2] as c_ulong),
            libc::SYS_seccomp => {
                before_filter();
                return None;
            }
            libc::SYS_prctl => {
                process::prctl(a.number(0), a.0[1] as c_ulong, a.0[2] as c_ulong, a.0[3] as c_ulong, a.0[4] as c_ulong)
            }
            libc::SYS_io_uring_setup => ring::setup(a.unsigned(0), a.pointer(1)),
            libc::SYS_io_uring_enter => {
                ring::before_enter(a.number(0), a.unsigned(1), a.unsigned(3));
                return None;
            }
            libc::SYS_io_uring_register => {
                ring::before_register(a.number(0), a.unsigned(1), a.pointer::<libc::c_void>(2), a.unsigned(3));
                return None;
            }
            libc::SYS_execve => process::execve(a.pointer(0), a.pointer(1), a.pointer(2)),
            libc::SYS_execveat => process::execveat(a.number(0), a.pointer(1), a.pointer(2), a.pointer(3), a.number(4)),
            _ => return None,
        }
    };
    Some(c_long::from(answer))
}

/// Calls that carry bytes.
unsafe fn bytes(number: c_long, a: Arguments) -> Option<c_long> {
    // SAFETY: the caller's arguments are those of the function of this name.
    let answer = unsafe {
        match number {
            libc::SYS_read => io::read(a.number(0), a.pointer(1), a.size(2)),
            libc::SYS_write => io::write(a.number(0), a.pointer(1), a.size(2)),
            libc::SYS_readv => io::readv(a.number(0), a.pointer(1), a.number(2)),
            libc::SYS_writev => io::writev(a.number(0), a.pointer(1), a.number(2)),
            libc::SYS_recvfrom => io::recvfrom(a.number(0), a.pointer(1), a.size(2), a.number(3), a.pointer(4), a.pointer(5)),
            libc::SYS_sendto => io::sendto(a.number(0), a.pointer(1), a.size(2), a.number(3), a.pointer(4), a.unsigned(5)),
            libc::SYS_recvmsg => message::recvmsg(a.number(0), a.pointer(1), a.number(2)),
            libc::SYS_sendmsg => message::sendmsg(a.number(0), a.pointer(1), a.number(2)),
            libc::SYS_recvmmsg => message::recvmmsg(a.number(0), a.pointer(1), a.unsigned(2), a.number(3), a.pointer(4)) as isize,
            libc::SYS_sendmmsg => message::sendmmsg(a.number(0), a.pointer(1), a.unsigned(2), a.number(3)) as isize,
            libc::SYS_sendfile => io::sendfile(a.number(0), a.number(1), a.pointer(2), a.size(3)),
            libc::SYS_splice => io::splice(a.number(0), a.pointer(1), a.number(2), a.pointer(3), a.size(4), a.unsigned(5)),
            _ => return None,
        }
    };
    Some(answer as c_long)
}

/// Calls that name the ends of a socket and set its options.
unsafe fn names(number: c_long, a: Arguments) -> Option<c_long> {
    // SAFETY: the caller's arguments are those of the function of this name.
    let answer = unsafe {
        match number {
            libc::SYS_socket => sockets::socket(a.number(0), a.number(1), a.number(2)),
            libc::SYS_bind => sockets::bind(a.number(0), a.pointer(1), a.unsigned(2)),
            libc::SYS_listen => sockets::listen(a.number(0), a.number(1)),
            libc::SYS_accept => sockets::accept(a.number(0), a.pointer(1), a.pointer(2)),
            libc::SYS_accept4 => sockets::accept4(a.number(0), a.pointer(1), a.pointer(2), a.number(3)),
            libc::SYS_connect => sockets::connect(a.number(0), a.pointer(1), a.unsigned(2)),
            libc::SYS_shutdown => sockets::shutdown(a.number(0), a.number(1)),
            libc::SYS_getsockname => sockets::getsockname(a.number(0), a.pointer(1), a.pointer(2)),
            libc::SYS_getpeername => sockets::getpeername(a.number(0), a.pointer(1), a.pointer(2)),
            libc::SYS_getsockopt => sockets::getsockopt(a.number(0), a.number(1), a.number(2), a.pointer(3), a.pointer(4)),
            libc::SYS_setsockopt => sockets::setsockopt(a.number(0), a.number(1), a.number(2), a.pointer(3), a.unsigned(4)),
            _ => return None,
        }
    };
    Some(c_long::from(answer))
}

/// Calls that wait. The kernel's signal masks are eight bytes; nothing here reads more of libc's `sigset_t`.
unsafe fn waits(number: c_long, a: Arguments) -> Option<c_long> {
    // SAFETY: the caller's arguments are those of the function of this name.
    let answer = unsafe {
        match number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => poll::poll(a.pointer(0), a.0[1] as c_ulong, a.number(2)),
            libc::SYS_ppoll => poll::ppoll(a.pointer(0), a.0[1] as c_ulong, a.pointer(2), a.pointer(3)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => poll::select(a.number(0), a.pointer(1), a.pointer(2), a.pointer(3), a.pointer(4)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_create => epoll::epoll_create(a.number(0)),
            libc::SYS_epoll_create1 => epoll::epoll_create1(a.number(0)),
            libc::SYS_epoll_ctl => epoll::epoll_ctl(a.number(0), a.number(1), a.number(2), a.pointer(3)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait => epoll::epoll_wait(a.number(0), a.pointer(1), a.number(2), a.number(3)),
            libc::SYS_epoll_pwait => epoll::epoll_pwait(a.number(0), a.pointer(1), a.number(2), a.number(3), a.pointer(4)),
            libc::SYS_epoll_pwait2 => epoll::epoll_pwait2(a.number(0), a.pointer(1), a.number(2), a.pointer(3), a.pointer(4)),
            _ => return None,
        }
    };
    Some(c_long::from(answer))
}

fn before_filter() {
    if let Some(posix) = posix() {
        posix.before_filter();
    }
}
