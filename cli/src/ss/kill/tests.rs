use ringway_channel::{KernelPath, KernelReason};

use super::words;
use crate::ss::tests::socket;

#[test]
fn only_connections_of_the_stack_are_named() {
    assert_eq!(words(&socket(1, "10.0.0.1:80", "10.0.0.2:40000")).as_deref(), Some("kill flow 10.0.0.1:80 10.0.0.2:40000"));
    let both = socket(8, "[2001:db8::1]:80", "[2001:db8::2]:9");
    assert_eq!(words(&both).as_deref(), Some("kill flow [2001:db8::1]:80 [2001:db8::2]:9"));
    assert_eq!(words(&socket(10, "0.0.0.0:80", "0.0.0.0:0")), None);
    let mut datagrams = socket(1, "10.0.0.1:53", "10.0.0.2:40000");
    datagrams.datagrams = true;
    assert_eq!(words(&datagrams), None);
    let mut kernels = socket(1, "10.0.0.1:80", "0.0.0.0:0");
    kernels.kernel = Some(KernelPath { reason: KernelReason::Bulk, count: 3 });
    assert_eq!(words(&kernels), None);
}
