"""Both ends of connections with streams in both directions at once; every byte is a function of its place.

server PORT CONNECTIONS BYTES: accepts, streams, prints `pid N` first and `CONNECTIONS whole` last.
client HOST PORT CONNECTIONS BYTES FILE: connects, prints `connected`; half of each stream, then waits for FILE, then the rest.
"""
import os
import select
import socket
import sys
import time

PIECE = 1 << 14


def text(seed, start, count):
    return bytes((seed + at * 7 + (at >> 9)) & 255 for at in range(start, start + count))


def streams(total):
    """The stream of either direction, made once."""
    return text(1, 0, total), text(2, 0, total)


class End:
    def __init__(self, sock, out, wanted):
        self.sock, self.out, self.wanted = sock, out, wanted
        self.sent = self.got = 0
        sock.setblocking(False)

    def events(self, limit):
        wants = select.EPOLLIN if self.got < len(self.wanted) else 0
        return wants | (select.EPOLLOUT if self.sent < limit else 0)

    def go_on(self, events, limit):
        if events & select.EPOLLOUT and self.sent < limit:
            self.sent += self.sock.send(self.out[self.sent:min(limit, self.sent + PIECE)])
        if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            piece = self.sock.recv(PIECE)
            assert piece, "the stream ended after %d bytes" % self.got
            assert piece == self.wanted[self.got:self.got + len(piece)], "another byte than was sent near %d" % self.got
            self.got += len(piece)


def exchange(ends, limit, done):
    """Streams up to `limit` bytes of each end until `done` says so of all."""
    epoll = select.epoll()
    by_number = {end.sock.fileno(): end for end in ends}
    armed = {}
    while not all(done(end) for end in ends):
        for number, end in by_number.items():
            wants = end.events(limit)
            if armed.get(number) != wants:
                (epoll.modify if number in armed else epoll.register)(number, wants)
                armed[number] = wants
        for number, events in epoll.poll(30) or sys.exit("nothing came for 30 s: %s" % [(e.sent, e.got) for e in ends]):
            try:
                by_number[number].go_on(events, limit)
            except BlockingIOError:
                pass
    epoll.close()


def finish(ends):
    """Ends all directions first: connections come to several workers, and are accepted in another order than they were made in."""
    for end in ends:
        end.sock.setblocking(True)
        end.sock.shutdown(socket.SHUT_WR)
    for end in ends:
        assert end.sock.recv(1) == b"", "the peer sends more"
        end.sock.close()


def server(port, count, total):
    up, down = streams(total)
    listener = socket.create_server(("0.0.0.0", port), backlog=128)
    print("pid", os.getpid(), flush=True)
    ends = [End(listener.accept()[0], down, up) for _ in range(count)]
    exchange(ends, total, lambda end: end.sent == total and end.got == total)
    finish(ends)
    print(count, "whole", flush=True)


def client(host, port, count, total, file):
    up, down = streams(total)
    ends = [End(socket.create_connection((host, port), 20), up, down) for _ in range(count)]
    print("connected", flush=True)
    half = total // 2
    exchange(ends, half, lambda end: end.sent == half and end.got >= half // 2)
    print("half", flush=True)
    # Streams go on slowly until the file is there, so that both directions are busy. The last piece waits for it in any case.
    limit = half
    while not os.path.exists(file):
        if limit < total - PIECE:
            limit += 1000
            exchange(ends, limit, lambda end: end.sent >= limit)
        time.sleep(0.001)
    exchange(ends, total, lambda end: end.sent == total and end.got == total)
    finish(ends)
    print(count, "whole", flush=True)


if sys.argv[1] == "server":
    server(*map(int, sys.argv[2:5]))
else:
    client(sys.argv[2], *map(int, sys.argv[3:6]), sys.argv[6])
