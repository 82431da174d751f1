"""What only IPv6 sockets have: mapped addresses, families that do not fit, scopes, and their options."""
from common import *

V6 = socket.IPPROTO_IPV6
ONLY = ("TCLASS", "UNICAST_HOPS", "V6ONLY", "RECVERR", "MTU_DISCOVER")


def read(name, s):
    for option in ONLY:
        attempt(name + " " + option, s.getsockopt, V6, getattr(socket, "IPV6_" + option, {"RECVERR": 25, "MTU_DISCOVER": 23}.get(option)))


def write(name, s):
    for option in ("TCLASS", "UNICAST_HOPS"):
        number = getattr(socket, "IPV6_" + option)
        for value in (7, 255, 256, -1, -2):
            attempt(f"{name} {option} = {value}", s.setsockopt, V6, number, value)
            attempt(f"{name} {option}", s.getsockopt, V6, number)
    attempt(name + " V6ONLY = 1", s.setsockopt, V6, socket.IPV6_V6ONLY, 1)
    attempt(name + " IP_TOS", s.setsockopt, socket.IPPROTO_IP, socket.IP_TOS, 16)
    attempt(name + " IP_TOS is", s.getsockopt, socket.IPPROTO_IP, socket.IP_TOS)
    attempt(name + " short", s.setsockopt, V6, socket.IPV6_TCLASS, b"x")


def server():
    l = listener()
    say("family", l.family.name, l.getsockname())
    read("listener", l)
    c, peer = l.accept()
    say("accepted", c.family.name, len(peer), peer[2:], c.getpeername() == peer, c.getsockname()[2:])
    read("accepted", c)
    write("accepted", c)
    say("domain", c.getsockopt(socket.SOL_SOCKET, 39))
    c.sendall(b"x")
    to_end(c)
    only = fresh_socket()
    only.setsockopt(V6, socket.IPV6_V6ONLY, 1)
    only.bind((address, 0))
    only.listen()
    read("only", only)
    l.accept()[0].sendall(struct.pack("!H", only.getsockname()[1]))
    d, _ = only.accept()
    read("accepted by only", d)
    say("to the end", to_end(d))


def client():
    c = fresh_socket()
    read("fresh", c)
    attempt("an IPv4 address", c.connect_ex, (address, port))
    say("connected", c.getsockname()[2:], c.getpeername()[2:])
    attempt("path MTU", c.getsockopt, V6, 24)
    write("connected", c)
    exactly(c, 1)
    c.close()
    for place in ("::ffff:127.0.0.1", "::1", "::", "ff02::1", "fe80::1", "::ffff:0.0.0.0"):
        s = fresh_socket()
        s.settimeout(5)
        attempt("connect to " + place, s.connect, (place, 9))
        s.close()
    s = fresh_socket()
    s.setsockopt(V6, socket.IPV6_V6ONLY, 1)
    attempt("mapped on IPv6 only", s.connect, ("::ffff:10.0.0.1", 9))
    s.close()
    s = fresh_socket()
    s.bind(("::ffff:0.0.0.0", 0))
    attempt("IPv6 after a mapped bind", s.connect, (address, port))
    s.close()
    s = fresh_socket()
    attempt("scope of no interface", s.connect, ("fe80::1", port, 0, 9999))
    s.close()
    c = connect()
    chosen = struct.unpack("!H", exactly(c, 2))[0]
    d = fresh_socket()
    d.bind(("::", 0))
    bound = d.getsockname()[1]
    d.connect((address, chosen))
    say("bound", d.getsockname()[1] == bound, d.getsockname()[0] != "::")
    d.sendall(b"there")


run(server, client)
