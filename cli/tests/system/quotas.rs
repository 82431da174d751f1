//! What one user, peer or program may use up of what all use.

use crate::harness::{Client, DEADLINE, Net, Server};

const READERS: &str = include_str!("quotas/readers.py");

/// A thousand peers that ask for 4 MiB each and read nothing hold back nobody else.
#[test]
fn slow_readers_leave_room_for_others() {
    let net = Net::new();
    let script = net.file("readers.py", READERS);
    let address = net.address(Server);
    let readers = |role| ["python3", &script, role, &address, "8080"];
    let mut server = net.spawn_ringway(Server, &readers("server"));
    net.wait_served(Server, 8080, &mut server);
    let mut slow = net.spawn(Client, &readers("slow"));
    net.wait_printed(&mut slow, "asked for much");
    let served = net.run(Client, &readers("served")).success().stdout;
    assert_eq!(served, "all answered\n");
    drop(slow);
    let served = net.spawn(Client, &readers("served")).finish(DEADLINE).success().stdout;
    assert_eq!(served, "all answered\n", "after the slow ones have gone");
}
