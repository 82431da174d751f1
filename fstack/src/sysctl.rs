//! ff_sysctl: FreeBSD's names that have a meaning on Linux, read from and written to the kernel's settings, which Ringway's service reads too.
//!
//! FreeBSD's numbers are found by name: {0, 3} with the name as the new value answers with the name's numbers. Those of this library are
//! {[`TREE`], place in the table}.

use std::ffi::CStr;
use std::fs;
use std::path::PathBuf;

use libc::{c_int, c_void};
use ringway_cabi::{Answer, Errno, give};

/// The first number of all that this library has.
const TREE: c_int = 1000;
const NAME_TO_NUMBERS: [c_int; 2] = [0, 3];

/// How Linux's text stands for FreeBSD's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// An int: this word of the text.
    Word(usize),
    /// An int in milliseconds; Linux has seconds.
    Seconds,
    /// A text.
    Text,
}

const TABLE: [(&str, &str, Form); 16] = [
    ("kern.ipc.somaxconn", "net/core/somaxconn", Form::Word(0)),
    ("kern.maxfiles", "fs/file-max", Form::Word(0)),
    ("kern.hostname", "kernel/hostname", Form::Text),
    ("kern.osrelease", "kernel/osrelease", Form::Text),
    ("net.inet.ip.forwarding", "net/ipv4/ip_forward", Form::Word(0)),
    ("net.inet.ip.ttl", "net/ipv4/ip_default_ttl", Form::Word(0)),
    ("net.inet.ip.portrange.first", "net/ipv4/ip_local_port_range", Form::Word(0)),
    ("net.inet.ip.portrange.last", "net/ipv4/ip_local_port_range", Form::Word(1)),
    ("net.inet.tcp.cc.algorithm", "net/ipv4/tcp_congestion_control", Form::Text),
    ("net.inet.tcp.ecn.enable", "net/ipv4/tcp_ecn", Form::Word(0)),
    ("net.inet.tcp.keepcnt", "net/ipv4/tcp_keepalive_probes", Form::Word(0)),
    ("net.inet.tcp.keepidle", "net/ipv4/tcp_keepalive_time", Form::Seconds),
    ("net.inet.tcp.keepintvl", "net/ipv4/tcp_keepalive_intvl", Form::Seconds),
    ("net.inet.tcp.recvspace", "net/ipv4/tcp_rmem", Form::Word(1)),
    ("net.inet.tcp.sack.enable", "net/ipv4/tcp_sack", Form::Word(0)),
    ("net.inet.tcp.sendspace", "net/ipv4/tcp_wmem", Form::Word(1)),
];

impl Form {
    /// FreeBSD's value of Linux's text.
    fn read(self, text: &str) -> Option<Vec<u8>> {
        let number = |word: usize| text.split_whitespace().nth(word)?.parse::<u64>().ok();
        let int = |number: u64| c_int::try_from(number).unwrap_or(c_int::MAX).to_ne_bytes().to_vec();
        match self {
            Form::Word(word) => number(word).map(int),
            Form::Seconds => number(0).map(|seconds| int(seconds.saturating_mul(1000))),
            Form::Text => Some(text.trim_end().bytes().chain([0]).collect()),
        }
    }

    /// Linux's text with FreeBSD's value in it.
    fn write(self, text: &str, value: &[u8]) -> Option<String> {
        let int = || value.try_into().ok().map(c_int::from_ne_bytes).filter(|number| *number >= 0);
        match self {
            Form::Word(word) => {
                let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                *words.get_mut(word)? = int()?.to_string();
                Some(words.join(" "))
            }
            // Half a second is none.
            Form::Seconds => int().map(|milliseconds| (milliseconds / 1000).max(1).to_string()),
            Form::Text => {
                let text = value.split(|byte| *byte == 0).next().and_then(|text| std::str::from_utf8(text).ok());
                text.filter(|text| !text.is_empty()).map(str::to_owned)
            }
        }
    }
}

/// Gives FreeBSD's answer: the value, or ENOMEM and its size where there is no room.
///
/// # Safety
/// As the crate says.
unsafe fn answer(value: &[u8], old: *mut c_void, old_len: *mut usize) -> Answer<()> {
    // SAFETY: it is null or the caller's.
    let Some(len) = (unsafe { old_len.as_mut() }) else { return Ok(()) };
    let room = std::mem::replace(len, value.len());
    if old.is_null() {
        return Ok(());
    }
    if room < value.len() {
        return Err(Errno(libc::ENOMEM));
    }
    // SAFETY: there is room.
    unsafe { value.as_ptr().copy_to_nonoverlapping(old.cast(), value.len()) };
    Ok(())
}

/// # Safety
/// As the crate says.
unsafe fn sysctl(name: &[c_int], old: (*mut c_void, *mut usize), new: &[u8]) -> Answer<c_int> {
    if name == NAME_TO_NUMBERS {
        let text = CStr::from_bytes_until_nul(new).map_or(new, CStr::to_bytes);
        let place = TABLE.iter().position(|(name, ..)| name.as_bytes() == text).ok_or(Errno(libc::ENOENT))?;
        let numbers: Vec<u8> = [TREE, place as c_int].iter().flat_map(|number| number.to_ne_bytes()).collect();
        // SAFETY: as the function says.
        return unsafe { answer(&numbers, old.0, old.1) }.map(|()| 0);
    }
    let place = match name {
        [TREE, place] => usize::try_from(*place).ok().and_then(|place| TABLE.get(place)),
        _ => None,
    };
    let (_, file, form) = place.ok_or(Errno(libc::ENOENT))?;
    let file: PathBuf = ["/proc/sys", file].iter().collect();
    let failed = |error: std::io::Error| Errno(error.raw_os_error().unwrap_or(libc::EIO));
    let text = fs::read_to_string(&file).map_err(failed)?;
    let value = form.read(&text).ok_or(Errno(libc::EIO))?;
    // SAFETY: as the function says.
    unsafe { answer(&value, old.0, old.1) }?;
    if !new.is_empty() {
        let text = form.write(&text, new).ok_or(Errno(libc::EINVAL))?;
        fs::write(&file, text).map_err(failed)?;
    }
    Ok(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_sysctl(
    name: *const c_int,
    count: u32,
    old: *mut c_void,
    old_len: *mut usize,
    new: *const c_void,
    new_len: usize,
) -> c_int {
    if name.is_null() {
        return give(Err(Errno(libc::EFAULT)));
    }
    // SAFETY: as the crate says.
    give(unsafe {
        let name = std::slice::from_raw_parts(name, count as usize);
        let new = if new.is_null() { &[] } else { std::slice::from_raw_parts(new.cast(), new_len) };
        sysctl(name, (old, old_len), new)
    })
}

#[cfg(test)]
mod tests;
