//! bpf(2): maps, program loading, links, lists of programs. And a thread's cgroup namespace.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::assembler::Instruction;
use super::program::XdpMode;

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_MAP_DELETE_ELEM: libc::c_long = 3;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_PROG_QUERY: libc::c_long = 16;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_LINK_UPDATE: libc::c_long = 29;
const BPF_LINK_GET_FD_BY_ID: libc::c_long = 30;
const BPF_LINK_GET_NEXT_ID: libc::c_long = 31;
const BPF_F_QUERY_EFFECTIVE: u32 = 1;
const BPF_F_NO_PREALLOC: u32 = 1;
const BPF_F_XDP_HAS_FRAGS: u32 = 1 << 5;
const BPF_XDP: u32 = 37;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_SK_LOOKUP: u32 = 36;
const BPF_TCX_EGRESS: u32 = 47;
/// The kernel has room for so many in each direction.
const TCX_PROGRAMS_MAX: usize = 64;
const XDP_FLAGS_GENERIC: u32 = 1 << 1;
const XDP_FLAGS_NATIVE: u32 = 1 << 2;
const LOG_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum MapKind {
    Hash = 1,
    Array = 2,
    Sockets = 17,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum ProgramKind {
    SocketFilter = 1,
    TrafficControl = 3,
    Xdp = 6,
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    revision: u64,
}

#[repr(C)]
struct LinkUpdate {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

#[repr(C)]
#[derive(Default)]
struct ByNumber {
    number: u32,
    next: u32,
    flags: u32,
}

/// The beginning of `struct bpf_link_info` of a link to netfilter.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkInfo {
    pub(super) kind: u32,
    number: u32,
    pub(super) program: u32,
    padding: u32,
    pub(super) family: u32,
    pub(super) hook: u32,
    pub(super) priority: i32,
    flags: u32,
}

#[repr(C)]
struct InfoRequest {
    descriptor: u32,
    bytes: u32,
    info: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramQuery {
    target: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    ids: u64,
    count: u32,
    padding: u32,
    more: [u64; 4],
}

/// # Safety
/// `attributes` is the structure that `command` takes; pointers in it are valid for the call.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the caller vouches for the structure; its size is passed along.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

/// As [`bpf`], for commands that make a descriptor.
///
/// # Safety
/// As for [`bpf`].
unsafe fn bpf_descriptor<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: passed on to the caller; the descriptor is new and has no other owner.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(command, attributes)?)) }
}

pub(super) fn create_map(kind: MapKind, key_bytes: u32, entries_max: u32) -> io::Result<OwnedFd> {
    let flags = match kind {
        MapKind::Hash => BPF_F_NO_PREALLOC,
        MapKind::Array | MapKind::Sockets => 0,
    };
    let attributes = MapCreate { kind: kind as u32, key_bytes, value_bytes: 4, entries_max, flags };
    // SAFETY: the structure is BPF_MAP_CREATE's and holds no pointers.
    unsafe { bpf_descriptor(BPF_MAP_CREATE, &attributes) }.map_err(explain)
}

/// A map of one value of this length.
#[derive(Debug)]
pub(super) struct Record {
    map: OwnedFd,
    bytes: usize,
}

impl Record {
    pub(super) fn new(bytes: usize) -> io::Result<Record> {
        let (kind, value_bytes) = (MapKind::Array as u32, bytes as u32);
        let attributes = MapCreate { kind, key_bytes: 4, value_bytes, entries_max: 1, flags: 0 };
        // SAFETY: the structure is BPF_MAP_CREATE's and holds no pointers.
        let map = unsafe { bpf_descriptor(BPF_MAP_CREATE, &attributes) }.map_err(explain)?;
        Ok(Record { map, bytes })
    }

    /// # Panics
    /// The value has another length.
    pub(super) fn write(&self, value: &[u8]) -> io::Result<()> {
        assert_eq!(value.len(), self.bytes);
        let (map, key) = (self.map.as_raw_fd() as u32, 0u32);
        let attributes = Element { map, padding: 0, key: &raw const key as u64, value: value.as_ptr() as u64, flags: 0 };
        // SAFETY: the structure is BPF_MAP_UPDATE_ELEM's; key and value are as long as those of this map, and outlive the call.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attributes) }?;
        Ok(())
    }

    /// The map, for a program.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

pub(super) fn update(map: BorrowedFd<'_>, key: &[u8], value: u32) -> io::Result<()> {
    let value = &raw const value as u64;
    let attributes = Element { map: map.as_raw_fd() as u32, padding: 0, key: key.as_ptr() as u64, value, flags: 0 };
    // SAFETY: the structure is BPF_MAP_UPDATE_ELEM's; every map here has keys of the length that its
    // one caller passes and values of four bytes.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attributes) }?;
    Ok(())
}

/// The value of `key`; `None`: it is not there.
pub(super) fn look_up(map: BorrowedFd<'_>, key: &[u8]) -> io::Result<Option<u32>> {
    let mut value = 0u32;
    let (place, key) = (&raw mut value as u64, key.as_ptr() as u64);
    let attributes = Element { map: map.as_raw_fd() as u32, padding: 0, key, value: place, flags: 0 };
    // SAFETY: as in `update`; the kernel writes four bytes into a local that outlives the call.
    match unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &attributes) } {
        Ok(_) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts `socket` at `place` of a map of sockets.
pub(super) fn update_with_socket(map: BorrowedFd<'_>, place: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    update(map, &place.to_ne_bytes(), socket.as_raw_fd() as u32)
}

fn delete(map: BorrowedFd<'_>, key: &[u8]) -> io::Result<()> {
    let attributes = Element { map: map.as_raw_fd() as u32, padding: 0, key: key.as_ptr() as u64, value: 0, flags: 0 };
    // SAFETY: as in `update`; the value is not used.
    unsafe { bpf(BPF_MAP_DELETE_ELEM, &attributes) }?;
    Ok(())
}

/// As [`delete`]; a key that is not there is no error.
pub(super) fn delete_if_there(map: BorrowedFd<'_>, key: &[u8]) -> io::Result<()> {
    match delete(map, key) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Loads a program; when the verifier refuses it, the error ends with what the verifier says.
pub(super) fn load(kind: ProgramKind, code: &[Instruction]) -> io::Result<OwnedFd> {
    let (attach_type, flags) = match kind {
        ProgramKind::SocketFilter | ProgramKind::TrafficControl => (0, 0),
        ProgramKind::Xdp => (BPF_XDP, BPF_F_XDP_HAS_FRAGS),
    };
    let mut attributes = ProgramLoad {
        kind: kind as u32,
        instruction_count: code.len() as u32,
        instructions: code.as_ptr() as u64,
        // Only programs that are under the GPL too may call the kernel's own functions. The MIT licence permits to take them so.
        license: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags,
        name: *b"ringway\0\0\0\0\0\0\0\0\0",
        interface: 0,
        attach_type,
    };
    // SAFETY: the structure is BPF_PROG_LOAD's; code and license outlive the call.
    let first = unsafe { bpf_descriptor(BPF_PROG_LOAD, &attributes) };
    let Err(error) = first else { return first };
    if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EACCES)) {
        return Err(explain(error));
    }
    let mut log = vec![0u8; LOG_BYTES];
    attributes.log_level = 1;
    attributes.log_bytes = LOG_BYTES as u32;
    attributes.log = log.as_mut_ptr() as u64;
    // SAFETY: as above; the log is as long as the structure says and outlives the call.
    unsafe { bpf_descriptor(BPF_PROG_LOAD, &attributes) }.map_err(|error| {
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        let said = String::from_utf8_lossy(&log[..end]);
        io::Error::new(error.kind(), format!("the BPF verifier refused a program: {error}\n{said}"))
    })
}

/// Attaches to the traffic-control hook of arriving packets, in front of other programs. `None`: the kernel has no TCX.
pub(super) fn attach_tcx(program: BorrowedFd<'_>, interface: u32) -> io::Result<Option<OwnedFd>> {
    match attach(program, interface, BPF_TCX_INGRESS, 0) {
        Ok(link) => Ok(Some(link)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(None),
        Err(error) => Err(explain(error)),
    }
}

/// Gives the calling thread a cgroup namespace of its own.
pub(super) fn leave_cgroup_namespace() -> io::Result<()> {
    // SAFETY: this namespace belongs to the thread alone, and no memory or descriptor is concerned.
    let result = unsafe { libc::unshare(libc::CLONE_NEWCGROUP) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The number of programs of a type that are in force in a cgroup.
pub(super) fn count_in_force(cgroup: BorrowedFd<'_>, attach_type: u32) -> io::Result<u32> {
    let target = cgroup.as_raw_fd() as u32;
    let mut query = ProgramQuery { target, attach_type, query_flags: BPF_F_QUERY_EFFECTIVE, ..ProgramQuery::default() };
    // SAFETY: the structure names no memory for lists.
    unsafe { ask_programs(&mut query) }?;
    Ok(query.count)
}

/// The number of programs of a network namespace that choose sockets for packets that arrive. Kernels without them say EINVAL.
pub(super) fn count_socket_lookups(namespace: BorrowedFd<'_>) -> io::Result<u32> {
    let target = namespace.as_raw_fd() as u32;
    let mut query = ProgramQuery { target, attach_type: BPF_SK_LOOKUP, ..ProgramQuery::default() };
    // SAFETY: the structure names no memory for lists.
    unsafe { ask_programs(&mut query) }?;
    Ok(query.count)
}

/// The numbers of the programs at the traffic-control hooks (TCX) of an interface, both directions. Kernels without TCX say EINVAL.
pub(super) fn tcx_programs(interface: u32) -> io::Result<Vec<u32>> {
    let mut all = Vec::new();
    for attach_type in [BPF_TCX_INGRESS, BPF_TCX_EGRESS] {
        let mut ids = [0u32; TCX_PROGRAMS_MAX];
        let (list, count) = (ids.as_mut_ptr() as u64, ids.len() as u32);
        let mut query = ProgramQuery { target: interface, attach_type, ids: list, count, ..ProgramQuery::default() };
        // SAFETY: the list is as long as the structure says, and outlives the call.
        match unsafe { ask_programs(&mut query) } {
            Ok(()) => all.extend(ids.iter().take(query.count as usize)),
            // Nothing has ever been attached there.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// # Safety
/// Pointers in `query` are valid for the call, for as many elements as it says.
unsafe fn ask_programs(query: &mut ProgramQuery) -> io::Result<()> {
    // SAFETY: the structure is BPF_PROG_QUERY's and ours to be written; the caller vouches for its pointers.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_QUERY, std::ptr::from_mut(query), size_of::<ProgramQuery>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The number by which the kernel names a program.
pub(super) fn program_number(program: BorrowedFd<'_>) -> io::Result<u32> {
    // struct bpf_prog_info begins with the type and the number; the kernel writes as much as there is room for.
    let mut info = [0u32; 2];
    let (descriptor, bytes) = (program.as_raw_fd() as u32, size_of_val(&info) as u32);
    let mut request = InfoRequest { descriptor, bytes, info: info.as_mut_ptr() as u64 };
    // SAFETY: the structure is BPF_OBJ_GET_INFO_BY_FD's and ours to be written; what it points to is as long as it says and
    // outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &raw mut request, size_of::<InfoRequest>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(info[1]) }
}

/// The number of the first link behind `number`; `None`: there is no more. It takes CAP_SYS_ADMIN.
pub(super) fn next_link(number: u32) -> io::Result<Option<u32>> {
    let mut request = ByNumber { number, ..ByNumber::default() };
    // SAFETY: the structure is BPF_LINK_GET_NEXT_ID's and ours to be written; it holds no pointers.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_GET_NEXT_ID, &raw mut request, size_of::<ByNumber>()) };
    match if result < 0 { Err(io::Error::last_os_error()) } else { Ok(request.next) } {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        answer => answer.map(Some),
    }
}

/// What a link is; `None`: it has gone. It takes CAP_SYS_ADMIN.
pub(super) fn link_info(number: u32) -> io::Result<Option<LinkInfo>> {
    // SAFETY: the structure is BPF_LINK_GET_FD_BY_ID's and holds no pointers.
    let link = match unsafe { bpf_descriptor(BPF_LINK_GET_FD_BY_ID, &ByNumber { number, ..ByNumber::default() }) } {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        answer => answer?,
    };
    let mut info = LinkInfo::default();
    let (descriptor, bytes) = (link.as_raw_fd() as u32, size_of::<LinkInfo>() as u32);
    let mut request = InfoRequest { descriptor, bytes, info: (&raw mut info) as u64 };
    // SAFETY: as in `program_number`: numbers, which any bytes are.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &raw mut request, size_of::<InfoRequest>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(Some(info)) }
}

pub(super) fn attach_xdp(program: BorrowedFd<'_>, interface: u32, mode: XdpMode) -> io::Result<OwnedFd> {
    let flags = match mode {
        XdpMode::Native => XDP_FLAGS_NATIVE,
        XdpMode::Generic => XDP_FLAGS_GENERIC,
    };
    attach(program, interface, BPF_XDP, flags).map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            io::Error::new(error.kind(), format!("another XDP program is attached to this interface: {error}"))
        }
        _ => explain(error),
    })
}

/// Puts `program` into the place of the one that `link` holds.
pub(super) fn replace_program(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let (link, program) = (link.as_raw_fd() as u32, program.as_raw_fd() as u32);
    let attributes = LinkUpdate { link, program, flags: 0, old_program: 0 };
    // SAFETY: the structure is BPF_LINK_UPDATE's and holds no pointers.
    unsafe { bpf(BPF_LINK_UPDATE, &attributes) }.map_err(explain)?;
    Ok(())
}

fn attach(program: BorrowedFd<'_>, interface: u32, attach_type: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let attributes = LinkCreate { program, interface, attach_type, flags, relative: 0, padding: 0, revision: 0 };
    // SAFETY: the structure is BPF_LINK_CREATE's and holds no pointers.
    unsafe { bpf_descriptor(BPF_LINK_CREATE, &attributes) }
}

/// Says what would help.
fn explain(error: io::Error) -> io::Error {
    let help = match error.raw_os_error() {
        Some(libc::EPERM) => "the kernel refuses BPF: it needs CAP_BPF and CAP_NET_ADMIN (run as root), and no lockdown",
        Some(libc::ENOSYS) => "the kernel has no bpf(2)",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{help}: {error}"))
}
