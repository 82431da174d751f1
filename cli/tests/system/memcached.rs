//! memcached with four threads.

use crate::harness::*;

/// Stores values of many sizes over several connections, reads them back, prints a digest of all.
const CLIENT: &str = "
import hashlib, socket, sys
address = (sys.argv[1], 11211)
def value(n): return hashlib.sha256(str(n).encode()).digest() * (n * n * 3 + 1)
links = [socket.create_connection(address, 10) for _ in range(8)]
files = [link.makefile('rwb') for link in links]
for n in range(96):
    f, v = files[n % 8], value(n)
    f.write(b'set key%d 0 0 %d\\r\\n' % (n, len(v)) + v + b'\\r\\n'); f.flush()
    assert f.readline() == b'STORED\\r\\n'
whole = hashlib.sha256()
for n in range(96):
    f = files[(n * 5 + 3) % 8]
    f.write(b'get key%d\\r\\n' % n); f.flush()
    word, key, flags, size = f.readline().split()
    body = f.read(int(size)); assert f.read(2) == b'\\r\\n' and f.readline() == b'END\\r\\n'
    assert body == value(n), n
    whole.update(body)
print(whole.hexdigest())";

fn expected() -> String {
    use sha2::{Digest, Sha256};
    let mut whole = Sha256::new();
    for n in 0..96_usize {
        whole.update(Sha256::digest(n.to_string().as_bytes()).repeat(n * n * 3 + 1));
    }
    whole.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

const SERVER: &[&str] = &["memcached", "-u", "root", "-l", "0.0.0.0", "-p", "11211", "-U", "0", "-t", "4"];

#[test]
fn memcached_serves_kernel_clients() {
    let net = Net::new();
    let mut server = net.spawn_ringway(Server, SERVER);
    net.wait_served(Server, 11211, &mut server);
    let printed = net.untouched(Server, || net.output(Client, &["python3", "-c", CLIENT, &net.address(Server)]));
    assert_eq!(printed.trim(), expected());
}

#[test]
fn python_client_uses_a_kernel_memcached() {
    let net = Net::new();
    let mut server = net.spawn(Server, SERVER);
    net.wait_listening(Server, 11211, &mut server);
    let printed = net.untouched(Client, || net.output_ringway(Client, &["python3", "-c", CLIENT, &net.address(Server)]));
    assert_eq!(printed.trim(), expected());
}
