"""Broadcasts: of the network and of the link, with and without SO_BROADCAST, to two sockets of one port."""
from common import *

NETWORK, LINK = address.rsplit(".", 1)[0] + ".255", "255.255.255.255"


def hearer():
    s = fresh_datagram_socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((anywhere, port))
    return s


def to_link(s, payload, number):
    """Names the interface, because a namespace of tests has no route to everywhere."""
    index = max(index for index, name in socket.if_nameindex() if name != "lo")
    s.sendmsg([payload], [(socket.IPPROTO_IP, 8, struct.pack("i8x", index))], 0, (LINK, number))


def server():
    first, second = hearer(), hearer()
    say("ready")
    for _ in range(2):
        data, peer = first.recvfrom(100)
        say(data, second.recv(100))
    # ip(7): broadcasts need SO_BROADCAST.
    attempt("without leave", first.sendto, b"refused", (NETWORK, port + 1))
    first.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    first.sendto(b"to all", (NETWORK, port + 1))
    to_link(first, b"to the link", port + 1)


def client():
    s = fresh_datagram_socket()
    s.bind((anywhere, port + 1))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.sendto(b"network", (NETWORK, port))
    to_link(s, b"link", port)
    say(sorted(s.recv(100) for _ in range(2)))


server() if role == "server" else client()
