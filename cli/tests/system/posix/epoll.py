"""Level, edge and one-shot; RDHUP; a pipe in the same set; adding, changing, removing."""
from common import *


def wait(e, seconds=0.2):
    return sorted((fd, events(mask)) for fd, mask in e.poll(seconds))


def server():
    l = listener()
    e = select.epoll()
    e.register(l, select.EPOLLIN)
    e.poll(20)
    c, _ = l.accept()
    c.setblocking(False)
    name = {l.fileno(): "listener", c.fileno(): "connection"}
    show = lambda found: [(name.get(fd, "pipe"), what) for fd, what in found]
    say("listener after accept", show(wait(e, 0)))
    e.register(c, select.EPOLLIN | select.EPOLLET)
    c.send(b"1")
    e.poll(20)
    say("edge, nothing new", show(wait(e)))
    say("first byte", c.recv(1))
    c.send(b"2")
    say("edge after more", show(sorted((fd, events(m)) for fd, m in e.poll(20))))
    e.modify(c, select.EPOLLIN)
    say("level", show(wait(e, 0)), show(wait(e, 0)))
    e.modify(c, select.EPOLLIN | select.EPOLLOUT | select.EPOLLONESHOT)
    say("one-shot", show(wait(e, 0)), show(wait(e, 0)))
    e.modify(c, select.EPOLLIN | select.EPOLLONESHOT)
    say("one-shot again", show(wait(e, 0)))
    r, w = os.pipe()
    e.register(r, select.EPOLLIN)
    e.modify(c, select.EPOLLOUT)
    os.write(w, b"x")
    say("socket and pipe", sorted(show(wait(e, 0))))
    e.unregister(c)
    say("unregistered", show(wait(e, 0)))
    attempt("unregister twice", e.unregister, c)
    e.register(c, select.EPOLLRDHUP)
    attempt("register twice", e.register, c, select.EPOLLIN)
    e.unregister(r)
    c.send(b"3")
    say("RDHUP", show(sorted((fd, events(m)) for fd, m in e.poll(20))))
    e.modify(c, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLOUT)
    say("all", show(wait(e, 0)))
    say("rest", c.recv(100))
    c.close()
    say("closed", show(wait(e, 0)))


def client():
    c = connect()
    assert exactly(c, 1) == b"1"
    c.sendall(b"a")
    assert exactly(c, 1) == b"2"
    c.sendall(b"bc")
    assert exactly(c, 1) == b"3"
    c.shutdown(socket.SHUT_WR)
    say("end", c.recv(1))


run(server, client)
