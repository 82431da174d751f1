use super::*;

/// Both ends of a stream.
fn pair() -> [c_int; 2] {
    let mut ends = [0; 2];
    // SAFETY: it lives until the call returns.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0, ends.as_mut_ptr()) };
    assert_eq!(made, 0);
    ends
}

fn end(ends: [c_int; 2]) {
    for fd in ends {
        // SAFETY: they are the caller's.
        unsafe { libc::close(fd) };
    }
}

#[test]
fn a_buffer_that_was_read_is_written_and_gone() {
    let ends = pair();
    // SAFETY: buffers and bytes are this function's.
    unsafe {
        assert_eq!(libc::write(ends[0], b"hello".as_ptr().cast(), 5), 5);
        let mut buffer = ptr::null_mut();
        assert_eq!(z_read(ends[1], &raw mut buffer, 4096), 5);
        assert!(is_one(buffer));
        assert_eq!(std::slice::from_raw_parts(ff_mbuf_mtod(buffer).cast::<u8>(), 5), b"hello");
        assert_eq!(z_write(ends[1], buffer, 6), -1);
        assert_eq!(z_write(ends[1], buffer, 5), 5);
        // It is not the program's any more.
        assert_eq!(z_write(ends[1], buffer, 5), -1);
        assert_eq!(Errno::last(), Errno(libc::EINVAL));
        let mut bytes = [0_u8; 8];
        assert_eq!(libc::read(ends[0], bytes.as_mut_ptr().cast(), 8), 5);
        assert_eq!(&bytes[..5], b"hello");
        assert_eq!((z_read(ends[1], &raw mut buffer, 4096), Errno::last(), buffer), (-1, Errno(libc::EAGAIN), ptr::null_mut()));
    }
    end(ends);
}

#[test]
fn a_part_that_was_sent_leaves_the_rest() {
    let ends = pair();
    let mut to = ZeroCopy { buffer: ptr::null_mut(), at: ptr::null_mut(), off: 0, len: 0 };
    let bytes: Vec<u8> = (0..4 << 20).map(|n| (n % 251) as u8).collect();
    let mut got = Vec::new();
    // SAFETY: buffers and bytes are this function's.
    unsafe {
        assert_eq!(ff_zc_mbuf_get(&raw mut to, bytes.len() as c_int), 0);
        for part in bytes.chunks(100_000) {
            assert_eq!(ff_zc_mbuf_write(&raw mut to, part.as_ptr().cast(), part.len() as c_int), part.len() as c_int);
        }
        assert_eq!(ff_zc_mbuf_write(&raw mut to, bytes.as_ptr().cast(), 1), -1);
        let mut left = bytes.len();
        while left > 0 {
            let sent = crate::bytes::ff_write(ends[0], to.buffer.cast(), left);
            assert!(sent > 0, "{sent}");
            left -= sent as usize;
            let start = got.len();
            got.resize(start + sent as usize, 0);
            let mut filled = start;
            while filled < got.len() {
                let count = libc::read(ends[1], got[filled..].as_mut_ptr().cast(), got.len() - filled);
                assert!(count > 0, "{count}");
                filled += count as usize;
            }
        }
    }
    assert!(got == bytes);
    assert!(at(to.buffer.cast()).is_err());
    end(ends);
}

#[test]
fn a_full_socket_keeps_the_buffer_of_z_write_alone() {
    let ends = pair();
    let mut to = ZeroCopy { buffer: ptr::null_mut(), at: ptr::null_mut(), off: 0, len: 0 };
    let zeros = [0_u8; 65536];
    // SAFETY: buffers and bytes are this function's.
    unsafe {
        while libc::write(ends[0], zeros.as_ptr().cast(), zeros.len()) > 0 {}
        let kept = ff_mbuf_get(ptr::null_mut(), ptr::null_mut(), zeros.as_ptr().cast(), 5000);
        assert_eq!((z_write(ends[0], kept, 5000), Errno::last()), (-1, Errno(libc::EAGAIN)));
        assert!(at(kept).is_ok());
        ff_mbuf_free(kept);
        assert_eq!(ff_zc_mbuf_get(&raw mut to, 5000), 0);
        assert_eq!((crate::bytes::ff_write(ends[0], to.buffer.cast(), 5000), Errno::last()), (-1, Errno(libc::EAGAIN)));
        assert!(at(to.buffer.cast()).is_err());
    }
    end(ends);
}

#[test]
fn a_chain_is_walked_copied_and_sent_whole() {
    let ends = pair();
    // SAFETY: buffers and bytes are this function's.
    unsafe {
        let first = ff_mbuf_get(ptr::null_mut(), ptr::null_mut(), b"one ".as_ptr().cast(), 4);
        let second = ff_mbuf_get(first, ptr::null_mut(), b"two".as_ptr().cast(), 3);
        assert!(!second.is_null());
        let mut copy = [0_u8; 5];
        assert_eq!(ff_mbuf_copydata(first, copy.as_mut_ptr().cast(), 2, 5), 0);
        assert_eq!(&copy, b"e two");
        assert_eq!(ff_mbuf_copydata(first, copy.as_mut_ptr().cast(), 3, 5), -1);
        let (mut walk, mut data, mut len) = (first, ptr::null_mut(), 0);
        assert_eq!((ff_next_mbuf(&raw mut walk, &raw mut data, &raw mut len), len, walk), (0, 4, second));
        assert_eq!((ff_next_mbuf(&raw mut walk, &raw mut data, &raw mut len), len), (0, 3));
        assert_eq!(ff_next_mbuf(&raw mut walk, &raw mut data, &raw mut len), -1);
        assert_eq!(z_write(ends[0], first, 7), 7);
        let mut bytes = [0_u8; 8];
        assert_eq!(libc::read(ends[1], bytes.as_mut_ptr().cast(), 8), 7);
        assert_eq!(&bytes[..7], b"one two");
    }
    end(ends);
}

#[test]
fn what_is_no_buffer_is_refused() {
    let own = [0_u64; 512];
    let mut to = ZeroCopy { buffer: own.as_ptr().cast_mut().cast(), at: ptr::null_mut(), off: 0, len: 10 };
    // SAFETY: what is given is this function's.
    unsafe {
        assert_eq!(ff_zc_mbuf_get(ptr::null_mut(), 10), -1);
        assert_eq!(ff_zc_mbuf_get(&raw mut to, -1), -1);
        assert_eq!(ff_zc_mbuf_get(&raw mut to, c_int::MAX), -1);
        assert_eq!(ff_zc_mbuf_write(&raw mut to, own.as_ptr().cast(), 1), -1);
        assert_eq!(ff_zc_mbuf_read(&raw mut to, own.as_ptr().cast_mut().cast(), 1), -1);
        assert_eq!(z_write(1, own.as_ptr().cast(), 1), -1);
        ff_mbuf_free(own.as_ptr().cast_mut().cast());
        assert!(ff_mbuf_mtod(own.as_ptr().cast_mut().cast()).is_null());
        let buffer = memory().expect("there is memory").take(5000).expect("there is room");
        let inside = buffer.cast::<u8>().add(2048);
        assert!(is_one(inside.cast()) && at(inside.cast()).is_err());
        free(buffer);
    }
}
