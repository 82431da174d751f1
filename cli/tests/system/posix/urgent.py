"""MSG_OOB both ways: out of line, in line, the mark, POLLPRI and SIGURG."""
from common import *
import fcntl

SIOCATMARK = 0x8905


def at_mark(s):
    return struct.unpack("i", fcntl.ioctl(s, SIOCATMARK, struct.pack("i", 0)))[0]


def wait_urgent(s):
    poll = select.poll()
    poll.register(s, select.POLLPRI)
    return [mask & select.POLLPRI for _, mask in poll.poll(20_000)]


def server():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
    c, _ = listener().accept()
    fcntl.fcntl(c, fcntl.F_SETOWN, os.getpid())
    c.sendall(b"go")
    say("poll", wait_urgent(c))
    say("signal", signal.sigtimedwait([signal.SIGURG], 20).si_signo == signal.SIGURG)
    say("out of line", c.recv(5, socket.MSG_OOB))
    attempt("once only", c.recv, 5, socket.MSG_OOB)
    say("before the mark", exactly(c, 3), at_mark(c))
    c.sendall(b"go")
    say("behind the mark", exactly(c, 3), at_mark(c))
    c.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    c.sendall(b"go")
    say("poll", wait_urgent(c))
    attempt("in line there is none", c.recv, 5, socket.MSG_OOB)
    say("a read ends at the mark", c.recv(10), at_mark(c))
    c.sendall(b"go")
    say("in line", exactly(c, 4), at_mark(c))
    say("sent", c.send(b"12?", socket.MSG_OOB))
    c.shutdown(socket.SHUT_WR)
    say("end", c.recv(1))


def client():
    c = connect()
    exactly(c, 2)
    say("sent", c.send(b"abc!", socket.MSG_OOB))
    exactly(c, 2)
    say("sent", c.send(b"def"))
    exactly(c, 2)
    say("sent", c.send(b"xy!", socket.MSG_OOB))
    exactly(c, 2)
    say("sent", c.send(b"end"))
    say("poll", wait_urgent(c))
    say("out of line", c.recv(1, socket.MSG_OOB), exactly(c, 2), to_end(c))


run(server, client)
