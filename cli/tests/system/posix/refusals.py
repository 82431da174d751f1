"""What calls say after a failed connect, at the end of a connection, on a listener, and about pointers that lead nowhere."""
import ctypes
from common import *

libc = ctypes.CDLL(None, use_errno=True)
NOWHERE = (1, 2**64 - 4096, 2**63)


def raw(name, function, *arguments):
    ctypes.set_errno(0)
    answer = function(*arguments)
    say(name, answer, errno.errorcode.get(ctypes.get_errno()))


def after_refusal(name, s):
    attempt(name + " recv", s.recv, 1)
    attempt(name + " send", s.send, b"x", socket.MSG_NOSIGNAL)
    attempt(name + " shutdown", s.shutdown, socket.SHUT_RDWR)
    attempt(name + " peer", s.getpeername)
    say(name, "error", s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def nothing(name, s):
    room = ctypes.create_string_buffer(8)
    for flags in (socket.MSG_DONTWAIT, socket.MSG_DONTWAIT | socket.MSG_PEEK):
        raw(name + " recv of nothing", libc.recv, s.fileno(), room, 0, flags)
    raw(name + " read of nothing", libc.read, s.fileno(), room, 0)


def pointers(s):
    for place in NOWHERE:
        where = ctypes.c_void_p(place)
        raw("send", libc.send, s.fileno(), where, 10, socket.MSG_NOSIGNAL)
        raw("write", libc.write, s.fileno(), where, 10)
        raw("recv", libc.recv, s.fileno(), where, 10, socket.MSG_PEEK)
        raw("read", libc.read, s.fileno(), where, 10)
        raw("writev", libc.writev, s.fileno(), where, 1)
        raw("readv", libc.readv, s.fileno(), where, 1)
        raw("sendmsg", libc.sendmsg, s.fileno(), where, 0)
        raw("recvmsg", libc.recvmsg, s.fileno(), where, 0)
        raw("getsockname", libc.getsockname, s.fileno(), where, ctypes.byref(ctypes.c_int(16)))
        raw("setsockopt", libc.setsockopt, s.fileno(), socket.IPPROTO_TCP, socket.TCP_NODELAY, where, 4)
        raw("getsockopt", libc.getsockopt, s.fileno(), socket.IPPROTO_TCP, socket.TCP_NODELAY, where, ctypes.byref(ctypes.c_int(4)))
    say("still there", s.recv(10))


def server():
    l = listener()
    attempt("listener send", l.send, b"x", socket.MSG_NOSIGNAL)
    attempt("listener recv", l.recv, 1, socket.MSG_DONTWAIT)
    c, _ = l.accept()
    nothing("empty", c)
    c.sendall(b"0123456789")
    # The client has shut down its side; both are over when ours is.
    say("end", to_end(c))
    nothing("ended", c)
    c.shutdown(socket.SHUT_WR)
    c, _ = l.accept()
    c.sendall(b"0123456789")
    to_end(c)
    c, _ = l.accept()
    pointers(c)
    c.close()
    c, _ = l.accept()
    c.close()


def client():
    s = fresh_socket()
    attempt("refused", s.connect, (address, 9))
    after_refusal("refused", s)
    s.close()
    s = fresh_socket()
    s.setblocking(False)
    attempt("refused later", s.connect, (address, 9))
    select.select([], [s], [], 20)
    after_refusal("refused later", s)
    s.close()
    c = connect()
    say("got", exactly(c, 10))
    nothing("read out", c)
    c.sendall(b"x")
    c.shutdown(socket.SHUT_WR)
    say("both over", to_end(c))
    time.sleep(0.2)
    attempt("shut down again", c.shutdown, socket.SHUT_RDWR)
    attempt("recv then", c.recv, 1)
    c.close()
    c = connect()
    time.sleep(0.2)
    raw("truncated", libc.recv, c.fileno(), None, 4, socket.MSG_TRUNC)
    raw("truncated peek", libc.recv, c.fileno(), None, 4, socket.MSG_TRUNC | socket.MSG_PEEK)
    say("rest", exactly(c, 6))
    c.close()
    c = connect()
    c.settimeout(None)
    c.sendall(b"here")
    to_end(c)
    c.close()
    # Who leaves last has nothing under way: what comes after the service's end is the kernel's.
    c = connect()
    say("last", to_end(c))
    c.close()


run(server, client)
