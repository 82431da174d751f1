"""A connection passed to another process through a Unix socket."""
from common import *


def server():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _, fds, _, _ = socket.recv_fds(theirs, 100, 1)
        c = socket.socket(fileno=fds[0])
        say("passed", c.recv(100))
        c.sendall(b"hello from the other process")
        os._exit(0)
    c, _ = listener().accept()
    socket.send_fds(ours, [b"take it"], [c.fileno()])
    c.close()
    say("child", os.waitpid(pid, 0)[1])


def client():
    c = connect()
    c.sendall(b"hello")
    say(to_end(c))


run(server, client)
