"""Connects to where nobody is: no neighbor answers, a router or a route says no."""
from common import *


def server():
    l = listener()
    c, _ = l.accept()
    say("end", to_end(c))


def client():
    start = address[:-1] if six else address.rsplit(".", 1)[0] + "."
    for name, place in (("nobody", start + ("fa" if six else "250")), ("refused by a router", "fd79::1" if six else "10.79.0.1"),
                        ("refused by a route", "fd80::1" if six else "10.80.0.1"), ("no route", "fd81::1" if six else "10.81.0.1")):
        s = fresh_socket()
        s.settimeout(20)
        attempt(name, s.connect, (place, 9))
        s.close()
    connect().close()


run(server, client)
