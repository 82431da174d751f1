"""FIN, RST, EPIPE: how each end of a connection looks to the other."""
from common import *

LINGER_RESET = struct.pack("ii", 1, 0)


def server():
    l = listener()
    c, _ = l.accept()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
    exactly(c, 1)
    c.close()
    c, _ = l.accept()
    c.recv(1, socket.MSG_PEEK)
    c.close()
    c, _ = l.accept()
    say("until reset", exactly(c, 1))
    attempt("reset", c.recv, 1)
    attempt("after reset", c.recv, 1)
    attempt("send after reset", c.send, b"x", socket.MSG_NOSIGNAL)
    say("poll", [events(mask) for _, mask in poll(c, 0)])
    c, _ = l.accept()
    say("end", c.recv(1), c.recv(1))
    c.send(b"x")
    reset = select.poll()
    reset.register(c, 0)
    reset.poll(20_000)
    attempt("second send", c.send, b"x", socket.MSG_NOSIGNAL)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        c.send(b"x")
        os._exit(0)
    say("SIGPIPE", os.waitpid(pid, 0)[1] == signal.SIGPIPE)
    # What was written goes before the reset, whatever the reason of the reset.
    c, _ = l.accept()
    exactly(c, 1)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
    c.sendall(b"written")
    c.close()
    c, _ = l.accept()
    c.recv(1, socket.MSG_PEEK)
    c.sendall(b"too large")
    c.close()


def poll(s, timeout):
    p = select.poll()
    p.register(s, select.POLLIN | select.POLLOUT)
    return p.poll(timeout)


def client():
    c = connect()
    c.sendall(b"x")
    poll_in = select.poll()
    poll_in.register(c, select.POLLIN)
    say("poll of a reset", [events(mask) for _, mask in poll_in.poll(20_000)])
    attempt("linger 0", c.recv, 1)
    c = connect()
    c.sendall(b"unread")
    attempt("unread data", c.recv, 1)
    c = connect()
    c.sendall(b"x")
    time.sleep(0.2)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
    c.close()
    c = connect()
    c.close()
    for word in [b"x", b"a request that nobody reads"]:
        c = connect()
        c.sendall(word)
        p = select.poll()
        p.register(c, select.POLLRDHUP)
        p.poll(20_000)
        say("before the reset", c.recv(100))
        attempt("reset", c.recv, 1)
    say("done")


run(server, client)
