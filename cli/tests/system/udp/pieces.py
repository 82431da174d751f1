"""Datagrams that several calls write: MSG_MORE, UDP_CORK, and what is refused."""
from common import *

SOL_UDP, UDP_CORK = 17, 1
MORE = 0x8000


def server():
    sock = fresh_datagram_socket()
    sock.bind((address, port))
    say("ready")
    while True:
        data, peer = sock.recvfrom(70000)
        say(len(data), data[:40])
        sock.sendto(b"%d" % len(data), peer)
        if data == b"bye":
            return


def client():
    to = (address, port)
    sock = fresh_datagram_socket()

    def answer(what):
        say(what, sock.recv(100))

    attempt("one", lambda: sock.sendto(b"one ", MORE, to))
    attempt("empty", lambda: sock.sendto(b"", MORE, to))
    attempt("no name", lambda: sock.send(b"two ", MORE))
    attempt("last", lambda: sock.sendto(b"three", 0, to))
    answer("joined")
    attempt("two parts", lambda: sock.sendmsg([b"ab", b"cd"], [], MORE, to))
    attempt("and two", lambda: sock.sendmsg([b"ef", b"gh"], [], 0, to))
    answer("gathered")
    # The cork.
    say("cork", sock.getsockopt(SOL_UDP, UDP_CORK))
    sock.setsockopt(SOL_UDP, UDP_CORK, 1)
    say("cork", sock.getsockopt(SOL_UDP, UDP_CORK))
    for word in [b"under ", b"the ", b"cork"]:
        attempt("corked", lambda: sock.sendto(word, to))
    sock.setsockopt(SOL_UDP, UDP_CORK, 0)
    answer("uncorked")
    # An option alone sends nothing; MSG_MORE under the cork changes nothing.
    sock.setsockopt(SOL_UDP, UDP_CORK, 1)
    sock.setsockopt(SOL_UDP, UDP_CORK, 0)
    sock.setsockopt(SOL_UDP, UDP_CORK, 1)
    sock.sendto(b"x", MORE, to)
    sock.sendto(b"y", to)
    sock.setsockopt(SOL_UDP, UDP_CORK, 0)
    answer("both")
    # Large ones, and one that is too large.
    limit = 65527 if six else 65507
    sock.sendto(b"a" * 40000, MORE, to)
    attempt("largest", lambda: sock.sendto(b"b" * (limit - 40000), 0, to))
    answer("largest")
    sock.sendto(b"a" * 40000, MORE, to)
    attempt("too large", lambda: sock.sendto(b"b" * (limit - 39999), 0, to))
    attempt("after it", lambda: sock.sendto(b"new", 0, to))
    answer("new")
    # Connected.
    sock.connect(to)
    sock.send(b"con", MORE)
    sock.send(b"nec", MORE)
    os.write(sock.fileno(), b"ted")
    answer("connected")
    # What a closed socket has not sent is gone.
    other = fresh_datagram_socket()
    other.sendto(b"never", MORE, to)
    other.close()
    attempt("urgent", lambda: sock.send(b"x", MORE | socket.MSG_OOB))
    attempt("urgent", lambda: sock.send(b"x"))
    answer("plain")
    sock.send(b"bye")
    answer("bye")


run(server, client)
