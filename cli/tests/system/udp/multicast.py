"""Multicast groups: joined in every form and left, with one socket and several, by a child, and what the kernel's socket goes on receiving."""
import ctypes

from common import *

MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP, IP_PKTINFO, IP_MINTTL, SO_GET_FILTER = 42, 45, 8, 21, 26
SO_ATTACH_FILTER, SO_LOCK_FILTER = 26, 44
FIRST, SECOND, THIRD, UNWANTED = "239.1.2.3", "224.0.1.129", "239.255.255.250", "239.9.9.9"


def own_address():
    probe = socket.socket(family, socket.SOCK_DGRAM)
    probe.connect((address, port))
    return probe.getsockname()[0]


def request(group, interface_address):
    return socket.inet_aton(group) + socket.inet_aton(interface_address)


def group_request(group, index):
    name = struct.pack("=HH4s", socket.AF_INET, 0, socket.inet_aton(group)) + bytes(120)
    return struct.pack("=II", index, 0) + name


def index_of(interface_address):
    """The number of the interface that has this address."""
    import fcntl
    for index, name in socket.if_nameindex():
        try:
            found = fcntl.ioctl(socket.socket(family, socket.SOCK_DGRAM), 0x8915, name.encode().ljust(40, b"\0"))
        except OSError:
            continue
        if socket.inet_ntoa(found[20:24]) == interface_address:
            return index


def member(bind_to, number):
    s = fresh_datagram_socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((bind_to, number))
    return s


class Peer:
    """The other end does what it is told to, and answers when it has."""

    def __init__(self, control):
        self.file = control.makefile("rw")

    def send(self, group, number, *payloads):
        self.file.write(" ".join(["send", group, str(number), *payloads]) + "\n")
        self.file.flush()
        assert self.file.readline() == "done\n"

    def expect(self, count):
        self.file.write(f"expect {count}\n")
        self.file.flush()
        return eval(self.file.readline())


def taken(s, count):
    return [s.recv(1 << 16)[:40] for _ in range(count)]


def one_socket(peer, own, index):
    s = member(anywhere, port)
    attempt("join", s.setsockopt, socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request(FIRST, own))
    attempt("twice", s.setsockopt, socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request(FIRST, own))
    attempt("no group", s.setsockopt, socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request("192.0.2.1", own))
    attempt("no interface", s.setsockopt, socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request(SECOND, "192.0.2.1"))
    attempt("not joined", s.setsockopt, socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, request(SECOND, own))
    attempt("too short", s.setsockopt, socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, b"1234567")
    # Nobody has joined the first of these.
    peer.send(UNWANTED, port, "unwanted")
    peer.send(FIRST, port, "a", "b", "c")
    say(taken(s, 3))
    attempt("by number", s.setsockopt, socket.IPPROTO_IP, MCAST_JOIN_GROUP, group_request(SECOND, index))
    say("filter", len(s.getsockopt(socket.SOL_SOCKET, SO_GET_FILTER, 1024)))
    s.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    peer.send(SECOND, port, "d")
    data, control, flags, sender = s.recvmsg(100, 200)
    number, _, destination = struct.unpack("i4s4s", control[0][2])
    say(data, number == index, socket.inet_ntoa(destination), sender[0] != own)
    s.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 0)
    s.sendto(b"unicast answer", sender)
    say(peer.expect(1))
    # In pieces: each one goes to both of the stack and the kernel.
    peer.send(SECOND, port, "x" * 20_000)
    say(len(s.recv(1 << 16)))
    # The routes of the namespace name no interface.
    attempt("leave", s.setsockopt, socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, request(FIRST, "0.0.0.0"))
    peer.send(FIRST, port, "stays")
    say(taken(s, 1))
    attempt("leave", s.setsockopt, socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, request(FIRST, own))
    peer.send(FIRST, port, "left")
    peer.send(SECOND, port, "e")
    say(taken(s, 1))
    return s


def several(peer, own, index, s):
    other = member(anywhere, port)
    other.setsockopt(socket.IPPROTO_IP, MCAST_JOIN_GROUP, group_request(SECOND, index))
    peer.send(SECOND, port, "f", "g")
    say("both", taken(s, 2), taken(other, 2))
    # A child leaves for the parent.
    child = os.fork()
    if child == 0:
        say("child", taken(other, 1))
        other.setsockopt(socket.IPPROTO_IP, MCAST_LEAVE_GROUP, group_request(SECOND, index))
        os._exit(0)
    peer.send(SECOND, port, "h")
    os.waitpid(child, 0)
    say("first", taken(s, 1))
    other.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request(THIRD, own))
    # IP_MULTICAST_ALL: it hears what the other socket has joined.
    peer.send(SECOND, port, "i")
    peer.send(THIRD, port, "j")
    say("all", sorted(taken(s, 2)), sorted(taken(other, 2)))
    s.setsockopt(socket.IPPROTO_IP, 49, 0)
    peer.send(THIRD, port, "k")
    peer.send(SECOND, port, "l")
    say("own", taken(s, 1), sorted(taken(other, 2)))
    # What it sends comes back to the sockets of this host.
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
    say("sent", s.sendto(b"back", (SECOND, port)), taken(s, 1), taken(other, 1), peer.expect(1))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
    say("sent", s.sendto(b"away", (SECOND, port)), peer.expect(1))
    peer.send(SECOND, port, "m")
    say("next", taken(s, 1), taken(other, 1))
    other.close()


def bound_to_the_group(peer, own, s):
    t = member(THIRD, port + 1)
    t.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request(THIRD, own))
    say("name", t.getsockname()[0])
    peer.send(own, port + 1, "unicast")
    peer.send(THIRD, port + 1, "n")
    say(taken(t, 1))
    # A filter of the program's own, which passes everything, takes the place of any other, and is locked.
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFFFFFF))
    program = struct.pack("H6xQ", 1, ctypes.addressof(instruction))
    attempt("attach", t.setsockopt, socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
    attempt("lock", t.setsockopt, socket.SOL_SOCKET, SO_LOCK_FILTER, 1)
    say("instructions", len(t.getsockopt(socket.SOL_SOCKET, SO_GET_FILTER, 1024)))
    peer.send(THIRD, port + 1, "filtered")
    say(taken(t, 1))
    # Locked without one.
    u = member(anywhere, port + 2)
    u.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request(THIRD, own))
    attempt("lock", u.setsockopt, socket.SOL_SOCKET, SO_LOCK_FILTER, 1)
    peer.send(THIRD, port + 2, "locked")
    say(taken(u, 1))
    # An option that only the kernel has.
    s.setsockopt(socket.IPPROTO_IP, IP_MINTTL, 1)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request(FIRST, own))
    peer.send(SECOND, port, "o")
    peer.send(FIRST, port, "p")
    say("kernel's", taken(s, 2))


def server():
    listening = listener()
    say("ready")
    peer, own = Peer(listening.accept()[0]), address
    index = index_of(own)
    s = one_socket(peer, own, index)
    several(peer, own, index, s)
    bound_to_the_group(peer, own, s)


def client():
    own = own_address()
    s = member(anywhere, port)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
    # Answers come to this socket, and what is sent to the group.
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request(SECOND, own))
    control = connect().makefile("rw")
    for line in control:
        words = line.split()
        if words[0] == "send":
            for payload in words[3:]:
                s.sendto(payload.encode(), (words[1], int(words[2])))
            control.write("done\n")
        else:
            control.write(repr([s.recv(100) for _ in range(int(words[1]))]) + "\n")
        control.flush()


server() if role == "server" else client()
