"""Lengths that cannot be, segments of an uncommon size, a connect that is waited for twice."""
import ctypes
from common import *

libc = ctypes.CDLL(None, use_errno=True)


class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


def raw(name, function, *arguments):
    ctypes.set_errno(0)
    answer = function(*arguments)
    say(name, answer, errno.errorcode.get(ctypes.get_errno()))


def misuse(s):
    pieces = (Piece * 2)(Piece(None, 0), Piece(None, 2**64 - 1))
    raw("writev", libc.writev, s.fileno(), pieces, 2)
    raw("readv", libc.readv, s.fileno(), pieces, 2)
    room = ctypes.create_string_buffer(16)
    raw("getpeername", libc.getpeername, s.fileno(), room, ctypes.byref(ctypes.c_int(-1)))
    raw("getsockname", libc.getsockname, s.fileno(), room, ctypes.byref(ctypes.c_int(-1)))


def server():
    l = listener()
    l.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
    let_begin(l)
    c, _ = l.accept()
    misuse(c)
    c.sendall(b"done")


def client():
    await_server()
    c = connect()
    misuse(c)
    exactly(c, 4)
    say("segments of", c.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG))
    nobody = address[:-1] + "fa" if six else address.rsplit(".", 1)[0] + ".250"
    s = fresh_socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 100_000))
    attempt("connect", s.connect, (nobody, 9))
    attempt("and again", s.connect, (nobody, 9))


run(server, client)
