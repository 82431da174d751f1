"""Two processes wait in one epoll instance, which fork shares: a listener's connection wakes one that is free, always."""
from common import *

ROUNDS = 20


def worker(l, e):
    while True:
        for fd, mask in e.poll(20):
            try:
                c, _ = l.accept()
            except BlockingIOError:
                continue
            # Serves this connection alone until it ends.
            c.setblocking(True)
            c.sendall(b"hello")
            last = to_end(c)
            c.close()
            if last == b"end":
                os._exit(0)


def server():
    l = listener()
    l.setblocking(False)
    e = select.epoll()
    e.register(l.fileno(), select.EPOLLIN)
    children = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            worker(l, e)
        children.append(pid)
    say([os.waitpid(pid, 0)[1] for pid in children])


def client():
    for n in range(ROUNDS + 1):
        pair = [connect(), connect()]
        # Both are served at the same time, so by two processes.
        for c in pair:
            say(n, exactly(c, 5))
        for c in pair:
            c.sendall(b"end" if n == ROUNDS else b"on")
            c.shutdown(socket.SHUT_WR)
            say(to_end(c))
            c.close()


run(server, client)
