//! Rings of the kernel's, and requests that name sockets of ours in them.

use super::*;
use crate::fake::{Bench, Lonely, placeholder, sockaddr};
use crate::{liburing, raw, sockets};
use ringway_posix::Settings;

/// A program's ring; it is closed when this ends.
struct Own {
    fd: c_int,
    params: Params,
    indices: Mapping,
    requests: Mapping,
}

impl Own {
    /// `None`: this kernel gives none to us.
    fn with(flags: u32) -> Option<Own> {
        let mut params = params(flags);
        // SAFETY: a local.
        let fd = unsafe { raw::syscall(libc::SYS_io_uring_setup, 8, (&raw mut params) as c_long, 0, 0, 0, 0) } as c_int;
        if fd < 0 {
            eprintln!("no io_uring here");
            return None;
        }
        let end = params.sq_offsets[6] as usize + params.sq_entries as usize * 4;
        let indices = Mapping::new(fd, end, 0).expect("it is a ring");
        let len = params.sq_entries as usize * size_of::<Request>();
        let requests = Mapping::new(fd, len, OFFSET_SQES).expect("it is a ring");
        Some(Own { fd, params, indices, requests })
    }

    fn word(&self, at: u32) -> &AtomicU32 {
        // SAFETY: inside of the mapping, at an offset of the kernel's.
        unsafe { AtomicU32::from_ptr(self.indices.at.byte_add(at as usize).cast()) }
    }

    /// Puts the requests into the ring, last places first, and has the kernel take them.
    fn submit(&self, requests: &[Request]) {
        let tail = self.word(self.params.sq_offsets[1]);
        for request in requests {
            let (next, mask) = (tail.load(Ordering::Relaxed), self.params.sq_entries - 1);
            let place = mask - (next & mask);
            self.word(self.params.sq_offsets[6] + (next & mask) * 4).store(place, Ordering::Relaxed);
            // SAFETY: inside of the mapping.
            unsafe { self.requests.at.cast::<Request>().add(place as usize).write(*request) };
            tail.store(next.wrapping_add(1), Ordering::Release);
        }
        let count = requests.len() as c_long;
        // SAFETY: numbers, and a ring that is whole.
        let taken = unsafe { raw::syscall(libc::SYS_io_uring_enter, c_long::from(self.fd), count, 0, 0, 0, 0) };
        assert_eq!(taken, count);
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe { libc::close(self.fd) };
    }
}

fn params(flags: u32) -> Params {
    // SAFETY: numbers, for which zeros are right.
    Params { flags, ..unsafe { std::mem::zeroed() } }
}

fn request(operation: u8, fd: c_int) -> Request {
    Request { operation, fd, ..Request::default() }
}

const SHUTDOWN: u8 = 34;
/// A request that the kernel refuses does not keep the next ones from it.
const SUBMIT_ALL: u32 = 1 << 7;

#[test]
fn sockets_that_requests_name_become_the_kernels() {
    let bench = Bench::new();
    let Some(ring) = Own::with(SUBMIT_ALL) else { return };
    let [named, second, spliced, watched, other] = [0; 5].map(|_| bench.connection());
    let splice = Request { file: spliced as u32, ..request(request::SPLICE, -1) };
    let watch = Request { offset: watched as u64, ..request(request::EPOLL_CTL, -1) };
    let by_place = Request { flags: request::FIXED_FILE, ..request(SHUTDOWN, other) };
    ring.submit(&[request(SHUTDOWN, named), by_place, splice, watch, request(45, other)]);
    assert_eq!([named, second, spliced, watched, other].map(|fd| bench.is_ours(fd)), [false, true, false, false, true]);
    // The next ones, which begin behind those, in requests of any order.
    ring.submit(&[request(request::NOP, other), request(SHUTDOWN, second)]);
    assert_eq!([second, other].map(|fd| bench.is_ours(fd)), [false, true]);
}

#[test]
fn sockets_in_a_list_of_files_and_in_a_message_become_the_kernels() {
    let bench = Bench::new();
    let Some(ring) = Own::with(SUBMIT_ALL) else { return };
    let [listed, passed] = [0; 2].map(|_| bench.connection());
    let numbers = [-1, listed];
    let list = Request { address: numbers.as_ptr() as u64, len: 2, ..request(request::FILES_UPDATE, -1) };
    ring.submit(&[list]);
    assert_eq!([listed, passed].map(|fd| bench.is_ours(fd)), [false, true]);
    let mut control = [0_u8; 24];
    control[..8].copy_from_slice(&20_usize.to_ne_bytes());
    control[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
    control[12..16].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
    control[16..20].copy_from_slice(&passed.to_ne_bytes());
    // SAFETY: a message of nothing, for which zeros are right.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), control.len());
    ring.submit(&[Request { address: (&raw const message) as u64, ..request(request::SENDMSG, -1) }]);
    assert!(!bench.is_ours(passed));
    assert!(!bench.posix.table().has_sockets(), "nothing is left to look for");
}

#[test]
fn a_descriptor_that_is_closed_in_a_ring_is_let_go() {
    let bench = Bench::new();
    let Some(ring) = Own::with(0) else { return };
    let fd = bench.connection();
    ring.submit(&[request(request::CLOSE, fd)]);
    assert!(!bench.is_ours(fd));
    assert!(bench.hears(|heard| matches!(heard, ringway_channel::Operation::Close { .. })), "it is closed, not handed over");
}

#[test]
fn files_that_a_ring_keeps_become_the_kernels() {
    let bench = Bench::new();
    let Some(ring) = Own::with(0) else { return };
    let register = |operation: c_uint, argument: *const c_void, count: c_long| {
        let (ring, operation) = (c_long::from(ring.fd), c_long::from(operation));
        // SAFETY: what the operation says. The kernel may refuse it, after this library has seen it.
        unsafe { raw::syscall(libc::SYS_io_uring_register, ring, operation, argument as c_long, count, 0, 0) };
    };
    let fds = [0; 5].map(|_| bench.connection());
    let [first, second, third, fourth, other] = fds;
    // Other operations, and what is no memory.
    register(8, (&raw const other).cast(), 1);
    register(REGISTER_FILES, ptr::null(), 1);
    register(REGISTER_FILES_UPDATE, ptr::without_provenance(8), 1);
    assert_eq!(fds.map(|fd| bench.is_ours(fd)), [true; 5]);
    register(REGISTER_FILES, (&raw const first).cast(), 1);
    register(REGISTER_FILES_UPDATE, [0, (&raw const second) as u64].as_ptr().cast(), 1);
    register(REGISTER_FILES2 | REGISTER_BY_NUMBER, [1, 0, (&raw const third) as u64, 0].as_ptr().cast(), 32);
    register(REGISTER_FILES_UPDATE2, [0, (&raw const fourth) as u64, 0, 1].as_ptr().cast(), 32);
    assert_eq!(fds.map(|fd| bench.is_ours(fd)), [false, false, false, false, true]);
}

/// An old kernel, and a connection that is to have a place in the ring's own table: what waits goes along to the kernel's listener.
#[test]
fn what_waits_goes_along_where_no_request_can_be_answered() {
    for (features, file) in [(0, 0), (request::SAYS_RESULTS, 5)] {
        let bench = Bench::new();
        let fd = bench.connection();
        bench.waits(fd);
        let mut accept = Request { file, ..request(request::ACCEPT, fd) };
        // SAFETY: a local.
        unsafe { request::before(bench.posix, &raw mut accept, features) };
        assert_eq!((accept.operation, bench.is_ours(fd)), (request::ACCEPT, false));
        assert!(bench.hears(|heard| matches!(heard, ringway_channel::Operation::Close { linger_s: None })));
    }
}

/// A socket that is not the stack's yet could become so, under a number that the ring does not go by.
#[test]
fn what_a_program_opens_beside_those_in_its_ring_is_the_kernels() {
    let bench = Bench::new();
    let open = |bench: &Bench| {
        let (fd, peer) = (bench.kernel_socket(libc::IPPROTO_TCP), sockaddr([192, 0, 2, 9], 99));
        bench.libc.refuses("connect", libc::EXDEV);
        // SAFETY: 16 bytes of a name.
        (fd, unsafe { sockets::connect(fd, peer.as_ptr().cast(), peer.len() as u32) })
    };
    bench.posix.before_ring_keeps(bench.kernel_socket(0));
    let kept = bench.kernel_socket(libc::IPPROTO_TCP);
    bench.posix.before_ring_use(kept);
    let (fd, answer) = open(&bench);
    assert_eq!((answer, bench.is_ours(fd)), (0, true), "neither says that the program's sockets go through the ring");
    bench.posix.before_ring_keeps(kept);
    let (later, answer) = open(&bench);
    assert_eq!((answer, crate::c::errno().0, bench.is_ours(later)), (-1, libc::EXDEV, false));
    assert!(bench.is_ours(fd), "no request has named it");
}

#[test]
fn a_ring_that_the_kernel_reads_by_itself_takes_all() {
    let bench = Bench::new();
    let fd = bench.connection();
    let Some(_ring) = Own::with(SQPOLL) else { return };
    assert!(!bench.is_ours(fd));
}

#[test]
fn a_ring_that_was_made_elsewhere_takes_all() {
    let bench = Bench::new();
    let (fd, unknown) = (bench.connection(), placeholder());
    before_enter(-1, 1, 0);
    before_enter(unknown, 0, 0);
    assert!(bench.is_ours(fd), "nothing is submitted");
    before_enter(unknown, 1, 0);
    assert!(!bench.is_ours(fd));
}

#[test]
fn a_ring_of_another_size_is_not_read() {
    let bench = Bench::new();
    let Some(ring) = Own::with(0) else { return };
    let fd = bench.connection();
    // SAFETY: the kernel is not asked.
    unsafe { before_register(ring.fd, REGISTER_RESIZE_RINGS, ptr::null(), 1) };
    assert!(bench.is_ours(fd));
    before_enter(ring.fd, 1, 0);
    assert!(!bench.is_ours(fd));
}

#[test]
fn a_number_that_is_no_ring_any_more_is_not_read() {
    let bench = Bench::new();
    let Some(ring) = Own::with(0) else { return };
    let (fd, number) = (bench.connection(), ring.fd);
    let other = placeholder();
    // SAFETY: numbers of ours.
    assert_eq!(unsafe { libc::syscall(libc::SYS_dup2, other, number) }, c_long::from(number));
    before_enter(number, 1, 0);
    assert!(!bench.is_ours(fd), "what it is cannot be known");
}

#[test]
fn strict_mode_has_no_rings() {
    let _lonely = Lonely::new(Settings { strict: true, ..Settings::default() });
    let mut params = params(0);
    // SAFETY: a local; and a ring that liburing does not get to see.
    unsafe {
        assert_eq!((setup(8, &raw mut params), crate::c::errno()), (-1, Errno::NOSYS));
        assert_eq!(liburing::io_uring_setup(8, &raw mut params), -Errno::NOSYS.0);
        assert_eq!(liburing::io_uring_queue_init(8, ptr::null_mut(), 0), -Errno::NOSYS.0);
        assert_eq!(liburing::io_uring_queue_init_params(8, ptr::null_mut(), &raw mut params), -Errno::NOSYS.0);
        let none = ptr::null_mut();
        assert_eq!(liburing::io_uring_queue_init_mem(8, none, &raw mut params, none.cast(), 0), -Errno::NOSYS.0);
    }
}

#[test]
fn what_liburing_submits_and_keeps_is_looked_at_first() {
    let bench = Bench::new();
    let fds = [0; 13].map(|_| bench.connection());
    for name in [
        "io_uring_submit",
        "io_uring_submit_and_wait",
        "io_uring_submit_and_wait_timeout",
        "io_uring_submit_and_wait_min_timeout",
        "io_uring_submit_and_wait_reg",
        "io_uring_submit_and_get_events",
        "io_uring_register_files",
        "io_uring_register_files_tags",
        "io_uring_register_files_update",
        "io_uring_register_files_update_tag",
        "io_uring_enter",
        "io_uring_enter2",
        "io_uring_register",
    ] {
        bench.libc.answers(name, 7);
    }
    let mut requests = [Request::default(); 8];
    let mut ring = liburing::Ring::of(&mut requests);
    let (ring, none) = (&raw mut ring, ptr::null_mut());
    let unknown = placeholder() as c_uint;
    type Call<'a> = &'a dyn Fn(*const c_int) -> c_int;
    // SAFETY: locals; liburing itself is not called.
    let calls: [Call<'_>; 13] = unsafe {
        [
            &|_| liburing::io_uring_submit(ring),
            &|_| liburing::io_uring_submit_and_wait(ring, 1),
            &|_| liburing::io_uring_submit_and_wait_timeout(ring, none, 1, none, ptr::null()),
            &|_| liburing::io_uring_submit_and_wait_min_timeout(ring, none, 1, none, 1, ptr::null()),
            &|_| liburing::io_uring_submit_and_wait_reg(ring, none, 1, 0),
            &|_| liburing::io_uring_submit_and_get_events(ring),
            &|fd| liburing::io_uring_register_files(ring, fd, 1),
            &|fd| liburing::io_uring_register_files_tags(ring, fd, none, 1),
            &|fd| liburing::io_uring_register_files_update(ring, 0, fd, 1),
            &|fd| liburing::io_uring_register_files_update_tag(ring, 0, fd, none, 1),
            &|_| liburing::io_uring_enter(unknown, 1, 0, 0, none.cast()),
            &|_| liburing::io_uring_enter2(unknown, 1, 0, 0, none, 0),
            &|fd| liburing::io_uring_register(unknown, REGISTER_FILES, fd.cast(), 1),
        ]
    };
    for (call, fd) in calls.into_iter().zip(fds) {
        // The place of the request that was not submitted yet.
        requests[2] = request(SHUTDOWN, fd);
        assert_eq!((call(&raw const fd), bench.is_ours(fd)), (7, false));
    }
}
