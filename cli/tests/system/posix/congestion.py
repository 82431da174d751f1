"""Every congestion control that has a name, chosen by TCP_CONGESTION, on a listener and before connect."""
from common import *


def choose(s, name):
    try:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        return s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
    except OSError as error:
        return code(error)


NAMES = ["reno", "cubic", "bbr"]


def server():
    l = listener()
    say("listener", choose(l, NAMES[0]))
    for following in NAMES[1:] + NAMES[:1]:
        c, _ = l.accept()
        got = to_end(c)
        say("got", len(got), got == noise(500_000))
        # The client opens the next one only after this answer.
        say("listener", choose(l, following))
        c.sendall(got)
        c.close()


def client():
    for name in NAMES:
        s = fresh_socket()
        say("client", choose(s, name))
        s.settimeout(20)
        s.connect((address, port))
        s.sendall(noise(500_000))
        s.shutdown(socket.SHUT_WR)
        say("echo", to_end(s) == noise(500_000))
    s = fresh_socket()
    say("unknown", choose(s, "nonesuch"))


run(server, client)
