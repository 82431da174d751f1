"""Inherited listeners and connections; the connection ends when the last holder closes it."""
import ctypes, platform
from common import *

SYS_CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]


def clone():
    """A child that libc's fork handlers hear nothing of."""
    return ctypes.PyDLL(None).syscall(SYS_CLONE, ctypes.c_long(signal.SIGCHLD), *[ctypes.c_long(0)] * 4)


def server():
    l = listener()
    children = []
    for n in range(2):
        pid = os.fork()
        if pid == 0:
            c, _ = l.accept()
            c.sendall(b"worker\n")
            c.close()
            os._exit(0)
        children.append(pid)
    for pid in children:
        say("child", os.waitpid(pid, 0)[1])
    c, _ = l.accept()
    pid = os.fork()
    if pid == 0:
        c.sendall(b"from the child\n")
        os._exit(0)
    os.waitpid(pid, 0)
    c.sendall(b"from the parent\n")
    pid = os.fork()
    if pid == 0:
        say("child reads", c.recv(100))
        c.sendall(b"last words\n")
        os._exit(0)
    c.close()
    os.waitpid(pid, 0)
    c, _ = l.accept()
    pid = clone()
    if pid == 0:
        os.dup2(c.fileno(), 0)
        c.close()
        say("cloned child reads", os.read(0, 100))
        os.write(0, b"from the cloned child")
        os._exit(7)
    c.close()
    say("cloned child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def client():
    for _ in range(2):
        say(to_end(connect()))
    c = connect()
    say(exactly(c, 31))
    c.sendall(b"question")
    say(to_end(c))
    c = connect()
    c.sendall(b"to whom?")
    say(to_end(c))


run(server, client)
