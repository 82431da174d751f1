"""Non-blocking accept, connect, recv and send; poll bits of each outcome.

What depends on the other side's pace is told over a second connection: the server has looked, its buffers are full.
"""
from common import *


def bits(p, timeout=20_000):
    return [events(mask) for _, mask in p.poll(timeout)]


def server():
    l = listener()
    l.setblocking(False)
    attempt("accept with nobody", lambda: l.accept())
    p = select.poll()
    p.register(l, select.POLLIN)
    say("listener", bits(p))
    c, _ = l.accept()
    say("inherits blocking", os.get_blocking(c.fileno()))
    c.setblocking(False)
    attempt("recv with nothing", c.recv, 1)
    p.poll(20_000)
    told, _ = l.accept()
    told.send(b"looked")
    p.unregister(l)
    p.register(c, select.POLLIN)
    say("readable", bits(p))
    say("text", c.recv(100))
    sent, idle_rounds = 0, 0
    while idle_rounds < 4:  # until the peer's buffers are full too, and lost segments sent again
        before = sent
        try:
            while True:
                sent += c.send(bytes(1 << 16))
        except BlockingIOError as error:
            full = code(error)
        idle_rounds = idle_rounds + 1 if sent == before else 0
        time.sleep(0.3)
    say("full", full, sent > 10_000)
    p.modify(c, select.POLLOUT)
    say("not writable", bits(p, 0))
    told.send(b"full")
    c.setblocking(True)
    c.sendall(b"end")
    c.shutdown(socket.SHUT_WR)
    say("last", to_end(c))


def client():
    c = fresh_socket()
    c.setblocking(False)
    say("connect", errno.errorcode[c.connect_ex((address, port))])
    p = select.poll()
    p.register(c, select.POLLOUT)
    say("connected", bits(p), c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    say("again", errno.errorcode.get(c.connect_ex((address, port)), 0))
    told = connect()
    exactly(told, len("looked"))
    c.send(b"hello")
    c.setblocking(True)
    exactly(told, len("full"))
    got = to_end(c)
    say("zeros then end", got.strip(b"\0"))
    c.sendall(b"bye")
    c.close()
    r = fresh_socket()
    r.setblocking(False)
    r.connect_ex((address, 9))
    p = select.poll()
    p.register(r, select.POLLIN | select.POLLOUT)
    say("refused", bits(p), errno.errorcode[r.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)])
    say("error is taken", r.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


run(server, client)
