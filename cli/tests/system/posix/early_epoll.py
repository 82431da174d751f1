"""Threads wait, in epoll_wait and in poll for an instance, before their process has its first socket; a socket is watched before it listens."""
import threading
from common import *


def sleeps_in_kernel(thread):
    with open(f"/proc/self/task/{thread.native_id}/syscall") as file:
        return file.read().split()[0] not in ("running", "-1")


def server():
    early, polled, read, told = select.epoll(), select.epoll(), os.pipe()[0], []
    early.register(read, select.EPOLLIN)
    poll = select.poll()
    poll.register(polled, select.POLLIN)
    waits = threading.Thread(target=lambda: told.extend(early.poll(20)))
    polls = threading.Thread(target=lambda: say("polled", [events(mask) for _, mask in poll.poll(20_000)]))
    for thread in waits, polls:
        thread.start()
        while not sleeps_in_kernel(thread):
            pass
    s, before = fresh_socket(), select.epoll()
    before.register(s, select.EPOLLIN | select.EPOLLET)
    say("not bound", [events(mask) for _, mask in before.poll(0)])
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((anywhere, port))
    s.listen(8)
    early.register(s, select.EPOLLIN)
    polled.register(s, select.EPOLLIN)
    waits.join()
    polls.join()
    say("the thread", [(fd == s.fileno(), events(mask)) for fd, mask in told])
    say("the listener", [(fd == s.fileno(), events(mask)) for fd, mask in before.poll(20)])
    c, _ = s.accept()
    say("accepted", c.recv(1))


def client():
    with connect() as c:
        c.sendall(b"x")
        say("end", c.recv(1))


run(server, client)
