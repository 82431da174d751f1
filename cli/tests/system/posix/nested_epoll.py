"""An epoll instance inside another, and inside poll: readable when something in it is ready, for as long as it is."""
from common import *


def server():
    l = listener()
    inner, outer = select.epoll(), select.epoll()
    outer.register(inner.fileno(), select.EPOLLIN)
    inner.register(l.fileno(), select.EPOLLIN)
    while not inner.poll(0):
        told = outer.poll(20)
    say("outer", [events(mask) for _, mask in told])
    c, _ = l.accept()
    inner.unregister(l.fileno())
    inner.register(c.fileno(), select.EPOLLIN)
    got = b""
    while len(got) < 3:
        outer.poll(20)
        for fd, mask in inner.poll(0):
            got += c.recv(1)
            c.sendall(b".")
    say(got)
    watch = select.poll()
    watch.register(inner.fileno(), select.POLLIN)
    c.sendall(b"?")
    while not inner.poll(0):
        told = watch.poll(20_000)
    say("poll", len(told))
    say("still", len(watch.poll(20_000)))
    say(c.recv(10))
    c.close()


def client():
    c = connect()
    for letter in (b"a", b"b", b"c"):
        c.sendall(letter)
        say(exactly(c, 1))
    say(exactly(c, 1))
    c.sendall(b"end")
    say(to_end(c))


run(server, client)
