//! What a middleware leaves to the inner device, and what it does not.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use ringway_shm::{Burst, Duration, Instant, Room};

use crate::{Capabilities, Counters, Device, Medium, Rooms};

/// Notes the calls that reach it.
struct Inner(Rc<RefCell<Vec<&'static str>>>);

impl Device for Inner {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            medium: Medium::Ip,
            mtu: 1500,
            receives_partial_checksums: false,
            sends_partial_checksums: false,
            segmentation_max_bytes: 0,
            segmentation_max_segments: 0,
            segments_udp: false,
            receive_max_bytes: 99,
            gathers: false,
            copies_multicast: false,
            burst: 1,
        }
    }
    fn receive(&mut self, _: Instant, _: &mut Burst) -> io::Result<usize> {
        self.0.borrow_mut().push("receive");
        Ok(1)
    }
    fn receive_to(&mut self, _: Instant, _: &mut Burst, _: &mut dyn Rooms) -> io::Result<usize> {
        self.0.borrow_mut().push("receive_to");
        Ok(1)
    }
    fn transmit(&mut self, _: Instant, _: &mut Burst) -> io::Result<usize> {
        Ok(2)
    }
    fn wait_fds<'a>(&'a self, _: &mut Vec<BorrowedFd<'a>>) {}
    fn arm(&mut self) -> bool {
        true
    }
    fn expect(&mut self, _: usize) {
        self.0.borrow_mut().push("expect");
    }
    fn first_arrival(&self) -> Option<Duration> {
        Some(Duration::from_millis(3))
    }
    fn poll_timeout(&self) -> Option<Instant> {
        Some(Instant::from_millis(4))
    }
    fn counters(&self) -> Counters {
        Counters { tx_dropped: 5, ..Counters::default() }
    }
    fn advice(&self) -> Option<String> {
        Some("six".into())
    }
}

/// Sees what arrives.
struct Filter(Inner, u32);

impl crate::Middleware for Filter {
    fn inner(&self) -> &dyn Device {
        &self.0
    }
    fn inner_mut(&mut self) -> &mut dyn Device {
        &mut self.0
    }
    fn receive(&mut self, now: Instant, burst: &mut Burst) -> io::Result<usize> {
        self.1 += 1;
        self.0.receive(now, burst)
    }
}

struct NoRooms;

impl Rooms for NoRooms {
    fn room(&mut self, _: &[u8], _: usize) -> Option<(usize, Room)> {
        None
    }
}

/// Everything is the inner device's, except what the middleware does itself; packets with rooms pass it too.
#[test]
fn a_middleware_is_its_inner_device_but_for_its_own_methods() {
    let calls = Rc::new(RefCell::new(Vec::new()));
    let mut filter = Filter(Inner(calls.clone()), 0);
    let mut burst = Burst::default();
    assert_eq!(filter.capabilities().receive_max_bytes, 99);
    assert_eq!(filter.transmit(Instant::ZERO, &mut burst).ok(), Some(2));
    assert!(filter.arm());
    filter.expect(7);
    assert_eq!(filter.first_arrival(), Some(Duration::from_millis(3)));
    assert_eq!(filter.poll_timeout(), Some(Instant::from_millis(4)));
    assert_eq!(filter.counters().tx_dropped, 5);
    assert_eq!(filter.advice().as_deref(), Some("six"));
    assert_eq!(filter.receive_to(Instant::ZERO, &mut burst, &mut NoRooms).ok(), Some(1));
    assert_eq!(filter.1, 1, "the middleware has seen the packets");
    assert_eq!(*calls.borrow(), ["expect", "receive"]);
}
