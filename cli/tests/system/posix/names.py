"""Addresses of both ends; ports chosen by the program and by the system."""
from common import *


def server():
    l = listener()
    say("listener", l.getsockname())
    attempt("listener's peer", l.getpeername)
    c, peer = l.accept()
    say("accepted", c.getsockname()[:2] == (address, port), c.getpeername() == peer)
    c.sendall(repr(peer).encode())
    c.shutdown(socket.SHUT_WR)
    to_end(c)
    c, peer = l.accept()
    say("bound port", peer[1] == struct.unpack("!H", exactly(c, 2))[0])
    any_port = fresh_socket()
    any_port.bind((address, 0))
    any_port.listen()
    chosen = any_port.getsockname()
    say("any port", chosen[0] == address, chosen[1] > 1023)
    c.sendall(struct.pack("!H", chosen[1]))
    d, _ = any_port.accept()
    say("at the chosen port", to_end(d), d.getsockname() == chosen)


def client():
    c = connect()
    say("as seen by the server", to_end(c).decode() == repr(c.getsockname()), c.getpeername()[:2] == (address, port))
    c.close()
    c = fresh_socket()
    bound = 20_000 + os.getpid() % 10_000
    c.bind((anywhere, bound))
    attempt("before", c.getpeername)
    c.connect((address, port))
    say("bound", c.getsockname()[1] == bound, c.getsockname()[0] != anywhere)
    c.sendall(struct.pack("!H", bound))
    chosen = struct.unpack("!H", exactly(c, 2))[0]
    d = socket.create_connection((address, chosen), 20)
    d.sendall(b"there")


run(server, client)
