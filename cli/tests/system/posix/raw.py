"""System calls by number, through libc's syscall(2)."""
import ctypes, platform

from common import *

X86 = dict(read=0, write=1, close=3, poll=7, ioctl=16, dup=32, accept4=288, getsockname=51, getpeername=52, shutdown=48,
           sendto=44, recvfrom=45, setsockopt=54, getsockopt=55, epoll_create1=291, epoll_ctl=233, epoll_pwait=281,
           close_range=436, fcntl=72, connect=42, listen=50, bind=49, socket=41, getpid=39, dup3=292)
ARM = dict(read=63, write=64, close=57, ioctl=29, dup=23, accept4=242, getsockname=204, getpeername=205, shutdown=210,
           sendto=206, recvfrom=207, setsockopt=208, getsockopt=209, epoll_create1=20, epoll_ctl=21, epoll_pwait=22,
           close_range=436, fcntl=25, connect=203, listen=201, bind=200, socket=198, getpid=172, dup3=24)
NUMBERS = X86 if platform.machine() == "x86_64" else ARM
libc = ctypes.CDLL(None, use_errno=True)


def raw(name, *arguments):
    """The answer, or the name of the errno."""
    words = [a if isinstance(a, (bytes, ctypes.Array)) else ctypes.c_long(a) for a in arguments]
    answer = libc.syscall(ctypes.c_long(NUMBERS[name]), *words)
    return errno.errorcode[ctypes.get_errno()] if answer == -1 else answer


def packed(fd, mask):
    layout = "<IQ" if platform.machine() == "x86_64" else "<IxxxxQ"
    return ctypes.create_string_buffer(struct.pack(layout, mask, fd))


def server():
    s = listener()
    e = raw("epoll_create1", 0)
    say("watch", raw("epoll_ctl", e, 1, s.fileno(), packed(s.fileno(), select.EPOLLIN)))
    ready = ctypes.create_string_buffer(64)
    say("ready", raw("epoll_pwait", e, ready, 4, 20_000, 0, 8))
    c = raw("accept4", s.fileno(), 0, 0, socket.SOCK_CLOEXEC)
    say("accepted", c >= 0, "close on exec", raw("fcntl", c, 1, 0))
    room = ctypes.create_string_buffer(100)
    got = 0
    while got < 5:
        got += raw("read", c, room, 5 - got)
    say("read", got, "then", raw("write", c, b"answer", 6))
    copy = raw("dup", c)
    # What libuv does: the number is the kernel's to give again at once.
    say("closed", raw("close", c), "again", raw("close", c))
    other = os.open("/dev/null", os.O_WRONLY)
    say("same number", other == c, "written to the file", os.write(other, b"not for the peer"))
    say("by the copy", raw("sendto", copy, b"end", 3, 0, 0, 0))
    say("shut", raw("shutdown", copy, 1), "to the end", raw("recvfrom", copy, room, 100, 0, 0, 0))
    say("range", raw("close_range", copy, copy, 0), "gone", raw("fcntl", copy, 1, 0))
    say("no such call", libc.syscall(ctypes.c_long(100_000)), errno.errorcode[ctypes.get_errno()])
    say("ours too", raw("getpid") == os.getpid())


def client():
    c = connect()
    c.sendall(b"bytes")
    say(exactly(c, 9))
    say("end", c.recv(1))
    say("closed", raw("close", c.detach()))


run(server, client)
