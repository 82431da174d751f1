"""Calls in the wrong state have the right errno."""
from common import *


def misuse(s, name):
    attempt(name + " recv", s.recv, 1)
    attempt(name + " send", s.send, b"x", socket.MSG_NOSIGNAL)
    attempt(name + " shutdown", s.shutdown, socket.SHUT_RDWR)
    attempt(name + " getpeername", s.getpeername)


def server():
    misuse(fresh_socket(), "fresh")
    attempt("accept without listen", lambda: fresh_socket().accept())
    l = listener()
    other = fresh_socket()
    attempt("bind in use", other.bind, (anywhere, port))
    attempt("foreign address", other.bind, ("192.0.2.1", port))
    attempt("listen again", l.listen, 5)
    attempt("listener recv", l.recv, 1)
    attempt("listener connect", l.connect, (loopback, 1))
    c, _ = l.accept()
    attempt("connected listen", c.listen, 5)
    attempt("connected accept", lambda: c.accept())
    attempt("connected connect", c.connect, (address, port))
    attempt("connected bind", c.bind, (anywhere, 0))
    attempt("bad descriptor", os.read, 987, 1)
    c.sendall(b"go")
    say("end", to_end(c))
    # The client's second connection says that it has tried everything on the first.
    l.accept()
    c.close()
    l.close()


def client():
    c = connect()
    attempt("connect again", c.connect, (address, port))
    exactly(c, 2)
    c.shutdown(socket.SHUT_RD)
    say("after SHUT_RD", c.recv(1))
    c.sendall(b"still writing")
    c.shutdown(socket.SHUT_WR)
    attempt("shut down twice", c.shutdown, socket.SHUT_WR)
    attempt("send", c.send, b"x", socket.MSG_NOSIGNAL)
    connect()


run(server, client)
