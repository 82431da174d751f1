"""FIN in one direction while the other goes on; what arrives at an end that has shut down its reading."""
from common import *


def server():
    l = listener()
    c, _ = l.accept()
    got = to_end(c)
    say("got", len(got), got == noise(3_000_000))
    say("again", c.recv(10))
    c.sendall(got[::-1])
    c.shutdown(socket.SHUT_WR)
    attempt("send after shutdown", c.send, b"x", socket.MSG_NOSIGNAL)
    say("client end", c.recv(1))
    # Once the client has acknowledged our FIN there is no connection.
    while c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != b"\x07":
        pass
    attempt("shut down what is closed", c.shutdown, socket.SHUT_RD)
    reading_shut, _ = l.accept()
    say("client has shut down its reading", reading_shut.recv(1))
    # The second piece waits for the ACK of the first.
    reading_shut.sendall(b"early")
    reading_shut.sendall(b"late")
    say("client end", reading_shut.recv(1))


def client():
    c = connect()
    c.sendall(noise(3_000_000))
    c.shutdown(socket.SHUT_WR)
    got = to_end(c)
    say("got", len(got), got[::-1] == noise(3_000_000))
    c = connect()
    c.shutdown(socket.SHUT_RD)
    say("nothing yet", c.recv(9))
    c.sendall(b"x")
    got = b""
    while len(got) < 9:
        got += c.recv(9 - len(got))
    say("what has come nevertheless", got)
    say("then", c.recv(9))


run(server, client)
