"""FIN in one direction while the other goes on."""
from common import *


def server():
    c, _ = listener().accept()
    got = to_end(c)
    say("got", len(got), got == noise(3_000_000))
    say("again", c.recv(10))
    c.sendall(got[::-1])
    c.shutdown(socket.SHUT_WR)
    attempt("send after shutdown", c.send, b"x", socket.MSG_NOSIGNAL)
    say("client end", c.recv(1))


def client():
    c = connect()
    c.sendall(noise(3_000_000))
    c.shutdown(socket.SHUT_WR)
    got = to_end(c)
    say("got", len(got), got[::-1] == noise(3_000_000))


run(server, client)
