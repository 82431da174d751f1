"""A thread waits before its process has its first socket; a socket is watched before it listens."""
import threading
from common import *


def sleeps_in_kernel(thread):
    with open(f"/proc/self/task/{thread.native_id}/syscall") as file:
        return file.read().split()[0] not in ("running", "-1")


def server():
    early, read, told = select.epoll(), os.pipe()[0], []
    early.register(read, select.EPOLLIN)
    waits = threading.Thread(target=lambda: told.extend(early.poll(20)))
    waits.start()
    while not sleeps_in_kernel(waits):
        pass
    s, before = fresh_socket(), select.epoll()
    before.register(s, select.EPOLLIN | select.EPOLLET)
    say("not bound", [events(mask) for _, mask in before.poll(0)])
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((anywhere, port))
    s.listen(8)
    early.register(s, select.EPOLLIN)
    waits.join()
    say("the thread", [(fd == s.fileno(), events(mask)) for fd, mask in told])
    say("the listener", [(fd == s.fileno(), events(mask)) for fd, mask in before.poll(20)])
    c, _ = s.accept()
    say("accepted", c.recv(1))


def client():
    with connect() as c:
        c.sendall(b"x")
        say("end", c.recv(1))


run(server, client)
