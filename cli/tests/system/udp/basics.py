"""Bound, connected, large, empty, peeked, truncated datagrams; poll and epoll; refusals."""
import hashlib

from common import *


def pattern(size, seed):
    return hashlib.shake_128(str(seed).encode()).digest(size)


SIZES = [0, 1, 2, 207, 208, 209, 1399, 1472, 1473, 2000, 9000, 20000, 65507]


def server():
    sock = fresh_datagram_socket()
    sock.bind((anywhere, port))
    say("ready", sock.getsockname()[1])
    while True:
        data, peer = sock.recvfrom(70000)
        if data == b"end":
            break
        sock.sendto(data, peer)
    # A buffer that is too small, a look without taking.
    sock.sendto(b"go", peer)
    say("peek", sock.recvfrom(4, socket.MSG_PEEK)[0])
    say("small", sock.recv(4))
    say("whole", sock.recv(100))
    say("length", sock.recv_into(bytearray(3), 0, socket.MSG_TRUNC))
    ready, _, _ = select.select([sock], [], [], 10)
    say("select", ready == [sock], sock.recv(100))
    sock.setblocking(False)
    attempt("empty", sock.recv, 10)
    sock.setblocking(True)
    sock.connect(peer[:2])
    say("connected", sock.getpeername()[0] == peer[0])
    say("own", sock.getsockname()[:2] == (address, port))
    sock.send(b"from a connected socket")
    os.write(sock.fileno(), b"written")
    say("read", os.read(sock.fileno(), 100))
    sock.close()


def client():
    sock = fresh_datagram_socket()
    for size in SIZES:
        data = pattern(size, size)
        sock.sendto(data, (address, port))
        back, peer = sock.recvfrom(70000)
        say(size, back == data, peer[:2] == (address, port))
    many = [pattern(1 + i * 7, i) for i in range(64)]
    for data in many:
        sock.sendto(data, (address, port))
    say("many", [sock.recv(2000) for _ in many] == many)
    attempt("too long", sock.sendto, bytes(65536), (address, port))
    sock.sendto(b"end", (address, port))
    say(sock.recv(10))
    sock.sendto(b"abcdefgh", (address, port))
    sock.sendto(b"second", (address, port))
    sock.sendto(b"0123456789", (address, port))
    sock.sendto(b"last", (address, port))
    epoll = select.epoll()
    epoll.register(sock, select.EPOLLIN)
    say("epoll", [bits for _, bits in epoll.poll(10)])
    say(sock.recv(100))
    say("poll", poll(sock))
    sock.connect((address, port))
    say(sock.recv(100))
    say("own port", sock.getsockname()[1] != 0, sock.getpeername()[:2] == (address, port))
    sock.send(b"answer")
    refused(sock)


def poll(sock):
    watcher = select.poll()
    watcher.register(sock, select.POLLIN)
    watcher.poll(10000)
    watcher.modify(sock, select.POLLIN | select.POLLOUT)
    return [bits for _, bits in watcher.poll(10000)]


def refused(old):
    """Nobody serves the next port."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.connect((address, port + 1))
    sock.settimeout(10)
    sock.send(b"?")
    attempt("recv", sock.recv, 10)
    say("pending", sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    local = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    local.connect(("127.0.0.1", 9))
    local.send(b"x")
    attempt("loopback", local.recv, 10)


run(server, client)
