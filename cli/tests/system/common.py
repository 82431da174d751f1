"""What the scripts share. Usage: SCRIPT server|client ADDRESS PORT; each prints what it saw, in stable words."""
import errno, os, select, signal, socket, struct, sys, time

role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
six = ":" in address
family = socket.AF_INET6 if six else socket.AF_INET
anywhere, loopback = ("::", "::1") if six else ("0.0.0.0", "127.0.0.1")


def say(*words):
    print(*words, flush=True)


def code(error):
    return errno.errorcode.get(error.errno, str(error))


def attempt(name, call, *arguments):
    """Says what a call returned or which errno it had."""
    try:
        say(name, call(*arguments))
    except OSError as error:
        say(name, code(error))


def fresh_socket():
    return socket.socket(family, socket.SOCK_STREAM)


def fresh_datagram_socket():
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(20)
    return s


def listener(backlog=16):
    s = fresh_socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((anywhere, port))
    s.listen(backlog)
    return s


def connect():
    return socket.create_connection((address, port), 20)


def exactly(s, count):
    data = b""
    while len(data) < count:
        piece = s.recv(count - len(data))
        if not piece:
            break
        data += piece
    return data


def to_end(s):
    pieces = []
    while piece := s.recv(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


def noise(count):
    state, out = 1, bytearray()
    while len(out) < count:
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        out += state.to_bytes(8, "little")
    return bytes(out[:count])


def events(mask):
    names = [n for n in ("IN", "PRI", "OUT", "ERR", "HUP", "RDHUP") if mask & getattr(select, "EPOLL" + n)]
    return "|".join(names) or "none"


def let_begin(listening):
    """Lets the client begin (`await_server`): the port is served before the listener has options that are set after listen(2)."""
    ready, _ = listening.accept()
    ready.sendall(b"next")
    ready.close()


def await_server():
    """Waits, by an ordinary connection, until the server has made its listener ready."""
    with connect() as ready:
        exactly(ready, 4)


def run(server, client):
    (server if role == "server" else client)()
