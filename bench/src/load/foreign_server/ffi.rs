//! The calls of mTCP and F-Stack, as their headers declare them.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::net::SocketAddrV4;
use std::ptr::{null, null_mut};

// The libraries whose functions these are.
use fstack as _;
use mtcp as _;

use super::{Calls, Told};

const EVENTS: usize = 1024;

/// `struct sockaddr_in`
#[repr(C)]
struct SocketAddressIn {
    family: u16,
    port: u16,
    address: u32,
    zero: [u8; 8],
}

const IN_BYTES: u32 = size_of::<SocketAddressIn>() as u32;
const AF_INET: c_int = 2;
const SOCK_STREAM: c_int = 1;
const IPPROTO_TCP: c_int = 6;
const TCP_NODELAY: c_int = 1;

impl SocketAddressIn {
    fn new(address: SocketAddrV4) -> SocketAddressIn {
        SocketAddressIn {
            family: AF_INET as u16,
            port: address.port().to_be(),
            address: u32::from(*address.ip()).to_be(),
            zero: [0; 8],
        }
    }
}

/// What a call has returned, or errno.
fn checked(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// `struct mtcp_epoll_event`
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct MtcpEvent {
    events: u32,
    data: u64,
}

/// `struct kevent`
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Kevent {
    ident: usize,
    filter: i16,
    flags: u16,
    fflags: u32,
    data: isize,
    udata: usize,
}

unsafe extern "C" {
    fn mtcp_init(file: *const i8) -> c_int;
    fn mtcp_create_context(cpu: c_int) -> *mut c_void;
    fn mtcp_socket(context: *mut c_void, domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn mtcp_setsock_nonblock(context: *mut c_void, id: c_int) -> c_int;
    fn mtcp_setsockopt(context: *mut c_void, id: c_int, level: c_int, name: c_int, value: *const c_void, len: u32) -> c_int;
    fn mtcp_bind(context: *mut c_void, id: c_int, address: *const SocketAddressIn, len: u32) -> c_int;
    fn mtcp_listen(context: *mut c_void, id: c_int, backlog: c_int) -> c_int;
    fn mtcp_accept(context: *mut c_void, id: c_int, peer: *mut SocketAddressIn, len: *mut u32) -> c_int;
    fn mtcp_read(context: *mut c_void, id: c_int, buffer: *mut u8, len: usize) -> isize;
    fn mtcp_write(context: *mut c_void, id: c_int, buffer: *const u8, len: usize) -> isize;
    fn mtcp_close(context: *mut c_void, id: c_int) -> c_int;
    fn mtcp_epoll_create(context: *mut c_void, size: c_int) -> c_int;
    fn mtcp_epoll_ctl(context: *mut c_void, epoll: c_int, operation: c_int, id: c_int, event: *const MtcpEvent) -> c_int;
    fn mtcp_epoll_wait(context: *mut c_void, epoll: c_int, events: *mut MtcpEvent, max: c_int, timeout: c_int) -> c_int;

    fn ff_init(count: c_int, arguments: *const *const i8) -> c_int;
    fn ff_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn ff_setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: u32) -> c_int;
    fn ff_bind(fd: c_int, address: *const SocketAddressIn, len: u32) -> c_int;
    fn ff_listen(fd: c_int, backlog: c_int) -> c_int;
    fn ff_accept(fd: c_int, peer: *mut SocketAddressIn, len: *mut u32) -> c_int;
    fn ff_read(fd: c_int, buffer: *mut u8, len: usize) -> isize;
    fn ff_write(fd: c_int, buffer: *const u8, len: usize) -> isize;
    fn ff_close(fd: c_int) -> c_int;
    fn ff_kqueue() -> c_int;
    fn ff_kevent(
        kqueue: c_int,
        changes: *const Kevent,
        changes_count: c_int,
        events: *mut Kevent,
        max: c_int,
        timeout: *const c_void,
    ) -> c_int;
}

static ON: c_int = 1;
const INT_BYTES: u32 = size_of::<c_int>() as u32;

/// A context of mTCP's.
pub(crate) struct Mtcp {
    context: *mut c_void,
    epoll: c_int,
    listener: c_int,
    events: Vec<MtcpEvent>,
}

const IN: u32 = 0x001;
const OUT: u32 = 0x004;
const ERROR: u32 = 0x008;
const HUNG_UP: u32 = 0x010;
const READ_HUNG_UP: u32 = 0x2000;
const EDGE: u32 = 1 << 31;
const ADD: c_int = 1;

impl Mtcp {
    fn watch(&self, id: c_int, events: u32) -> io::Result<()> {
        let event = MtcpEvent { events: events | EDGE, data: id as u64 };
        // SAFETY: the context is this value's, and the event lives until the call returns.
        checked(unsafe { mtcp_epoll_ctl(self.context, self.epoll, ADD, id, &raw const event) } as isize).map(drop)
    }
}

impl Calls for Mtcp {
    fn listen(address: SocketAddrV4, backlog: i32) -> io::Result<Mtcp> {
        let address = SocketAddressIn::new(address);
        // SAFETY: no file is named; the context is this value's, and the address lives until the calls return.
        unsafe {
            checked(mtcp_init(null()) as isize)?;
            let context = mtcp_create_context(0);
            if context.is_null() {
                return Err(io::Error::last_os_error());
            }
            let epoll = checked(mtcp_epoll_create(context, EVENTS as c_int) as isize)? as c_int;
            let listener = checked(mtcp_socket(context, AF_INET, SOCK_STREAM, 0) as isize)? as c_int;
            checked(mtcp_setsock_nonblock(context, listener) as isize)?;
            checked(mtcp_bind(context, listener, &raw const address, IN_BYTES) as isize)?;
            checked(mtcp_listen(context, listener, backlog) as isize)?;
            let calls = Mtcp { context, epoll, listener, events: vec![MtcpEvent::default(); EVENTS] };
            calls.watch(listener, IN)?;
            Ok(calls)
        }
    }

    fn wait(&mut self, told: &mut Vec<Told>) -> io::Result<()> {
        // SAFETY: there is room for so many.
        let count =
            unsafe { mtcp_epoll_wait(self.context, self.epoll, self.events.as_mut_ptr(), self.events.len() as c_int, -1) };
        let count = checked(count as isize)?;
        told.extend(self.events[..count].iter().map(|event| match event.data as c_int {
            id if id == self.listener => Told::Listener,
            id => Told::Connection {
                id: id as usize,
                is_readable: event.events & IN != 0,
                has_ended: event.events & (ERROR | HUNG_UP | READ_HUNG_UP) != 0,
            },
        }));
        Ok(())
    }

    fn accept(&mut self) -> io::Result<usize> {
        // SAFETY: the context is this value's; the option lives until the call returns.
        unsafe {
            let id = checked(mtcp_accept(self.context, self.listener, null_mut(), null_mut()) as isize)?;
            mtcp_setsock_nonblock(self.context, id as c_int);
            // Fails on a closed connection; its next read reports that.
            mtcp_setsockopt(self.context, id as c_int, IPPROTO_TCP, TCP_NODELAY, (&raw const ON).cast(), INT_BYTES);
            self.watch(id as c_int, IN | OUT | READ_HUNG_UP)?;
            Ok(id)
        }
    }

    fn read(&mut self, id: usize, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: there is room for so many bytes.
        checked(unsafe { mtcp_read(self.context, id as c_int, buffer.as_mut_ptr(), buffer.len()) })
    }

    fn write(&mut self, id: usize, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: there are so many bytes.
        checked(unsafe { mtcp_write(self.context, id as c_int, bytes.as_ptr(), bytes.len()) })
    }

    fn close(&mut self, id: usize) {
        // SAFETY: the context is this value's.
        unsafe { mtcp_close(self.context, id as c_int) };
    }
}

/// Descriptors of F-Stack's, and a kqueue.
pub(crate) struct Fstack {
    kqueue: c_int,
    listener: c_int,
    events: Vec<Kevent>,
}

const EVFILT_READ: i16 = -1;
const EVFILT_WRITE: i16 = -2;
const EV_ADD_CLEAR: u16 = 0x0021;
const EV_EOF: u16 = 0x8000;

impl Fstack {
    fn watch(&self, fd: c_int, filters: &[i16]) -> io::Result<()> {
        let change = |filter: &i16| Kevent { ident: fd as usize, filter: *filter, flags: EV_ADD_CLEAR, ..Kevent::default() };
        let changes: Vec<Kevent> = filters.iter().map(change).collect();
        // SAFETY: the changes live until the call returns; there is no room for events.
        checked(unsafe { ff_kevent(self.kqueue, changes.as_ptr(), changes.len() as c_int, null_mut(), 0, null()) } as isize)
            .map(drop)
    }
}

impl Calls for Fstack {
    fn listen(address: SocketAddrV4, backlog: i32) -> io::Result<Fstack> {
        let address = SocketAddressIn::new(address);
        // SAFETY: there are no arguments; the address lives until the calls return.
        unsafe {
            checked(ff_init(0, null()) as isize)?;
            let kqueue = checked(ff_kqueue() as isize)? as c_int;
            let listener = checked(ff_socket(AF_INET, SOCK_STREAM, 0) as isize)? as c_int;
            checked(ff_bind(listener, &raw const address, IN_BYTES) as isize)?;
            checked(ff_listen(listener, backlog) as isize)?;
            let calls = Fstack { kqueue, listener, events: vec![Kevent::default(); EVENTS] };
            calls.watch(listener, &[EVFILT_READ])?;
            Ok(calls)
        }
    }

    fn wait(&mut self, told: &mut Vec<Told>) -> io::Result<()> {
        let max = self.events.len() as c_int;
        // SAFETY: there is room for so many; outside of ff_run no timeout is none.
        let count = unsafe { ff_kevent(self.kqueue, null(), 0, self.events.as_mut_ptr(), max, null()) };
        let count = checked(count as isize)?;
        told.extend(self.events[..count].iter().map(|event| match event.ident {
            fd if fd == self.listener as usize => Told::Listener,
            id => Told::Connection { id, is_readable: event.filter == EVFILT_READ, has_ended: event.flags & EV_EOF != 0 },
        }));
        Ok(())
    }

    fn accept(&mut self) -> io::Result<usize> {
        // SAFETY: the option lives until the call returns.
        unsafe {
            let fd = checked(ff_accept(self.listener, null_mut(), null_mut()) as isize)?;
            // Fails on a closed connection; its next read reports that.
            ff_setsockopt(fd as c_int, IPPROTO_TCP, TCP_NODELAY, (&raw const ON).cast(), INT_BYTES);
            self.watch(fd as c_int, &[EVFILT_READ, EVFILT_WRITE])?;
            Ok(fd)
        }
    }

    fn read(&mut self, fd: usize, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: there is room for so many bytes.
        checked(unsafe { ff_read(fd as c_int, buffer.as_mut_ptr(), buffer.len()) })
    }

    fn write(&mut self, fd: usize, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: there are so many bytes.
        checked(unsafe { ff_write(fd as c_int, bytes.as_ptr(), bytes.len()) })
    }

    fn close(&mut self, fd: usize) {
        // SAFETY: the descriptor is this value's.
        unsafe { ff_close(fd as c_int) };
    }
}
