"""A server that passes each connection to another process and closes it: many more than there can be at once."""
from common import *

ROUNDS = 1000


def serve(theirs):
    while True:
        _, fds, _, _ = socket.recv_fds(theirs, 1, 1)
        if not fds:
            return
        with socket.socket(fileno=fds[0]) as c:
            c.sendall(exactly(c, 1))
        theirs.send(b"a")


def server():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        serve(theirs)
        os._exit(0)
    theirs.close()
    l = listener()
    for n in range(ROUNDS):
        c, _ = l.accept()
        socket.send_fds(ours, [b"c"], [c.fileno()])
        # As Node's cluster does, every other time; as others do, every other time.
        if n % 2:
            ours.recv(1)
            c.close()
        else:
            c.close()
            ours.recv(1)
    ours.close()
    say("child", os.waitpid(pid, 0)[1])


def client():
    answers = set()
    for _ in range(ROUNDS):
        with connect() as c:
            c.sendall(b"x")
            answers.add(to_end(c))
    say(answers)


run(server, client)
