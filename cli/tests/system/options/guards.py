"""Options that guard a socket or change what it sees: the effect of each, on listeners, on connections, on datagrams."""
from common import *
import ctypes

SOL, TCP, V4, V6 = socket.SOL_SOCKET, socket.IPPROTO_TCP, socket.IPPROTO_IP, socket.IPPROTO_IPV6
ANY6 = six and V6 or V4
# Answers zero: no byte of a packet, the first listener of a port.
NOTHING = [(0x06, 0, 0, 0)]
keep = []


def number(value):
    return struct.pack("i", value)


def program(instructions):
    code = b"".join(struct.pack("HBBI", *one) for one in instructions)
    memory = ctypes.create_string_buffer(code)
    keep.append(memory)
    return struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(memory))


def key():
    name = struct.pack("!HHI16sI", 0, 0, 0, socket.inet_pton(socket.AF_INET6, address), 0) if six else b"\0" * 4 + socket.inet_aton(peer)
    name = struct.pack("H", family) + name[2:]
    return name.ljust(128, b"\0") + struct.pack("=BBHIi", 0, 0, 6, 0, 0) + b"secret".ljust(80, b"\0")


peer = address.rsplit(".", 1)[0] + ".%d" % (3 - int(address.rsplit(".", 1)[1])) if not six else ""

# Of listeners: name, level, option, value.
LISTENERS = [
    ("plain", None, None, None),
    ("ttl", ANY6, six and 73 or 21, number(255)),
    ("filter", SOL, 26, program(NOTHING)),
    ("device", SOL, 25, b"lo\0"),
    ("index", SOL, 62, number(1)),
    ("transparent", ANY6, six and 75 or 19, number(1)),
    ("save syn", TCP, 27, number(1)),
] + ([] if six else [("key", TCP, 14, key())])


def prepare(name, s, level, option, value):
    if level is not None:
        attempt(name + " is set", s.setsockopt, level, option, value)


def listen(offset, name, level, option, value, kind=socket.SOCK_STREAM):
    s = socket.socket(family, kind)
    s.setsockopt(SOL, socket.SO_REUSEADDR, 1)
    prepare(name, s, level, option, value)
    s.bind((anywhere, port + offset))
    if kind == socket.SOCK_STREAM:
        s.listen(8)
    s.setblocking(False)
    return s


def first_of_two():
    """A program chooses among the listeners of one port: always the first, though the second has set nothing."""
    pair = []
    for _ in range(2):
        s = fresh_socket()
        s.setsockopt(SOL, socket.SO_REUSEADDR, 1)
        s.setsockopt(SOL, socket.SO_REUSEPORT, 1)
        if not pair:
            prepare("chosen", s, SOL, 51, program(NOTHING))
        s.bind((anywhere, port + 20))
        s.listen(8)
        s.setblocking(False)
        pair.append(s)
    return pair


def server():
    datagrams = [listen(30, "datagrams", None, None, None, socket.SOCK_DGRAM),
                 listen(31, "datagram filter", SOL, 26, program(NOTHING), socket.SOCK_DGRAM),
                 listen(32, "datagram device", SOL, 25, b"lo\0", socket.SOCK_DGRAM)]
    pair = first_of_two()
    listeners = [listen(offset, *what) for offset, what in enumerate(LISTENERS) if offset > 0]
    plain = listen(0, *LISTENERS[0])
    plain.setblocking(True)
    c, _ = plain.accept()
    to_end(c)
    for (name, *_), s in zip(LISTENERS[1:], listeners):
        try:
            got, _ = s.accept()
            say(name, "accepted")
            if name == "save syn":
                say("the SYN", len(got.getsockopt(TCP, 28, 200)) > 40)
        except BlockingIOError:
            say(name, "kept out")
    for which, s in enumerate(pair):
        count = 0
        try:
            while s.accept():
                count += 1
        except BlockingIOError:
            say("listener", which, count)
    for which, s in enumerate(datagrams):
        attempt(f"datagrams {which}", s.recv, 100)


def reach(name, offset, level=None, option=None, value=None):
    s = fresh_socket()
    prepare(name, s, level, option, value)
    s.settimeout(1.5)
    try:
        s.connect((address, port + offset))
        say(name, "connected")
        return s
    except socket.timeout:
        say(name, "timed out")
    except OSError as error:
        say(name, code(error))


def client():
    plain = connect()
    reached = [reach(name, offset) for offset, (name, *_) in enumerate(LISTENERS) if offset > 0]
    reached += [reach(f"chosen {count}", 20) for count in range(4)]
    reached.append(reach("to lo", 0, SOL, 25, b"lo\0"))
    reached.append(reach("mark", 0, SOL, 36, number(7)))
    if not six:
        s = reach("port range", 0, V4, 51, struct.pack("=I", 41_000 << 16 | 41_000))
        say("from", s.getsockname()[1])
    s = reach("zero copy", 0, SOL, 60, number(1))
    say(s.send(b"x" * 10_000, 0x4000000))
    poll = select.poll()
    poll.register(s, 0)
    say("completion", bool(poll.poll(2_000)), s.recvmsg(0, 100, socket.MSG_ERRQUEUE)[1][0][2][16:20].hex())
    for offset in (30, 31, 32):
        fresh_datagram_socket().sendto(b"hello", (address, port + offset))
    plain.close()


run(server, client)
