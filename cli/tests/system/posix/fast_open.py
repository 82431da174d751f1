"""Fast Open: data with the SYN by every call that can begin a connection, and keys of a listener that change."""
import ctypes

from common import *

TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_KEY, MSG_FASTOPEN = 30, 33, 0x20000000
SYN_DATA = 32
libc = ctypes.CDLL(None, use_errno=True)


def with_syn(s):
    """Whether data went with the SYN and was taken (tcpi_options)."""
    return bool(s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 6)[5] & SYN_DATA)


def server():
    s = listener()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 16)
    first, second, third = (bytes([i]) * 16 for i in (1, 2, 3))
    for i, key in enumerate([first, None, None, None, second + first, third]):
        if key:
            s.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_KEY, key)
            say("keys", s.getsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_KEY, 32) == key)
        if i == 0:
            let_begin(s)
        if i > 0:
            # Only now, so that the key is there.
            c.sendall(b"next")
            c.close()
        c, _ = s.accept()
        say(exactly(c, 6), "with the SYN", with_syn(c))
    c.sendall(b"next")
    attempt("a key of 5 bytes", s.setsockopt, socket.IPPROTO_TCP, TCP_FASTOPEN_KEY, b"short")


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_len", ctypes.c_uint), ("vector", ctypes.c_void_p), ("count", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("control_len", ctypes.c_size_t), ("flags", ctypes.c_int), ("sent", ctypes.c_uint)]


def send_many(s, data):
    """sendmmsg(2), of one message."""
    if family == socket.AF_INET:
        name = struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(address) + bytes(8)
    else:
        name = struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + socket.inet_pton(socket.AF_INET6, address) + bytes(4)
    keep = ctypes.create_string_buffer(name, len(name)), ctypes.create_string_buffer(data, len(data))
    vector = Vector(ctypes.cast(keep[1], ctypes.c_void_p), len(data))
    message = Message(ctypes.cast(keep[0], ctypes.c_void_p), len(name), ctypes.cast(ctypes.pointer(vector), ctypes.c_void_p), 1)
    return libc.sendmmsg(s.fileno(), ctypes.byref(message), 1, MSG_FASTOPEN), message.sent


def send_connected(s, data):
    """connect(2) that waits for the data."""
    s.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
    s.connect((address, port))
    return s.send(data)


def client():
    to = lambda s, data: s.sendto(data, MSG_FASTOPEN, (address, port))
    message = lambda s, data: s.sendmsg([data[:2], data[2:]], [], MSG_FASTOPEN, (address, port))
    ways = [("sendto, no cookie", to), ("sendto", to), ("sendmsg", message), ("sendmmsg", send_many),
            ("connect, another key", send_connected), ("sendto, forgotten key", to)]
    await_server()
    for i, (name, way) in enumerate(ways):
        s = fresh_socket()
        say(name, way(s, b"%06d" % i), exactly(s, 4), "with the SYN", with_syn(s))
        s.close()


run(server, client)
