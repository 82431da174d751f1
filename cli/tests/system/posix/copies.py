"""Numbers that are made of a socket before connect, listen and bind: all are the socket."""
import fcntl

from common import *


def served():
    """A listener that is watched and accepted from under other numbers than the one that listens."""
    s = fresh_socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    first, second = s.dup(), fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, 100)
    e = select.epoll()
    e.register(second, select.EPOLLIN | select.EPOLLET)
    e.poll(0)
    s.bind((anywhere, port))
    s.listen(8)
    say("ready", [(fd == second, events(mask)) for fd, mask in e.poll(20)])
    s.close()
    c, _ = first.accept()
    say("accepted", exactly(c, 3), first.getsockname()[1] == port)
    os.close(second)
    first.close()
    return c


def server():
    c = served()
    c.sendall(b"one")
    say("rest", to_end(c))


def client():
    s = fresh_socket()
    copy, moved = s.dup(), 90
    os.dup2(s.fileno(), moved)
    other = fresh_socket()
    unconnected = other.dup()
    os.close(s.dup().detach())
    read, write = os.pipe()
    s.connect((address, port))
    os.write(write, b"x")
    say("a pipe", os.read(read, 1))
    s.close()
    os.write(moved, b"abc")
    say("got", exactly(copy, 3))
    poll = select.poll()
    poll.register(moved, select.POLLOUT)
    say("writable", [events(mask) for _, mask in poll.poll(0)])
    say("same peer", copy.getpeername()[1] == port)
    os.close(moved)
    copy.sendall(b"def")
    copy.close()
    attempt("not connected", unconnected.getpeername)


run(server, client)
