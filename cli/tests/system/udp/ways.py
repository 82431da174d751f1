"""When and where datagrams came: SO_TIMESTAMP in all its forms, SIOCGSTAMP, IP_PKTINFO; and how they shall leave."""
import fcntl

from common import *

SO_TIMESTAMP, SO_TIMESTAMPNS, SO_TIMESTAMP_NEW, SO_TIMESTAMPNS_NEW = 29, 35, 63, 64
FORMS = [SO_TIMESTAMP, SO_TIMESTAMPNS, SO_TIMESTAMP_NEW, SO_TIMESTAMPNS_NEW]
IP_PKTINFO, IPV6_RECVPKTINFO, IPV6_PKTINFO = 8, 49, 50


def near(value, fraction):
    seconds, rest = struct.unpack("ll", value)
    return len(value), abs(seconds + rest / fraction - time.time()) < 10, 0 <= rest < fraction


def stamps(control):
    return [(kind, *near(value, 1e6 if kind in (29, 63) else 1e9)) for level, kind, value in control if level == 1]


def info(index, source):
    if six:
        return (socket.IPPROTO_IPV6, IPV6_PKTINFO, socket.inet_pton(family, source) + struct.pack("i", index))
    return (socket.IPPROTO_IP, IP_PKTINFO, struct.pack("i", index) + socket.inet_aton(source) + bytes(4))


def server():
    sock = fresh_datagram_socket()
    sock.setsockopt(1, SO_TIMESTAMP, 1)
    sock.bind((anywhere, port))
    say("ready")
    for form in FORMS:
        for other in FORMS:
            sock.setsockopt(1, other, 0)
        sock.setsockopt(1, form, 1)
        say(form, [sock.getsockopt(1, other) for other in FORMS])
        data, control, flags, peer = sock.recvmsg(100, 200)
        say(data, stamps(control), flags)
        sock.sendto(b"seen", peer)
    say("both", [sock.setsockopt(1, form, 1) for form in (SO_TIMESTAMP, SO_TIMESTAMPNS)])
    data, control, flags, peer = sock.recvmsg(100, 200)
    say(data, stamps(control))
    # Without the option the last datagram's time is kept.
    for form in FORMS:
        sock.setsockopt(1, form, 0)
    sock.sendto(b"off", peer)
    data, control, flags, peer = sock.recvmsg(100, 200)
    say(data, control)
    say("SIOCGSTAMP", near(fcntl.ioctl(sock, 0x8906, bytes(16)), 1e6))
    say("SIOCGSTAMPNS", near(fcntl.ioctl(sock, 0x8907, bytes(16)), 1e9))
    # Where it came, and an answer that leaves there.
    sock.setsockopt(*((socket.IPPROTO_IPV6, IPV6_RECVPKTINFO) if six else (socket.IPPROTO_IP, IP_PKTINFO)), 1)
    sock.sendto(b"on", peer)
    data, control, flags, peer = sock.recvmsg(100, 200)
    value = [value for level, kind, value in control if kind in (IP_PKTINFO, IPV6_PKTINFO)][0]
    index = struct.unpack_from("i", value, 16 if six else 0)[0]
    say(data, index == socket.if_nametoindex(socket.if_indextoname(index)), "lo" != socket.if_indextoname(index))
    any_address, foreign = ("::", "2001:db8::77") if six else ("0.0.0.0", "192.0.2.77")
    attempt("same way", lambda: sock.sendmsg([b"same"], [info(index, address)], 0, peer))
    attempt("that interface", lambda: sock.sendmsg([b"interface"], [info(index, any_address)], 0, peer))
    attempt("that address", lambda: sock.sendmsg([b"address"], [info(0, address)], 0, peer))
    attempt("no such interface", lambda: sock.sendmsg([b"x"], [info(9999, any_address)], 0, peer))
    attempt("no such interface", lambda: sock.sendmsg([b"x"], [info(9999, address)], 0, peer))
    attempt("not our address", lambda: sock.sendmsg([b"x"], [info(0, foreign)], 0, peer))
    attempt("not our address", lambda: sock.sendmsg([b"x"], [info(index, foreign)], 0, peer))
    attempt("in pieces", lambda: sock.sendmsg([b"in "], [info(index, address)], 0x8000, peer))
    attempt("in pieces", lambda: sock.sendmsg([b"pieces"], [info(9999, address)], 0, peer))


def client():
    sock = fresh_datagram_socket()
    sock.connect((address, port))
    for form in FORMS:
        sock.send(b"%d" % form)
        say(sock.recv(100))
    for word in [b"both", b"none", b"where"]:
        sock.send(word)
        if word != b"where":
            say(sock.recv(100))
    for _ in range(4):
        say(sock.recv(100))


run(server, client)
