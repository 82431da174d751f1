"""A daemon: listener, connection and epoll instance are made by a parent that exits; the child serves with them."""
from common import *


def serve(l, e, c):
    served = 0
    while served < 4:
        for fd, mask in e.poll(20):
            if fd == l.fileno():
                try:
                    new, _ = l.accept()
                except BlockingIOError:
                    continue
                served += 1
                new.sendall(exactly(new, 5).upper())
                new.close()
            else:
                e.unregister(fd)
                served += 1
                c.sendall(c.recv(100).upper())
                c.close()


def daemon():
    l = listener()
    c, _ = l.accept()
    l.setblocking(False)
    e = select.epoll()
    e.register(l.fileno(), select.EPOLLIN)
    e.register(c.fileno(), select.EPOLLIN | select.EPOLLET)
    say("idle", e.poll(0))
    if os.fork():
        os._exit(0)
    # The parent is gone when its end of the pipe says so.
    os.close(parent_writes)
    os.read(parent_reads, 1)
    c.sendall(b"ready")
    serve(l, e, c)
    os._exit(0)


def server():
    global parent_reads, parent_writes
    over_reads, over_writes = os.pipe()
    parent_reads, parent_writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        daemon()
    os.close(over_writes)
    os.close(parent_writes)
    say("parent", os.waitpid(pid, 0)[1])
    say("child is over", os.read(over_reads, 1))


def client():
    first = connect()
    say(exactly(first, 5))
    for n in range(3):
        c = connect()
        c.sendall(b"hello")
        say(to_end(c))
    first.sendall(b"the first")
    say(to_end(first))


run(server, client)
