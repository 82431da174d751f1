"""Connections passed to another process: the end of the receiver's descriptor is the end of the connection, though both processes live."""
from common import *

ROUNDS = 3


def server():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        while True:
            message, fds, _, _ = socket.recv_fds(theirs, 100, 1)
            if not message:
                os._exit(0)
            with socket.socket(fileno=fds[0]) as c:
                say("passed", c.recv(100))
                c.sendall(b"hello from the other process")
    theirs.close()
    listening = listener()
    for _ in range(ROUNDS):
        c, _ = listening.accept()
        socket.send_fds(ours, [b"take it"], [c.fileno()])
        c.close()
    # The client comes again when it has seen the end of all others.
    c, _ = listening.accept()
    say("last", to_end(c))
    ours.close()
    say("child", os.waitpid(pid, 0)[1])


def client():
    for _ in range(ROUNDS):
        with connect() as c:
            c.settimeout(20)
            c.sendall(b"hello")
            say(to_end(c))
    with connect() as c:
        c.sendall(b"all have ended")


run(server, client)
