"""One end of a differential run: makes socket calls that are asked of it on standard input, one a line, and answers each.

A call answers its result or the errno's name. Those that must wait say so with EAGAIN; who asks asks again."""
import errno, fcntl, select, socket, struct, sys, termios

TCP_INFO = 11
STATES = "- ESTABLISHED SYN_SENT SYN_RECV FIN_WAIT1 FIN_WAIT2 TIME_WAIT CLOSE CLOSE_WAIT LAST_ACK LISTEN CLOSING".split()
OPTIONS = {
    "nodelay": (socket.IPPROTO_TCP, socket.TCP_NODELAY), "cork": (socket.IPPROTO_TCP, socket.TCP_CORK),
    "keepalive": (socket.SOL_SOCKET, socket.SO_KEEPALIVE), "quickack": (socket.IPPROTO_TCP, socket.TCP_QUICKACK),
    "keepidle": (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), "keepcnt": (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
    "error": (socket.SOL_SOCKET, socket.SO_ERROR), "accepting": (socket.SOL_SOCKET, socket.SO_ACCEPTCONN),
    "reuse": (socket.SOL_SOCKET, socket.SO_REUSEADDR), "type": (socket.SOL_SOCKET, socket.SO_TYPE),
}
sockets = {}


def noise(seed, start, count):
    return bytes((seed + n * 7 + (n >> 8)) & 255 for n in range(start, start + count))


def state(s):
    return STATES[s.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 1)[0]]


def polled(s):
    poll = select.poll()
    poll.register(s, select.POLLIN | select.POLLOUT | select.POLLRDHUP | select.POLLPRI)
    bits = poll.poll(0)
    return bits[0][1] if bits else 0


def receive(s, count, flags, seed, start):
    data = s.recv(count, flags)
    return f"{len(data)} {'same' if data == noise(seed, start, len(data)) else 'OTHER'}"


def call(words):
    name, who, *rest = words
    if name == "open":
        s = sockets[who] = socket.socket(socket.AF_INET6 if ":" in rest[0] else socket.AF_INET, socket.SOCK_STREAM)
        s.setblocking(False)
        return "made"
    s = sockets.get(who)
    if s is None:
        return "NONE"
    if name == "listen":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((rest[0], int(rest[1])))
        return s.listen(8)
    if name == "accept":
        made, _ = s.accept()
        made.setblocking(False)
        sockets[rest[0]] = made
        return "accepted"
    if name == "connect":
        return s.connect((rest[0], int(rest[1])))
    if name == "send":
        return s.send(noise(*map(int, rest)), socket.MSG_NOSIGNAL)
    if name == "recv":
        return receive(s, int(rest[0]), 0, int(rest[1]), int(rest[2]))
    if name == "peek":
        return receive(s, int(rest[0]), socket.MSG_PEEK, int(rest[1]), int(rest[2]))
    if name == "shutdown":
        return s.shutdown(int(rest[0]))
    if name == "linger":
        return s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", int(rest[0]), int(rest[1])))
    if name == "set":
        return s.setsockopt(*OPTIONS[rest[0]], int(rest[1]))
    if name == "get":
        return s.getsockopt(*OPTIONS[rest[0]])
    if name == "unread":
        return struct.unpack("i", fcntl.ioctl(s, termios.FIONREAD, bytes(4)))[0]
    if name == "state":
        return state(s)
    if name == "poll":
        return polled(s)
    if name == "peer":
        return s.getpeername()[0]
    if name == "close":
        del sockets[who]
        return s.close()
    return "UNKNOWN"


for line in sys.stdin:
    try:
        answer = call(line.split())
    except OSError as error:
        answer = errno.errorcode.get(error.errno, str(error))
    print(answer, flush=True)
