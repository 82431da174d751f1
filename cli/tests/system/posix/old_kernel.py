"""A kernel without epoll_pwait2, which a filter of system calls plays: waits with a time limit go on."""
import ctypes
from common import *

EPOLL_PWAIT2 = 441
NO_NEW_PRIVILEGES, SET_FILTER = 38, 22


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("first", ctypes.POINTER(Instruction))]


def forbid():
    libc = ctypes.CDLL(None, use_errno=True)
    load, equal, end = 0x20, 0x15, 0x06
    refuse, allow = 0x50000 | errno.ENOSYS, 0x7FFF0000
    filter = (Instruction * 4)((load, 0, 0, 0), (equal, 0, 1, EPOLL_PWAIT2), (end, 0, 0, refuse), (end, 0, 0, allow))
    say("filter", libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0), libc.prctl(SET_FILTER, 2, ctypes.byref(Program(4, filter)), 0, 0))


def talk(c, first):
    forbid()
    e = select.epoll()
    e.register(c, select.EPOLLIN)
    r, w = os.pipe()
    e.register(r, select.EPOLLIN)
    if first:
        attempt("nothing", e.poll, 0.2)
        c.sendall(b"1")
    say("socket", [mask for _, mask in e.poll(20)], exactly(c, 1))
    if not first:
        c.sendall(b"2")
    os.write(w, b"x")
    say("pipe", [mask for fd, mask in e.poll(20) if fd == r])


def server():
    l = listener()
    c, _ = l.accept()
    talk(c, True)


def client():
    talk(connect(), False)


run(server, client)
