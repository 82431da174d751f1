//! The table, as the tool calls it: its main thread brings packets and time, its second thread makes the calls that block.

use super::*;

use core::ptr::{null, null_mut};
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

/// A table, and the peer at 192.0.2.1:8080 whose packets the tool makes.
struct Tool(Interface);

// SAFETY: as the tool does, two threads call the functions of one table.
unsafe impl Sync for Tool {}

impl Drop for Tool {
    fn drop(&mut self) {
        (self.0.free)(self.0.userdata);
    }
}

fn tool(flags: &core::ffi::CStr) -> Tool {
    let mut table = core::mem::MaybeUninit::<Interface>::uninit();
    // SAFETY: the flags are a C string, and the table is as large as it must be; it is filled afterwards.
    Tool(unsafe {
        packetdrill_interface_init(flags.as_ptr(), table.as_mut_ptr());
        table.assume_init()
    })
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().expect("a call has failed")
}

fn raw(address: SocketAddr) -> libc::sockaddr_in {
    let SocketAddr::V4(address) = address else { panic!("an IPv4 address") };
    let sin_addr = libc::in_addr { s_addr: u32::from(*address.ip()).to_be() };
    libc::sockaddr_in { sin_family: libc::AF_INET as u16, sin_port: address.port().to_be(), sin_addr, sin_zero: [0; 8] }
}

const ADDRESS_LEN: socklen_t = size_of::<libc::sockaddr_in>() as socklen_t;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// Makes a segment of the peer to 192.168.0.1:80: flags, numbers, payload.
fn segment(flags: u8, numbers: (u32, u32), payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0_u8; 40];
    packet.extend_from_slice(payload);
    let len = packet.len() as u16;
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    (packet[8], packet[9]) = (64, 6);
    packet[12..24].copy_from_slice(&[192, 0, 2, 1, 192, 168, 0, 1, 0x1f, 0x90, 0, 80]);
    packet[24..28].copy_from_slice(&numbers.0.to_be_bytes());
    packet[28..32].copy_from_slice(&numbers.1.to_be_bytes());
    (packet[32], packet[33]) = (5 << 4, flags);
    packet[34..36].copy_from_slice(&60_000_u16.to_be_bytes());
    let sum = |bytes: &[u8], start: u32| {
        let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
        let total = words.fold(start, |total, word| total + word);
        let folded = (total & 0xffff) + (total >> 16);
        !((folded & 0xffff) + (folded >> 16)) as u16
    };
    let header = sum(&packet[..20], 0);
    packet[10..12].copy_from_slice(&header.to_be_bytes());
    let transport = sum(&packet[12..], 6 + u32::from(len) - 20);
    packet[36..38].copy_from_slice(&transport.to_be_bytes());
    packet
}

impl Tool {
    fn now(&self) -> i64 {
        let mut time = timeval { tv_sec: 0, tv_usec: 0 };
        assert_eq!((self.0.gettimeofday)(self.0.userdata, &raw mut time, null_mut()), 0);
        time.tv_sec * 1_000_000 + time.tv_usec
    }

    fn deliver(&self, packet: &[u8]) {
        assert_eq!((self.0.netdev_send)(self.0.userdata, packet.as_ptr().cast(), packet.len()), 0);
    }

    fn next_packet(&self) -> Vec<u8> {
        let mut bytes = vec![0; 70_000];
        let (mut len, mut time) = (bytes.len(), 0);
        let answer = (self.0.netdev_receive)(self.0.userdata, bytes.as_mut_ptr().cast(), &raw mut len, &raw mut time);
        assert_eq!(answer, 0, "a packet");
        bytes.truncate(len);
        bytes
    }

    /// Returns the payload of the next packet that has some.
    fn next_payload(&self) -> Vec<u8> {
        let mut packets = std::iter::repeat_with(|| self.next_packet());
        packets.find(|packet| packet.len() > 40).expect("a packet with payload")[40..].to_vec()
    }

    fn socket(&self) -> c_int {
        let fd = (self.0.socket)(self.0.userdata, libc::AF_INET, libc::SOCK_STREAM, 0);
        assert!(fd > 2);
        fd
    }

    fn session(&self) -> &session::Session {
        // SAFETY: the table was made by `packetdrill_interface_init` and is not freed.
        unsafe { &*self.0.userdata.cast() }
    }

    fn listener(&self, port: u16) -> c_int {
        let fd = self.socket();
        let local = raw(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port));
        assert_eq!((self.0.bind)(self.0.userdata, fd, (&raw const local).cast(), ADDRESS_LEN), 0);
        assert_eq!((self.0.listen)(self.0.userdata, fd, 1), 0);
        fd
    }

    /// Opens the peer's connection; returns the number that the peer acknowledges.
    fn open(&self) -> u32 {
        self.deliver(&segment(SYN, (0, 0), &[]));
        let reply = self.next_packet();
        let ack = u32::from_be_bytes(reply[24..28].try_into().expect("four bytes")).wrapping_add(1);
        self.deliver(&segment(ACK, (1, ack), &[]));
        ack
    }

    /// A connection of the peer: its descriptor, and what the peer acknowledges.
    fn connected(&self) -> (c_int, u32) {
        let listener = self.listener(80);
        let ack = self.open();
        let fd = (self.0.accept)(self.0.userdata, listener, null_mut(), null_mut());
        assert!(fd > 2);
        (fd, ack)
    }

    fn read(&self, fd: c_int, count: usize) -> Result<Vec<u8>, i32> {
        let mut bytes = vec![0; count];
        match (self.0.read)(self.0.userdata, fd, bytes.as_mut_ptr().cast(), count) {
            -1 => Err(errno()),
            read => {
                bytes.truncate(read as usize);
                Ok(bytes)
            }
        }
    }

    fn write(&self, fd: c_int, bytes: &[u8]) -> ssize_t {
        (self.0.write)(self.0.userdata, fd, bytes.as_ptr().cast(), bytes.len())
    }

    fn option(&self, fd: c_int, level: c_int, name: c_int) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        let mut len = bytes.len() as socklen_t;
        assert_eq!((self.0.getsockopt)(self.0.userdata, fd, level, name, bytes.as_mut_ptr().cast(), &raw mut len), 0);
        bytes.truncate(len as usize);
        bytes
    }
}

/// What stands for a descriptor in the process.
fn file_of(fd: c_int) -> Option<std::path::PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()
}

/// A whole script: a server, data both ways, what a program asks in between, and the end.
#[test]
fn a_script_runs_through_the_table() {
    let tool = tool(c"local_ip=192.168.0.1");
    let listener = tool.listener(80);
    let ack = tool.open();
    let mut peer = raw("0.0.0.0:0".parse().expect("an address"));
    let mut len = ADDRESS_LEN;
    let fd = (tool.0.accept)(tool.0.userdata, listener, (&raw mut peer).cast(), &raw mut len);
    assert_eq!((peer.sin_port, len), (8_080_u16.to_be(), ADDRESS_LEN));
    let [listening, connection] = [listener, fd].map(file_of);
    assert_eq!((listening, connection), (Some("/dev/null".into()), Some("/dev/null".into())));
    tool.deliver(&segment(ACK, (1, ack), b"question"));
    assert_eq!(tool.read(fd, 100), Ok(b"question".to_vec()));
    assert_eq!(tool.write(fd, b"answer"), 6);
    assert_eq!(tool.next_payload(), b"answer");
    let mut queued: c_int = 0;
    assert_eq!((tool.0.ioctl)(tool.0.userdata, fd, libc::TIOCOUTQ, (&raw mut queued).cast()), 0);
    assert_eq!(queued, 6);
    assert_eq!(tool.option(fd, libc::IPPROTO_TCP, libc::TCP_INFO)[0], 1, "ESTABLISHED");
    assert_eq!((tool.0.close)(tool.0.userdata, fd), 0);
    assert_eq!(tool.read(fd, 1), Err(libc::EBADF));
}

/// A call of the second thread waits while the main thread makes calls that wait too: with a time limit, and without.
#[test]
fn calls_of_both_threads_wait() {
    let tool = tool(c"");
    let (fd, ack) = tool.connected();
    thread::scope(|scope| {
        let second = scope.spawn(|| (tool.read(fd, 100), tool.now()));
        while tool.session().lock().blocked.is_empty() {
            thread::yield_now();
        }
        let mut set = [pollfd { fd, events: libc::POLLIN, revents: 0 }];
        let before = tool.now();
        assert_eq!((tool.0.poll)(tool.0.userdata, set.as_mut_ptr(), 1, 20), 0);
        assert!((20_000..20_100).contains(&(tool.now() - before)));
        // Nothing is under way that could end this one.
        let listener = tool.listener(81);
        assert_eq!((tool.0.accept)(tool.0.userdata, listener, null_mut(), null_mut()), -1);
        assert_eq!(errno(), libc::EAGAIN);
        tool.deliver(&segment(ACK, (1, ack), b"data"));
        let arrived = tool.now();
        let (read, ended) = second.join().expect("it does not panic");
        assert_eq!(read, Ok(b"data".to_vec()));
        assert!(ended <= arrived, "{ended} {arrived}");
    });
}

/// SO_RCVTIMEO ends a call of the main thread in virtual time.
#[test]
fn a_timeout_passes() {
    let tool = tool(c"");
    let (fd, _) = tool.connected();
    let limit = timeval { tv_sec: 0, tv_usec: 300_000 };
    let len = size_of::<timeval>() as socklen_t;
    let name = libc::SO_RCVTIMEO;
    assert_eq!((tool.0.setsockopt)(tool.0.userdata, fd, libc::SOL_SOCKET, name, (&raw const limit).cast(), len), 0);
    let before = tool.now();
    assert_eq!(tool.read(fd, 1), Err(libc::EAGAIN));
    assert!((300_000..300_100).contains(&(tool.now() - before)));
}

/// What a program asks of its queues and of its options' defaults.
#[test]
fn queues_and_defaults_are_told() {
    let tool = tool(c"mtu=9000");
    let (fd, ack) = tool.connected();
    let payload: Vec<u8> = (0..8_900_u32).map(|at| at as u8).collect();
    tool.deliver(&segment(ACK, (1, ack), &payload));
    let memory = tool.option(fd, libc::SOL_SOCKET, libc::SO_MEMINFO);
    assert_eq!((memory.len(), memory.first_chunk()), (36, Some(&8_900_u32.to_ne_bytes())));
    assert_eq!(tool.read(fd, 20_000), Ok(payload));
    let setting = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_keepalive_time").unwrap_or("7200".into());
    let expected: i32 = setting.trim().parse().expect("a number");
    for fd in [fd, tool.socket()] {
        assert_eq!(tool.option(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), expected.to_ne_bytes());
    }
}

/// splice(2) from nothing waits, unless it must not.
#[test]
fn splice_of_nothing_waits() {
    let tool = tool(c"");
    let (fd, ack) = tool.connected();
    let mut ends = [0; 2];
    assert_eq!((tool.0.pipe)(tool.0.userdata, ends.as_mut_ptr()), 0);
    let [reader, writer] = ends;
    let splice = |from, to, flags| (tool.0.splice)(tool.0.userdata, from, null_mut(), to, null_mut(), 100, flags);
    for (from, to) in [(fd, writer), (reader, fd)] {
        assert_eq!((splice(from, to, libc::SPLICE_F_NONBLOCK), errno()), (-1, libc::EAGAIN));
        // On the main thread nothing can come.
        assert_eq!((splice(from, to, 0), errno()), (-1, libc::EAGAIN));
    }
    tool.deliver(&segment(ACK, (1, ack), b"data"));
    assert_eq!(splice(fd, writer, 0), 4);
    assert_eq!(splice(reader, fd, 0), 4);
    assert_eq!(tool.next_payload(), b"data");
}

/// Null for something of nonzero size is EFAULT, as on Linux.
#[test]
fn null_is_refused() {
    let tool = tool(c"");
    let (fd, _) = tool.connected();
    let (table, user) = (&tool.0, tool.0.userdata);
    let epoll = (table.epoll_create)(user, 1);
    let pieces = [iovec { iov_base: null_mut(), iov_len: 10 }];
    // SAFETY: all bytes zero is an empty message.
    let mut message: msghdr = unsafe { core::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (pieces.as_ptr().cast_mut(), 1);
    let refused = |call: &dyn Fn() -> i64| (call(), errno()) == (-1, libc::EFAULT);
    let fast = libc::MSG_FASTOPEN;
    assert!(refused(&|| (table.read)(user, fd, null_mut(), 10) as i64));
    assert!(refused(&|| (table.recv)(user, fd, null_mut(), 10, 0) as i64));
    assert!(refused(&|| (table.recvfrom)(user, fd, null_mut(), 10, 0, null_mut(), null_mut()) as i64));
    assert!(refused(&|| (table.readv)(user, fd, null(), 1) as i64));
    assert!(refused(&|| (table.readv)(user, fd, pieces.as_ptr(), 1) as i64));
    assert!(refused(&|| (table.recvmsg)(user, fd, null_mut(), 0) as i64));
    assert!(refused(&|| (table.recvmsg)(user, fd, (&raw const message).cast_mut(), 0) as i64));
    assert!(refused(&|| (table.write)(user, fd, null(), 10) as i64));
    assert!(refused(&|| (table.send)(user, fd, null(), 10, 0) as i64));
    assert!(refused(&|| (table.sendto)(user, fd, null(), 10, 0, null(), 0) as i64));
    assert!(refused(&|| (table.sendto)(user, fd, null(), 10, fast, null(), 0) as i64));
    assert!(refused(&|| (table.writev)(user, fd, pieces.as_ptr(), 1) as i64));
    assert!(refused(&|| (table.sendmsg)(user, fd, null(), 0) as i64));
    assert!(refused(&|| (table.sendmsg)(user, fd, &raw const message, fast) as i64));
    assert!(refused(&|| (table.bind)(user, fd, null(), ADDRESS_LEN).into()));
    assert!(refused(&|| (table.connect)(user, fd, null(), ADDRESS_LEN).into()));
    assert!(refused(&|| (table.setsockopt)(user, fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, null(), 4).into()));
    assert!(refused(&|| (table.getsockopt)(user, fd, libc::SOL_SOCKET, libc::SO_ERROR, null_mut(), null_mut()).into()));
    assert!(refused(&|| (table.poll)(user, null_mut(), 1, 0).into()));
    assert!(refused(&|| (table.epoll_ctl)(user, epoll, libc::EPOLL_CTL_ADD, fd, null_mut()).into()));
    assert!(refused(&|| (table.epoll_wait)(user, epoll, null_mut(), 1, 0).into()));
    assert!(refused(&|| (table.pipe)(user, null_mut()).into()));
}

/// epoll and poll report the same, and a descriptor that is not open is POLLNVAL.
#[test]
fn readiness_is_reported() {
    let tool = tool(c"");
    let (fd, ack) = tool.connected();
    let (table, user) = (&tool.0, tool.0.userdata);
    let epoll = (table.epoll_create)(user, 1);
    let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: 77 };
    assert_eq!((table.epoll_ctl)(user, epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event), 0);
    let mut events = [epoll_event { events: 0, u64: 0 }; 4];
    assert_eq!((table.epoll_wait)(user, epoll, events.as_mut_ptr(), 4, 5), 0);
    tool.deliver(&segment(ACK, (1, ack), b"data"));
    assert_eq!((table.epoll_wait)(user, epoll, events.as_mut_ptr(), 4, -1), 1);
    let (bits, word) = (events[0].events, events[0].u64);
    assert_eq!((bits, word), (libc::EPOLLIN as u32, 77));
    let entry = |fd| pollfd { fd, events: libc::POLLIN | libc::POLLOUT, revents: 0 };
    let mut set = [entry(fd), entry(9_999), entry(-1)];
    assert_eq!((table.poll)(user, set.as_mut_ptr(), 3, -1), 2);
    assert_eq!(set.map(|entry| entry.revents), [libc::POLLIN | libc::POLLOUT, libc::POLLNVAL, 0]);
}
