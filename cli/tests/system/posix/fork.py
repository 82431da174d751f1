"""Inherited listeners and connections; the connection ends when the last holder closes it."""
from common import *


def server():
    l = listener()
    children = []
    for n in range(2):
        pid = os.fork()
        if pid == 0:
            c, _ = l.accept()
            c.sendall(b"worker\n")
            c.close()
            os._exit(0)
        children.append(pid)
    for pid in children:
        say("child", os.waitpid(pid, 0)[1])
    c, _ = l.accept()
    pid = os.fork()
    if pid == 0:
        c.sendall(b"from the child\n")
        os._exit(0)
    os.waitpid(pid, 0)
    c.sendall(b"from the parent\n")
    pid = os.fork()
    if pid == 0:
        say("child reads", c.recv(100))
        c.sendall(b"last words\n")
        os._exit(0)
    c.close()
    os.waitpid(pid, 0)


def client():
    for _ in range(2):
        say(to_end(connect()))
    c = connect()
    say(exactly(c, 31))
    c.sendall(b"question")
    say(to_end(c))


run(server, client)
