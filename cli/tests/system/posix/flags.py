"""Status flags (F_GETFL, F_SETFL): of the open file description, so duplicates and all processes that have it see the same."""
import ctypes, fcntl

from common import *

FIOASYNC = 0x5452
NAMES = ["O_APPEND", "O_ASYNC", "O_NONBLOCK", "O_NOATIME", "O_DIRECT"]
ASYNC = {"O_ASYNC": 0o20000, "O_NOATIME": 0o1000000}
VALUES = {name: getattr(os, name, ASYNC.get(name)) for name in NAMES}
libc = ctypes.CDLL(None, use_errno=True)


def flags(fd):
    value = fcntl.fcntl(fd, fcntl.F_GETFL)
    return ["access %d" % (value & os.O_ACCMODE)] + [name for name in NAMES if value & VALUES[name]]


def put(fd, *names):
    fcntl.fcntl(fd, fcntl.F_SETFL, sum(VALUES[name] for name in names))


def in_child(act):
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(0)
    say("child", os.waitpid(pid, 0)[1])


def look_at(s):
    say("new", flags(s))
    put(s, "O_APPEND", "O_ASYNC", "O_NOATIME")
    copy = os.dup(s.fileno())
    say("duplicate", flags(copy))
    put(copy, "O_NONBLOCK")
    say("set by the duplicate", flags(s))
    fcntl.ioctl(copy, FIOASYNC, struct.pack("i", 1))
    say("FIOASYNC", flags(s))
    fcntl.ioctl(copy, FIOASYNC, struct.pack("i", 0))
    attempt("O_DIRECT", put, s, "O_DIRECT")
    fcntl.fcntl(s, fcntl.F_SETFL, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    say("others change nothing", flags(s))

    def child():
        say("in the child", flags(s))
        put(s, "O_NONBLOCK", "O_APPEND")
    in_child(child)
    say("set by the child", flags(s))
    put(s, "O_ASYNC")
    s.set_inheritable(True)
    set_by_exec = f"import fcntl; f = fcntl.fcntl({s.fileno()}, 3); fcntl.fcntl({s.fileno()}, 4, f | 0o2000); raise SystemExit(f == 0o20002)"
    say("exec", os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", set_by_exec]))
    say("set by exec", flags(s))
    a, b = socket.socketpair()
    socket.send_fds(a, [b"x"], [s.fileno()])
    received = socket.recv_fds(b, 1, 1)[1][0]
    put(received)
    say("set by the receiver", flags(s))
    os.close(received)
    os.close(copy)


def server():
    l = listener()
    put(l, "O_APPEND")
    say("listener", flags(l))
    l.setblocking(True)
    c, _ = l.accept()
    look_at(c)
    c.sendall(b"ready")
    say(to_end(c))
    l.accept()


def client():
    s = fresh_socket()
    put(s, "O_APPEND", "O_ASYNC")
    s.connect((address, port))
    say("before connect", flags(s))
    put(s)
    look_at(s)
    say(exactly(s, 5))
    s.close()
    s = connect()
    s.settimeout(None)
    put(s, "O_NONBLOCK", "O_APPEND")
    say("dissolved", libc.connect(s.fileno(), bytes(16), 16), flags(s))


run(server, client)
