"""Socket options: what is set is read back; numbers that programs rely on."""
from common import *

TABLE = [
    (socket.SOL_SOCKET, "SO_REUSEADDR"), (socket.SOL_SOCKET, "SO_KEEPALIVE"), (socket.IPPROTO_TCP, "TCP_NODELAY"),
    (socket.IPPROTO_TCP, "TCP_CORK"), (socket.IPPROTO_TCP, "TCP_QUICKACK"), (socket.SOL_SOCKET, "SO_OOBINLINE"),
]
NUMBERS = [("TCP_KEEPIDLE", 77), ("TCP_KEEPINTVL", 7), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000)]


def show(name, s):
    for what in ("SO_TYPE", "SO_DOMAIN", "SO_PROTOCOL", "SO_ACCEPTCONN", "SO_ERROR"):
        say(name, what, s.getsockopt(socket.SOL_SOCKET, getattr(socket, what)))
    for level, what in TABLE[:4]:
        number = getattr(socket, what)
        for value in (1, 0):
            s.setsockopt(level, number, value)
            say(name, what, bool(s.getsockopt(level, number)) == bool(value))
    for what, value in NUMBERS:
        s.setsockopt(socket.IPPROTO_TCP, getattr(socket, what), value)
        say(name, what, s.getsockopt(socket.IPPROTO_TCP, getattr(socket, what)))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50_000)
    say(name, "SO_RCVBUF", s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 60_000)
    say(name, "SO_SNDBUF", s.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x10)
    say(name, "IP_TOS", s.getsockopt(socket.IPPROTO_IP, socket.IP_TOS))
    attempt(name + " unknown option", s.setsockopt, socket.IPPROTO_TCP, 9_999, 1)
    attempt(name + " short value", s.setsockopt, socket.SOL_SOCKET, socket.SO_KEEPALIVE, b"\0")
    say(name, "SO_LINGER", s.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8).hex())


def timeouts(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 100_000))
    start = time.monotonic()
    try:
        os.read(s.fileno(), 1)
    except OSError as error:
        say("SO_RCVTIMEO", code(error), 0.09 < time.monotonic() - start < 5)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))


def server():
    l = listener()
    show("listener", l)
    select.select([l], [], [])
    info = l.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    say("TCP_INFO of a listener: state, waiting, backlog", info[0], *struct.unpack_from("II", info, 24))
    c, _ = l.accept()
    say("inherited", c.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), c.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF))
    show("accepted", c)
    timeouts(c)
    say("TCP_INFO state", c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[0])
    c.sendall(b"done")
    say("end", c.recv(1))


def client():
    fresh = fresh_socket()
    show("fresh", fresh)
    fresh.connect((address, port))
    show("connected", fresh)
    say("TCP_INFO state", fresh.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[0])
    say(exactly(fresh, 4))
    say("congestion", len(fresh.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)))


run(server, client)
