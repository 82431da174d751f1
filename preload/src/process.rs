//! exec and spawn keep the environment, name travelling sockets, and in strict mode start only what the library reaches; giving up rights takes first what is needed later.

use crate::c::set_errno;
use crate::environment::{Environment, Room};
use crate::reach::{self, Reach};
use crate::real::{self, Strings};
use crate::shim::posix;
use libc::{c_char, c_int, c_uint, c_ulong, c_void, pid_t, rlimit};

/// fork(2). The handlers of `shim` do the rest; only here is the child's number known to the parent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> pid_t {
    // No other thread forks until this child's number is told.
    if let Some(posix) = posix() {
        posix.announce_fork();
    }
    // SAFETY: the program's own call.
    let child = unsafe { real::fork() };
    if let (Some(posix), true) = (posix(), child != 0) {
        let error = crate::c::errno();
        posix.after_fork_in_parent(u32::try_from(child).ok());
        posix.fork_is_over();
        set_errno(error.0);
    }
    child
}

/// Runs an exec that returns only when it fails.
unsafe fn exec(environment: Strings, reach: Reach, call: impl FnOnce(Strings) -> c_int) -> c_int {
    let mut room = Room::new();
    // SAFETY: the program's promise about its environment.
    let complete = unsafe { Environment::complete(environment, reach, &mut room) };
    if let (Some(posix), Reach::Unreached | Reach::Repelled) = (posix(), reach) {
        posix.before_replaced();
    }
    let departure = posix().map(|posix| posix.before_exec()).unwrap_or_default();
    let answer = call(complete.as_ptr());
    let error = crate::c::errno();
    if let Some(posix) = posix() {
        posix.undo_exec(&departure);
    }
    set_errno(error.0);
    answer
}

pub(crate) fn own_environment() -> Strings {
    unsafe extern "C" {
        static environ: Strings;
    }
    // SAFETY: glibc's environ; exec reads it as it is now, as libc itself would.
    unsafe { environ }
}

/// execve(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: the program's own call.
    let Some(reach) = (unsafe { reach::permit(path, || reach::at(libc::AT_FDCWD, path)) }) else { return -1 };
    // SAFETY: the program's own call.
    unsafe { exec(environment, reach, |environment| real::execve(path, arguments, environment)) }
}

/// execv(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the program's own call.
    unsafe { execve(path, arguments, own_environment()) }
}

/// execvp(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the program's own call.
    unsafe { execvpe(file, arguments, own_environment()) }
}

/// execvpe(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: the program's own call.
    let Some(reach) = (unsafe { reach::permit(file, || reach::found(file)) }) else { return -1 };
    // SAFETY: the program's own call.
    unsafe { exec(environment, reach, |environment| real::execvpe(file, arguments, environment)) }
}

/// fexecve(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: a C string.
    let Some(reach) = (unsafe { reach::permit(c"fexecve".as_ptr(), || reach::behind(fd)) }) else { return -1 };
    // SAFETY: the program's own call.
    unsafe { exec(environment, reach, |environment| real::fexecve(fd, arguments, environment)) }
}

/// execveat(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    directory: c_int,
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
    flags: c_int,
) -> c_int {
    // SAFETY: the program's promise: null, or a C string.
    let is_descriptor = flags & libc::AT_EMPTY_PATH != 0 && unsafe { path.as_ref() }.is_none_or(|first| *first == 0);
    // SAFETY: the program's own call.
    let look = || if is_descriptor { reach::behind(directory) } else { unsafe { reach::at(directory, path) } };
    // SAFETY: the program's promise about its path.
    let Some(reach) = (unsafe { reach::permit(path, look) }) else { return -1 };
    // SAFETY: the program's own call.
    unsafe { exec(environment, reach, |environment| real::execveat(directory, path, arguments, environment, flags)) }
}

/// posix_spawn(3). Sockets that the child will have are named; they stay in flight until it has looked for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    child: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the program's own call.
    let Some(reach) = (unsafe { reach::permit(path, || reach::at(libc::AT_FDCWD, path)) }) else { return libc::ENETDOWN };
    // SAFETY: the program's own call.
    unsafe {
        spawn(child, environment, reach, |child, environment| {
            real::posix_spawn(child, path, actions, attributes, arguments, environment)
        })
    }
}

/// posix_spawnp(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    child: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the program's own call.
    let Some(reach) = (unsafe { reach::permit(file, || reach::found(file)) }) else { return libc::ENETDOWN };
    // SAFETY: the program's own call.
    unsafe {
        spawn(child, environment, reach, |child, environment| {
            real::posix_spawnp(child, file, actions, attributes, arguments, environment)
        })
    }
}

/// A spawn answers its error instead of setting errno, and 0 when the child runs.
unsafe fn spawn(child: *mut pid_t, environment: Strings, reach: Reach, call: impl FnOnce(*mut pid_t, Strings) -> c_int) -> c_int {
    let mut room = Room::new();
    // SAFETY: the program's promise about its environment.
    let complete = unsafe { Environment::complete(environment, reach, &mut room) };
    let departure = posix().map(|posix| posix.before_spawn()).unwrap_or_default();
    let mut number: pid_t = 0;
    let answer = call(&raw mut number, complete.as_ptr());
    if answer == 0 && !child.is_null() {
        // SAFETY: not null; the program promises that it is valid.
        unsafe { *child = number };
    }
    if let Some(posix) = posix() {
        posix.after_spawn(&departure, if answer == 0 { u32::try_from(number).ok() } else { None });
    }
    answer
}

/// system(3): libc spawns inside itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    if !command.is_null() && !may_start_shell() {
        return -1;
    }
    name_for_shell();
    // SAFETY: the program's own call.
    unsafe { real::system(command) }
}

/// popen(3): libc spawns inside itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    if !may_start_shell() {
        return std::ptr::null_mut();
    }
    name_for_shell();
    // SAFETY: the program's own call.
    unsafe { real::popen(command, mode) as *mut libc::FILE }
}

fn may_start_shell() -> bool {
    // SAFETY: a C string.
    unsafe { reach::permit(c"/bin/sh".as_ptr(), reach::shell) }.is_some()
}

/// The shell inherits what does not close on exec. This process holds its sockets while the shell starts.
fn name_for_shell() {
    if let Some(posix) = posix() {
        posix.before_shell();
    }
}

fn before_confinement() {
    if let Some(posix) = posix() {
        posix.before_confinement();
    }
}

/// chroot(2): the service's socket is out of reach afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn chroot(path: *const c_char) -> c_int {
    before_confinement();
    // SAFETY: the program's own call.
    unsafe { real::chroot(path) }
}

/// setuid(2): the service may not know the new user.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setuid(uid: c_uint) -> c_int {
    before_confinement();
    // SAFETY: the program's own call.
    unsafe { real::setuid(uid) }
}

/// setreuid(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setreuid(user: c_uint, effective: c_uint) -> c_int {
    before_confinement();
    // SAFETY: the program's own call.
    unsafe { real::setreuid(user, effective) }
}

/// setresuid(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setresuid(user: c_uint, effective: c_uint, saved: c_uint) -> c_int {
    before_confinement();
    // SAFETY: the program's own call.
    unsafe { real::setresuid(user, effective, saved) }
}

/// prctl(2): a seccomp filter may forbid everything but reading and writing. Declared like `fcntl`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, second: c_ulong, third: c_ulong, fourth: c_ulong, fifth: c_ulong) -> c_int {
    if matches!(option, libc::PR_SET_SECCOMP | libc::PR_SET_NO_NEW_PRIVS)
        && let Some(posix) = posix()
    {
        posix.before_filter();
    }
    // SAFETY: the program's own call.
    unsafe { real::prctl(option, second, third, fourth, fifth) }
}

/// setrlimit(2). poll(2) refuses more entries than RLIMIT_NOFILE, and every wait of ours has three more than the program's. A service's memory
/// is mapped in full, and a program that limits the address space of its children (Dovecot, 256 MiB) means their own: they have room for both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: null, or the program promises that it is valid.
    match unsafe { limit.as_ref() } {
        Some(limit) if resource == libc::RLIMIT_NOFILE && limit.rlim_cur < DESCRIPTORS_MIN && posix().is_some() => {
            before_confinement();
            let raised = rlimit { rlim_cur: DESCRIPTORS_MIN, rlim_max: limit.rlim_max.max(DESCRIPTORS_MIN) };
            // SAFETY: a local.
            unsafe { real::setrlimit(resource as c_int, &raw const raised) }
        }
        Some(limit) if resource == libc::RLIMIT_AS && limit.rlim_cur != libc::RLIM_INFINITY && posix().is_some() => {
            let wider = |value: u64| if value == libc::RLIM_INFINITY { value } else { value.saturating_add(ADDRESS_ROOM) };
            let raised = rlimit { rlim_cur: wider(limit.rlim_cur), rlim_max: wider(limit.rlim_max) };
            // SAFETY: a local; or what the program has asked for, where it may not have more.
            unsafe {
                match real::setrlimit(resource as c_int, &raw const raised) {
                    0 => 0,
                    _ => real::setrlimit(resource as c_int, limit),
                }
            }
        }
        // SAFETY: the program's own call.
        _ => unsafe { real::setrlimit(resource as c_int, limit) },
    }
}

/// setrlimit(2) under its name in programs with 64-bit file offsets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setrlimit64(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: the same contract; rlim64 is rlimit on 64-bit machines.
    unsafe { setrlimit(resource, limit) }
}

const DESCRIPTORS_MIN: u64 = 16;
/// Address space of what a program maps of services: 1 GiB of each, and a process keeps two.
const ADDRESS_ROOM: u64 = 4 << 30;
