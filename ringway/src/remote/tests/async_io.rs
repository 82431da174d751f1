//! Code that takes any `AsyncRead` and `AsyncWrite`, over streams of a service.

use std::thread;

use super::house::{House, block_on};
use super::{pair, pattern};
use crate::tests::async_io::{echo, read_to_end, write_all};

/// What one program writes comes back from another, until the end.
#[test]
fn any_stream_will_do() {
    let house = House::new();
    let (near, far) = pair(&house);
    let bytes = pattern(300_000);
    thread::scope(|scope| {
        scope.spawn(|| block_on(echo(&far, &far)).expect("it is connected"));
        scope.spawn(|| {
            block_on(write_all(&near, &bytes)).expect("it is connected");
            near.shutdown(std::net::Shutdown::Write).expect("it is connected");
        });
        assert!(block_on(read_to_end(&near)).expect("it is connected") == bytes);
    });
}
