"""sendmsg, recvmsg and their ancillary data; trains of datagrams; a queue that is waited for."""
import hashlib

from common import *

SOL_UDP, UDP_SEGMENT, UDP_GRO = 17, 103, 104
IP_PKTINFO, IP_RECVTTL, IP_RECVTOS = 8, 12, 13
TRAIN = hashlib.shake_128(b"train").digest(30000)


def name(kind):
    names = {
        (0, 8): "IP_PKTINFO", (0, 2): "IP_TTL", (0, 1): "IP_TOS", (17, 104): "UDP_GRO",
        (41, 50): "IPV6_PKTINFO", (41, 52): "IPV6_HOPLIMIT", (41, 67): "IPV6_TCLASS",
    }
    return names.get(kind, kind)


def server():
    sock = fresh_datagram_socket()
    if six:
        sock.setsockopt(41, 49, 1)
        sock.setsockopt(41, 51, 1)
        sock.setsockopt(41, 66, 1)
    else:
        sock.setsockopt(0, IP_PKTINFO, 1)
        sock.setsockopt(0, IP_RECVTTL, 1)
    sock.bind((anywhere, port))
    if not six:
        sock.setsockopt(0, IP_RECVTOS, 1)
    say("ready")
    data, control, flags, peer = sock.recvmsg(100, 1000)
    for level, kind, value in control:
        if name((level, kind)) == "IP_PKTINFO":
            value = socket.inet_ntoa(value[8:12]) == address
        elif name((level, kind)) == "IPV6_PKTINFO":
            value = socket.inet_ntop(family, value[:16]) == address
        say(name((level, kind)), value)
    say(data, flags)
    # Answer from the address that was asked.
    sock.sendmsg([b"an", b"swer"], [], 0, peer)
    parts = [bytearray(4), bytearray(4), bytearray(100)]
    count, _, flags, _ = sock.recvmsg_into(parts, 1000)
    say(count, flags, [bytes(part[:4]) for part in parts])
    _, _, flags, _ = sock.recvmsg(3, 1000)
    say("cut", bool(flags & socket.MSG_TRUNC))
    _, control, flags, _ = sock.recvmsg(100, 0)
    say("no room for control data", bool(flags & socket.MSG_CTRUNC), control)
    # What does not fit is cut: the first value and no more of the second's header; the second with two bytes of its four.
    first = socket.CMSG_SPACE(20 if six else 12)
    for room in [first + 8, first + socket.CMSG_LEN(2)]:
        _, control, flags, _ = sock.recvmsg(100, room)
        say("room", room, [(name((level, kind)), len(value)) for level, kind, value in control], bool(flags & socket.MSG_CTRUNC))
    # A train comes as datagrams of its segment's size.
    sizes, whole = [], b""
    while len(whole) < len(TRAIN):
        piece = sock.recv(65536)
        sizes.append(len(piece))
        whole += piece
    say("train", whole == TRAIN, sizes)
    sock.setsockopt(SOL_UDP, UDP_GRO, 1)
    say("coalesces", sock.getsockopt(SOL_UDP, UDP_GRO))
    sock.sendto(b"again", peer)
    whole, bad = b"", 0
    while len(whole) < len(TRAIN):
        data, control, _, _ = sock.recvmsg(65536, 1000)
        size = [struct.unpack("i", value)[0] for level, kind, value in control if (level, kind) == (SOL_UDP, UDP_GRO)]
        bad += any(told != 1200 for told in size) or (len(data) > 1200 and not size)
        whole += data
    say("joined", whole == TRAIN, bad)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 50000))
    sock.setblocking(True)
    attempt("receive timeout", sock.recv, 1)


def client():
    sock = fresh_datagram_socket()
    if six:
        sock.setsockopt(41, 67, 0x48)
        sock.setsockopt(41, 16, 33)
    else:
        sock.setsockopt(0, socket.IP_TOS, 0x48)
        sock.setsockopt(0, socket.IP_TTL, 33)
    sock.sendmsg([b"one", b"", b"two"], [], 0, (address, port))
    say(sock.recv(100))
    for word in [b"aaaabbbbcccc", b"too long", b"plain", b"cut", b"cut again"]:
        sock.sendto(word, (address, port))
    # Control data: of levels that nobody knows, of the other family, of kinds and lengths that there are not.
    to_nobody = fresh_datagram_socket()
    other = (0, socket.IP_TTL) if six else (41, 52)
    for level, kind, value in [(99, 1, b"any"), (*other, b"any"), (1, 9999, b"any"), (17, UDP_SEGMENT, b"any"), (17, 99, b"any"),
                               (41 if six else 0, 52 if six else socket.IP_TTL, bytes(5))]:
        attempt((level, kind), to_nobody.sendmsg, [b"x"], [(level, kind, value)], 0, (address, port + 1))
    to_nobody.close()
    sock.connect((address, port))
    sock.sendmsg([TRAIN], [(SOL_UDP, UDP_SEGMENT, struct.pack("H", 1200))])
    say(sock.recv(100))
    sock.setsockopt(SOL_UDP, UDP_SEGMENT, 1200)
    say(sock.getsockopt(SOL_UDP, UDP_SEGMENT), sock.send(TRAIN))
    say("mtu", sock.getsockopt(41 if six else 0, 24 if six else 14))


run(server, client)
