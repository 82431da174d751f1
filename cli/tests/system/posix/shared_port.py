"""Listeners that share a port by SO_REUSEPORT: each serves some, and those that stay serve all when one closes."""
from common import *


def sharing():
    s = fresh_socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind((anywhere, port))
    s.listen(64)
    return s


def serve(listeners, count):
    """Answers so many connections; how many each listener has had."""
    served = [0] * len(listeners)
    while sum(served) < count:
        for s in select.select(listeners, [], [], 20)[0]:
            c, _ = s.accept()
            c.sendall(c.recv(9))
            c.close()
            served[listeners.index(s)] += 1
    return served


def server():
    listeners = [sharing(), sharing()]
    attempt("without it", listener)
    served = serve(listeners, 32)
    say("all served", sum(served), "by both", min(served) > 0)
    c, _ = listeners[select.select(listeners, [], [], 20)[0][0] is listeners[1]].accept()
    listeners.pop(0).close()
    # Where several workers serve, an option is set when all of them have done what was asked before.
    listeners[0].setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    c.sendall(b"closed")
    say("by the other", serve(listeners, 16))


def client():
    def ask(count):
        for n in range(count):
            c = connect()
            c.sendall(b"%d" % n)
            assert to_end(c) == b"%d" % n
    ask(32)
    c = connect()
    say(exactly(c, 6))
    ask(16)


run(server, client)
