"""What fstat, /proc and SO_COOKIE say of connections: each is a socket of its own, wherever its descriptor goes; and no numbers left."""
import resource

from common import *

SO_COOKIE = 57


def name(s):
    status = os.fstat(s.fileno() if isinstance(s, socket.socket) else s)
    return status.st_dev, status.st_ino


def cookie(s):
    return s.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8)


def passed(s):
    a, b = socket.socketpair()
    socket.send_fds(a, [b"x"], [s.fileno()])
    return socket.socket(fileno=socket.recv_fds(b, 1, 1)[1][0])


def in_children(s):
    """Whether a child of fork and one of exec see the same socket."""
    expected = repr(name(s))
    pid = os.fork()
    if pid == 0:
        os._exit(repr(name(s)) != expected)
    say("in a child of fork", os.waitpid(pid, 0)[1])
    s.set_inheritable(True)
    look = f"import os; s = os.fstat({s.fileno()}); raise SystemExit(repr((s.st_dev, s.st_ino)) != {expected!r})"
    say("in a child of exec", os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", look]))


def look_at(sockets):
    names = [name(s) for s in sockets]
    say("sockets", all(os.path.stat.S_ISSOCK(os.fstat(s.fileno()).st_mode) for s in sockets))
    say("names", len(set(names)), "on the device of sockets", {device for device, _ in names} == {name(fresh_socket())[0]})
    links = [os.readlink(f"/proc/self/fd/{s.fileno()}") for s in sockets]
    say("links", links == [f"socket:[{inode}]" for _, inode in names])
    say("cookies", len({cookie(s) for s in sockets}), cookie(sockets[0]) == cookie(sockets[0]))
    say("duplicate", name(os.dup(sockets[0].fileno())) == names[0])
    other = passed(sockets[1])
    say("passed", name(other) == names[1] == name(sockets[1]), cookie(other) == cookie(sockets[1]))
    in_children(sockets[2])
    say("unchanged", [name(s) for s in sockets] == names)


def without_numbers(l):
    """A connection that cannot be accepted for want of a number waits."""
    most = max(int(fd) for fd in os.listdir("/proc/self/fd")[:-1] if int(fd) < 100)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most + 20, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    taken = []
    while True:
        try:
            taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError as error:
            say("open", code(error))
            break
    attempt("accept", l.accept)
    number = taken.pop()
    os.close(number)
    c, _ = l.accept()
    say("the number that is free", c.fileno() == number)
    attempt("again", l.accept)
    say(exactly(c, 5))
    c.close()
    for fd in taken:
        os.close(fd)


def server():
    l = listener()
    sockets = [l.accept()[0] for _ in range(5)]
    look_at(sockets)
    # One after the other: the numbers of those that have ended serve again.
    for n in range(40):
        with l.accept()[0] as c:
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            c.sendall(exactly(c, 5).upper())
    say("fresh", l.accept()[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
    with l.accept()[0] as c:
        c.sendall(b"ready")
    without_numbers(l)


def client():
    sockets = [connect() for _ in range(5)]
    look_at(sockets)
    for n in range(40):
        with connect() as c:
            c.sendall(b"hello")
            exactly(c, 5)
    last = connect()
    with connect() as c:
        say(exactly(c, 5))
    c = connect()
    c.sendall(b"hello")
    say(to_end(c))


run(server, client)
