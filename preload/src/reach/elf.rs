//! What a program's ELF file says of it (elf(5)): its loader, and whether it could open a socket or start a program.
//!
//! Promises: a file that says something else than expected counts as one that needs the library. Does not do: look into libraries; a program
//! that is linked with more than libc needs it.

use super::Reach;
use crate::reading::File;
use std::mem::MaybeUninit;

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const PT_NOTE: u64 = 4;
const SEGMENTS_MAX: u64 = 256;
const HEADER_BYTES: usize = 56;
const HEAD_BYTES: usize = 256;
const EM_X86_64: u64 = 62;
const EM_AARCH64: u64 = 183;

const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const ENTRY_BYTES: usize = 16;
const DYNAMIC_BYTES: usize = 64 * ENTRY_BYTES;
/// Small programs have less.
const STRINGS_BYTES: usize = 2048;

/// A dynamic linker of glibc's for this machine, and no mark of Go's?
pub(super) fn reach_of(file: &File, first: &[u8]) -> Reach {
    let Some(elf) = Elf::of(file, first) else { return Reach::Unreached };
    let (mut has_linker, mut dynamic) = (false, None);
    for index in 0..elf.count {
        let Some(segment) = elf.segment(index) else { return Reach::Unreached };
        match segment.kind {
            PT_INTERP | PT_NOTE => {}
            PT_DYNAMIC => {
                dynamic = Some(segment);
                continue;
            }
            _ => continue,
        }
        let mut room = [MaybeUninit::uninit(); HEAD_BYTES];
        let end = segment.len.min(HEAD_BYTES as u64) as usize;
        let content = elf.piece(segment.offset, &mut room[..end]);
        if segment.kind == PT_INTERP && content.windows(7).any(|name| name == b"ld-musl") {
            return Reach::Repelled;
        }
        if segment.kind == PT_NOTE && content.windows(4).any(|name| name == b"Go\0\0") {
            return Reach::Unreached;
        }
        has_linker |= segment.kind == PT_INTERP;
    }
    match dynamic {
        Some(dynamic) if has_linker && elf.is_confined(&dynamic) == Some(true) => Reach::Useless,
        _ if has_linker => Reach::Reached,
        _ => Reach::Unreached,
    }
}

struct Elf<'a> {
    file: &'a File,
    first: &'a [u8],
    table: u64,
    size: u64,
    count: u64,
}

/// A program header.
struct Segment {
    kind: u64,
    offset: u64,
    address: u64,
    len: u64,
}

impl<'a> Elf<'a> {
    /// `None`: not for this machine.
    fn of(file: &'a File, first: &'a [u8]) -> Option<Elf<'a>> {
        let head = &first[..first.len().min(HEAD_BYTES)];
        let machine = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };
        if head.get(4..6) != Some(&[2, 1]) || number::<2>(head, 18) != Some(machine) {
            return None;
        }
        let (table, size, count) = (number::<8>(head, 32)?, number::<2>(head, 54)?, number::<2>(head, 56)?);
        Some(Elf { file, first, table, size, count: count.min(SEGMENTS_MAX) })
    }

    fn segment(&self, index: u64) -> Option<Segment> {
        let mut room = [MaybeUninit::uninit(); HEADER_BYTES];
        let header = self.piece(self.table.saturating_add(index * self.size), &mut room);
        let (kind, offset) = (number::<4>(header, 0)?, number::<8>(header, 8)?);
        Some(Segment { kind, offset, address: number::<8>(header, 16)?, len: number::<8>(header, 32)? })
    }

    /// As many bytes at `offset` as `room` has, of the first ones of the file or from it.
    fn piece<'b>(&self, offset: u64, room: &'b mut [MaybeUninit<u8>]) -> &'b [u8]
    where
        'a: 'b,
    {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(room.len());
        if end <= self.first.len() { &self.first[start..end] } else { self.file.read(offset, room) }
    }

    /// Is the program linked with libc alone, and does it name no function by which a socket or a program could come to it? `None`: not known.
    fn is_confined(&self, dynamic: &Segment) -> Option<bool> {
        let mut room = [MaybeUninit::uninit(); DYNAMIC_BYTES];
        let len = usize::try_from(dynamic.len).ok().filter(|len| *len <= DYNAMIC_BYTES)?;
        let entries = self.piece(dynamic.offset, &mut room[..len]);
        let value = |wanted: u64| {
            let mut tags = (0..entries.len() / ENTRY_BYTES).map_while(|index| {
                let tag = number::<8>(entries, index * ENTRY_BYTES).filter(|tag| *tag != DT_NULL)?;
                Some((tag, number::<8>(entries, index * ENTRY_BYTES + 8)?))
            });
            tags.find(|(tag, _)| *tag == wanted).map(|(_, value)| value)
        };
        let (address, len) = (value(DT_STRTAB)?, usize::try_from(value(DT_STRSZ)?).ok().filter(|len| *len <= STRINGS_BYTES)?);
        let holds = |segment: &Segment| {
            segment.kind == PT_LOAD && (segment.address..segment.address.saturating_add(segment.len)).contains(&address)
        };
        let loaded = (0..self.count).map_while(|index| self.segment(index)).find(holds)?;
        let mut room = [MaybeUninit::uninit(); STRINGS_BYTES];
        let strings = self.piece(loaded.offset.checked_add(address - loaded.address)?, &mut room[..len]);
        Some(strings.len() == len && !strings.split(|byte| *byte == 0).any(opens))
    }
}

/// Libraries without which no program of glibc's is.
const LIBC: &str = "libc.so.6 libm.so.6 libpthread.so.0 librt.so.1 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1";

/// Could a program that has `string` among the names of its dynamic section open a socket, get one in a message, start a program, or load a
/// library that does? Linkers keep a name that ends another one only there.
fn opens(string: &[u8]) -> bool {
    if string.windows(3).any(|part| part == b".so") {
        return !LIBC.split(' ').any(|library| library.as_bytes() == string);
    }
    let Some(last) = string.last() else { return false };
    names_ending_in(*last).split(' ').any(|name| !name.is_empty() && string.ends_with(name.as_bytes()))
}

/// Functions of libc that are one way or another to a socket. Those of names of users and hosts load libraries (nsswitch.conf(5)), and so does
/// iconv_open. In one string for each last letter, since an array of names would be written to when the library is loaded.
fn names_ending_in(last: u8) -> &'static str {
    match last {
        b'2' => "gethostbyname2 clone2",
        b'4' => "accept4",
        b'c' => "rexec",
        b'd' => "bind send rcmd getpwuid getgrgid pidfd_getfd",
        b'e' => "execle execve clone gethostbyname getservbyname getnetbyname getprotobyname getrpcbyname execvpe dlopen_mode",
        b'f' => "rcmd_af rexec_af rresvport_af",
        b'g' => "recvmsg recvmmsg sendmsg sendmmsg",
        b'k' => "recv_chk recvfrom_chk",
        b'l' => "syscall execl",
        b'm' => "recvfrom system getpwnam getgrnam getspnam dlsym dlvsym",
        b'n' => "listen dlopen dlmopen popen posix_spawn pidfd_spawn iconv_open",
        b'o' => "sendto getaddrinfo getnameinfo",
        b'p' => "execlp execvp posix_spawnp pidfd_spawnp wordexp",
        b'r' => {
            "gethostbyaddr getnetbyaddr innetgr getprotobynumber getrpcbynumber getpwnam_r getpwuid_r getpwent_r getgrnam_r getgrgid_r \
             getgrent_r getspnam_r gethostbyname_r gethostbyname2_r gethostbyaddr_r getservbyname_r getservbyport_r"
        }
        b's' => "initgroups",
        b't' => {
            "socket connect accept execveat rresvport bindresvport getservbyport getgrouplist getpwent getgrent getspent gethostent getservent getnetgrent"
        }
        b'v' => "recv execv",
        _ => "",
    }
}

/// `N` bytes at `offset`, little-endian.
fn number<const N: usize>(bytes: &[u8], offset: usize) -> Option<u64> {
    let mut whole = [0; 8];
    whole[..N].copy_from_slice(bytes.get(offset..offset.checked_add(N)?)?);
    Some(u64::from_le_bytes(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_under_its_last_letter() {
        let all: Vec<(u8, &str)> =
            (0..=u8::MAX).flat_map(|last| names_ending_in(last).split(' ').map(move |name| (last, name))).collect();
        for (last, name) in all.iter().filter(|(_, name)| !name.is_empty()) {
            assert_eq!(name.as_bytes().last(), Some(last), "{name}");
            assert!(opens(name.as_bytes()) && opens(format!("my_{name}").as_bytes()), "{name}");
        }
        assert!(all.iter().filter(|(_, name)| !name.is_empty()).count() > 80);
        for harmless in
            ["", "read", "write", "bindtextdomain", "__libc_start_main", "GLIBC_2.34", "fork", "libc.so.6", "libm.so.6"]
        {
            assert!(!opens(harmless.as_bytes()), "{harmless}");
        }
        for library in ["libselinux.so.1", "mylibc.so.6", "/lib/x.so"] {
            assert!(opens(library.as_bytes()), "{library}");
        }
    }

    /// What the library replaces is a way to a socket, or works on a descriptor that is there.
    #[test]
    fn the_librarys_own_functions_that_make_sockets_or_programs_are_among_them() {
        for name in [
            "socket",
            "connect",
            "bind",
            "listen",
            "accept",
            "accept4",
            "recv",
            "recvfrom",
            "recvmsg",
            "recvmmsg",
            "__recv_chk",
            "__recvfrom_chk",
            "send",
            "sendto",
            "sendmsg",
            "sendmmsg",
            "syscall",
            "execl",
            "execle",
            "execlp",
            "execv",
            "execve",
            "execveat",
            "execvp",
            "execvpe",
            "fexecve",
            "posix_spawn",
            "posix_spawnp",
            "system",
            "popen",
        ] {
            assert!(opens(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn programs_of_this_machine_are_told_apart() {
        // SAFETY: C strings.
        let reach = |path: &std::ffi::CStr| unsafe { super::super::at(libc::AT_FDCWD, path.as_ptr()) };
        for path in [c"/bin/true", c"/bin/cat", c"/bin/sleep"] {
            assert_eq!(reach(path), Reach::Useless, "{path:?}");
        }
        for path in [c"/bin/sh", c"/bin/bash", c"/usr/bin/env", c"/bin/ls"] {
            assert_eq!(reach(path), Reach::Reached, "{path:?}");
        }
    }
}
