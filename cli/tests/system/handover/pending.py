"""Datagrams that wait while the service ends: `receive PORT [PEER PEER_PORT]`, `send ADDRESS PORT FIRST COUNT`, `hold`."""
import select, signal, socket, sys

s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
if sys.argv[1] != "receive":
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("", 5700))
if sys.argv[1] == "hold":
    # Answers find a socket when the senders have ended.
    print("ready", flush=True)
    print(s.recv(100).decode())
    sys.exit()
if sys.argv[1] == "send":
    address, port, first, count = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
    for number in range(first, first + count):
        s.sendto(b"%d" % number, (address, port))
    sys.exit()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
s.bind(("", int(sys.argv[2])))
if sys.argv[3:]:
    s.connect((sys.argv[3], int(sys.argv[4])))
print("ready", flush=True)
signal.sigwait([signal.SIGUSR1])
watched = select.epoll()
watched.register(s, select.EPOLLIN)
number = -1
while number != 9:
    events = watched.poll(20)
    # The stack and the kernel each tell of their datagrams.
    assert set(events) == {(s.fileno(), select.EPOLLIN)}, events
    data, peer = s.recvfrom(100)
    number = int(data)
    print(number, flush=True)
    if number == 0:
        # A datagram leaves meanwhile.
        print(s.send(b"seen") if sys.argv[3:] else s.sendto(b"seen", peer), flush=True)
