"""Descriptor numbers, dup, close-on-exec, non-blocking shared by duplicates, lowest number first."""
import fcntl

from common import *


def server():
    l = listener()
    c, _ = l.accept()
    first = os.open("/dev/null", os.O_RDONLY)
    os.close(first)
    d, _ = l.accept()
    say("lowest number", d.fileno() == first)
    e = os.dup(c.fileno())
    c.setblocking(False)
    say("shared O_NONBLOCK", os.get_blocking(e))
    say("close-on-exec", os.get_inheritable(e), c.get_inheritable())
    c.close()
    os.set_blocking(e, True)
    say("through the duplicate", os.read(e, 5))
    os.dup2(e, 200)
    os.close(e)
    os.write(200, b"dup2")
    say("socket?", os.path.stat.S_ISSOCK(os.fstat(200).st_mode))
    f = fcntl.fcntl(200, fcntl.F_DUPFD, 300)
    say("F_DUPFD", f)
    os.closerange(200, 250)
    os.write(f, b"again")
    os.close(f)
    attempt("closed", os.read, f, 1)
    os.dup2(os.open("/dev/null", os.O_RDONLY), d.fileno())
    say("replaced by dup2", d.fileno() == os.dup2(os.open("/dev/null", os.O_RDONLY), d.fileno()))


def client():
    c, d = connect(), connect()
    c.sendall(b"hello")
    say(to_end(c))
    say("replaced", d.recv(1))


run(server, client)
