//! The start of a program, its processors and signals.

use std::ffi::CStr;
use std::path::Path;

use libc::{c_char, c_int, in_addr_t, in_port_t, sighandler_t};

use crate::config;
use ringway_cabi::{NOT_ON_RINGWAY, checked, give, is_on_ringway, raise_descriptors};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_init(file: *const c_char) -> c_int {
    // SAFETY: as the crate says.
    let file = (!file.is_null()).then(|| unsafe { CStr::from_ptr(file) });
    let file = file.map(|file| String::from_utf8_lossy(file.to_bytes()).into_owned());
    if let Err(text) = config::load(file.as_deref().map(Path::new)) {
        eprintln!("mtcp: {text}");
        return -1;
    }
    if !is_on_ringway() {
        eprintln!("mtcp: {NOT_ON_RINGWAY}");
    }
    raise_descriptors();
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn mtcp_destroy() {
    config::forget();
}

#[unsafe(no_mangle)]
pub extern "C" fn mtcp_core_affinitize(cpu: c_int) -> c_int {
    // SAFETY: a set of all zeros is one; a number beyond it is refused.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if let Some(cpu) = usize::try_from(cpu).ok().filter(|cpu| *cpu < libc::CPU_SETSIZE as usize) {
        // SAFETY: the number is in the set.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // An empty set is EINVAL, as a processor is that the machine does not have.
    // SAFETY: the set lives until the call returns.
    give(checked(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_register_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: a structure of all zeros is one; both live until the call returns.
    unsafe {
        let (mut new, mut old): (libc::sigaction, libc::sigaction) = (std::mem::zeroed(), std::mem::zeroed());
        new.sa_sigaction = handler;
        libc::sigemptyset(&raw mut new.sa_mask);
        match libc::sigaction(signal, &raw const new, &raw mut old) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn GetNumCPUs() -> c_int {
    // SAFETY: it takes a number.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    online.max(1) as c_int
}

#[unsafe(no_mangle)]
pub extern "C" fn whichCoreID(thread: c_int) -> c_int {
    thread.rem_euclid(GetNumCPUs())
}

/// Places of a card's indirection table, less one.
const RSS_MASK: u32 = 0x7f;
/// The byte of which mTCP makes its key: both directions of a flow come to the same queue.
const KEY_BYTE: u32 = 0x05;

/// The Toeplitz hash of a flow with mTCP's key, and the queue that it selects.
#[unsafe(no_mangle)]
pub extern "C" fn GetRSSCPUCore(
    source: in_addr_t,
    destination: in_addr_t,
    source_port: in_port_t,
    destination_port: in_port_t,
    queues: c_int,
    swaps: u8,
) -> c_int {
    let ports = u32::from(u16::from_be(source_port)) << 16 | u32::from(u16::from_be(destination_port));
    // Each byte of the key is the same, so is each window of 32 bits that begins at a multiple of eight.
    let window = |bit: u32| (KEY_BYTE * 0x0101_0101).rotate_left(bit % 8);
    let words = [u32::from_be(source), u32::from_be(destination), ports];
    let set = |word: &u32| (0..32).filter(|bit| word >> (31 - bit) & 1 == 1).fold(0, |hash, bit| hash ^ window(bit));
    let hash = words.iter().fold(0, |hash, word| hash ^ set(word)) & RSS_MASK;
    let queue = hash.checked_rem(queues.max(1) as u32).unwrap_or(0);
    // Cards of one kind count queues in the other order.
    if swaps != 0 { (queue ^ 1).min(queues.max(1) as u32 - 1) as c_int } else { queue as c_int }
}

#[cfg(test)]
mod tests;
