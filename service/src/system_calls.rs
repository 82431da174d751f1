//! The system calls that the service makes; it is refused all others.
//!
//! seccomp(2) first. The list is what the threads do once they run: packets, sockets, shared memory, waiting, reading /proc,
//! loading a program for an interface that comes later, ending. Not on it, against an attacker that has taken a thread over:
//! a program (execve), a
//! process (fork, vfork, clone without CLONE_THREAD), another's memory (ptrace, process_vm_writev), mounts, namespaces,
//! modules, keys, io_uring, executable memory. What is not listed fails with ENOSYS, as on a kernel that lacks it, so that a
//! libc with a newer call takes the older one: clone3, whose flags no filter can read, becomes clone. Every
//! call costs about 80 ns more (getppid in a virtual machine: 229 and 306 ns); how long the list is does not count for calls without
//! conditions, which the kernel keeps in a bitmap (Linux 5.11). Promises: all threads of the process have it, or an error.
//! Does not do: paths; which file is opened is not the filter's to see.

use std::collections::BTreeMap;
use std::io;

use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};

use crate::config::SystemCalls;

/// Allowed whatever the arguments are.
const FREE: &[libc::c_long] = &[
    // Descriptors and packets.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_lseek,
    libc::SYS_flock,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Waiting.
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_membarrier,
    // Files: /proc, the run directory, its end.
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_statx,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    // Threads and signals.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrandom,
    libc::SYS_getcpu,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_kill,
    libc::SYS_tgkill,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_pidfd_open,
];

/// The same by their older names, which other processors do not have.
#[cfg(target_arch = "x86_64")]
const FREE_OLD: &[libc::c_long] = &[
    libc::SYS_poll,
    libc::SYS_epoll_wait,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_readlink,
    libc::SYS_access,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const FREE_OLD: &[libc::c_long] = &[];

/// Allowed where an argument, by number, compares so with one of some values.
const CONDITIONAL: &[(libc::c_long, u8, SeccompCmpOp, &[u64])] = &[
    (libc::SYS_socket, 0, Eq, FAMILIES),
    (libc::SYS_ioctl, 1, Eq, REQUESTS),
    (libc::SYS_bpf, 0, Eq, BPF_COMMANDS),
    (libc::SYS_prctl, 0, Eq, &[libc::PR_SET_NAME as u64]),
    // Of this process: its number or none.
    (libc::SYS_prlimit64, 0, Eq, &[0]),
    (libc::SYS_clone, 0, MaskedEq(THREAD), &[THREAD]),
    // Nothing becomes executable.
    (libc::SYS_mmap, 2, MaskedEq(libc::PROT_EXEC as u64), &[0]),
    (libc::SYS_mprotect, 2, MaskedEq(libc::PROT_EXEC as u64), &[0]),
];

/// INET and INET6: ports that the service chooses, and questions about interfaces.
const FAMILIES: &[u64] = &[
    libc::AF_UNIX as u64,
    libc::AF_INET as u64,
    libc::AF_INET6 as u64,
    libc::AF_NETLINK as u64,
    libc::AF_PACKET as u64,
    libc::AF_XDP as u64,
];

/// Requests about an interface, and those that set up one of our own.
const REQUESTS: &[u64] = &[
    libc::SIOCGIFINDEX,
    libc::SIOCGIFMTU,
    libc::SIOCSIFMTU,
    libc::SIOCGIFHWADDR,
    libc::SIOCGIFFLAGS,
    libc::SIOCSIFFLAGS,
    libc::SIOCSIFADDR,
    libc::SIOCSIFNETMASK,
    libc::SIOCETHTOOL,
    libc::TUNSETIFF,
    libc::TUNSETOFFLOAD,
    libc::FIONBIO,
];

/// BPF_MAP_CREATE, the elements of a map, BPF_PROG_LOAD, BPF_OBJ_GET_INFO_BY_FD, BPF_PROG_QUERY, BPF_LINK_CREATE, BPF_LINK_UPDATE.
const BPF_COMMANDS: &[u64] = &[0, 1, 2, 3, 4, 5, 15, 16, 28, 29];
const THREAD: u64 = (libc::CLONE_VM | libc::CLONE_THREAD) as u64;

/// Filters the system calls of all threads of this process, from now on; with `Off` it does nothing. Those in `more` are allowed too.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn filter(choice: SystemCalls, more: &[libc::c_long]) -> io::Result<()> {
    let otherwise = match choice {
        SystemCalls::Off => return Ok(()),
        SystemCalls::Log => SeccompAction::Log,
        SystemCalls::On => SeccompAction::Errno(libc::ENOSYS as u32),
    };
    let program = program(otherwise, more).map_err(io::Error::other)?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| io::Error::other(format!("seccomp: {error}")))
}

fn program(otherwise: SeccompAction, more: &[libc::c_long]) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        FREE.iter().chain(FREE_OLD).chain(more).map(|call| (*call, Vec::new())).collect();
    for (call, argument, comparison, values) in CONDITIONAL {
        let rule = |value: &u64| {
            let condition = SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, comparison.clone(), *value)?;
            SeccompRule::new(vec![condition])
        };
        rules.insert(*call, values.iter().map(rule).collect::<Result<_, _>>()?);
    }
    SeccompFilter::new(rules, otherwise, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}

#[cfg(test)]
mod tests;
