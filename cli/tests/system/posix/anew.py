"""Sockets that begin anew: a listener that was shut down, and an attempt to connect that shutdown has given up."""
from common import *
import threading

nowhere = address.rpartition(":" if six else ".")[0] + (":77" if six else ".77")


def server():
    l = listener()
    other = fresh_socket()
    other.bind((anywhere, port + 1))
    other.listen(4)
    other.setblocking(False)
    attempt("nothing", other.accept)
    attempt("shut down writing", other.shutdown, socket.SHUT_WR)
    attempt("still nothing", other.accept)
    attempt("shut down", other.shutdown, socket.SHUT_RD)
    attempt("no listener", other.accept)
    attempt("listen anew", other.listen, 4)
    attempt("nothing again", other.accept)
    c, _ = l.accept()
    c.sendall(b"go")
    select.select([other], [], [], 20)
    d, _ = other.accept()
    d.setblocking(True)
    d.sendall(b"hello")
    say("client end", d.recv(1), c.recv(1))


def give_up(s):
    """Shuts a socket down while another thread connects it."""
    while s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != b"\x02":
        time.sleep(0.01)
    s.shutdown(socket.SHUT_RDWR)


def client():
    c = connect()
    say("server says", exactly(c, 2))
    s = fresh_socket()
    thread = threading.Thread(target=give_up, args=[s])
    thread.start()
    attempt("given up", s.connect, (nowhere, port))
    thread.join()
    attempt("shut down again", s.shutdown, socket.SHUT_RDWR)
    s.setblocking(False)
    attempt("under way", s.connect, (nowhere, port))
    attempt("shut down", s.shutdown, socket.SHUT_WR)
    s.setblocking(True)
    attempt("connect anew", s.connect, (address, port + 1))
    say("server says", exactly(s, 5))


run(server, client)
