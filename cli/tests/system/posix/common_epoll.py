"""An epoll instance that parent and child share has one list: what one adds, changes, takes or closes, the other sees."""
from common import *

IN, OUT, ET, ONESHOT = select.EPOLLIN, select.EPOLLOUT, select.EPOLLET, select.EPOLLONESHOT
control, conns, names = None, [], {}


def ask(n):
    """The client sends a byte on connection n."""
    control.sendall(b"%d" % n)


def arrive(n):
    """Asks, and waits until the byte is there."""
    ask(n)
    p = select.poll()
    p.register(conns[n].fileno(), select.POLLIN)
    p.poll(20_000)


def told(e, timeout=0):
    return sorted((names.get(fd, "new"), events(mask)) for fd, mask in e.poll(timeout))


def child(act, *arguments):
    """Runs `act` in a child to its end."""
    pid = os.fork()
    if pid == 0:
        try:
            act(*arguments)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def adds():
    e = select.epoll()
    child(e.register, conns[0].fileno(), IN)
    say("nothing yet", told(e))
    ask(0)
    say("the child's socket", told(e, 20))
    attempt("again", e.register, conns[0].fileno(), IN)
    child(lambda: attempt("again, child", e.register, conns[0].fileno(), IN))
    conns[0].recv(10)
    # The parent waits already, or is about to.
    for n in range(1, 4):
        arrive(n)
        pid = os.fork()
        if pid == 0:
            e.register(conns[n].fileno(), IN)
            os._exit(0)
        say("added while the parent waits", told(e, 20))
        os.waitpid(pid, 0)
        conns[n].recv(10)
    say("all read", told(e))
    e.close()


def changes():
    e = select.epoll()
    e.register(conns[0].fileno(), IN)
    arrive(0)
    say("before", told(e))
    child(e.modify, conns[0].fileno(), OUT)
    say("modified by the child", told(e))
    child(e.unregister, conns[0].fileno())
    say("removed by the child", told(e))
    attempt("modify what is removed", e.modify, conns[0].fileno(), IN)
    attempt("remove what is removed", e.unregister, conns[0].fileno())
    e.register(conns[0].fileno(), IN)
    say("added again", told(e))
    child(lambda: say("and for a new child", told(e)))
    e.unregister(conns[0].fileno())
    child(lambda: attempt("the child modifies what the parent removed", e.modify, conns[0].fileno(), IN))
    conns[0].recv(10)
    e.close()


def one_shot():
    e = select.epoll()
    e.register(conns[0].fileno(), IN | ONESHOT)
    arrive(0)
    child(lambda: say("one-shot, child", told(e, 20)))
    say("one-shot, parent", told(e))
    child(e.modify, conns[0].fileno(), IN | ONESHOT)
    say("armed by the child, parent", told(e))
    child(lambda: say("armed by the child, child", told(e)))
    conns[0].recv(10)
    e.close()


def edge():
    e = select.epoll()
    e.register(conns[0].fileno(), IN | ET)
    arrive(0)
    child(lambda: say("edge, child", told(e, 20)))
    say("edge, parent", told(e))
    ask(0)
    say("next edge, parent", told(e, 20))
    child(lambda: say("next edge, child", told(e)))
    exactly(conns[0], 2)
    e.close()


def closes():
    e = select.epoll()
    for n in (4, 5):
        e.register(conns[n].fileno(), IN)
    child(lambda: [conns[n].close() for n in (4, 5)])
    ask(4)
    say("closed by the child", told(e, 20))
    exactly(conns[4], 1)
    # A child keeps connection 5, which the parent closes.
    reads, writes = os.pipe()
    gone, is_gone = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writes)
        os.read(reads, 1)
        conns[5].close()
        os.write(is_gone, b".")
        os._exit(0)
    os.close(reads)
    conns[5].close()
    ask(5)
    say("closed by the parent", told(e, 20))
    os.close(writes)
    os.read(gone, 1)
    say("closed by both", told(e))
    os.waitpid(pid, 0)
    conns[5] = None
    e.close()


def new(l):
    e = select.epoll()
    e.register(conns[0].fileno(), IN)
    (reads, writes), (over, is_over) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        ask(6)
        c, _ = l.accept()
        exactly(c, 1)
        e.register(c.fileno(), IN)
        c.sendall(b".")
        os.close(is_over)
        os.close(writes)
        os.read(over, 1)
        os._exit(0)
    os.close(writes)
    say("a socket of the child's own", told(e, 20))
    os.close(is_over)
    os.waitpid(pid, 0)
    deadline = time.monotonic() + 20
    while told(e) and time.monotonic() < deadline:
        pass
    say("the child has died", told(e))
    ask(7)
    c, _ = l.accept()
    exactly(c, 1)
    e.register(c.fileno(), IN)
    c.sendall(b".")
    say("the next one", told(e, 20))
    c.close()
    say("is closed", told(e))
    e.close()


def server():
    global control
    l = listener()
    # With several workers they are accepted in another order than they were made in.
    made = sorted(((c, exactly(c, 1)) for c in (l.accept()[0] for _ in range(7))), key=lambda named: named[1])
    control = made.pop()[0]
    for n, (c, _) in enumerate(made):
        conns.append(c)
        names[c.fileno()] = n
    adds()
    changes()
    one_shot()
    edge()
    closes()
    new(l)
    control.close()


def client():
    control, *conns = [connect() for _ in range(7)]
    for name, c in enumerate([*conns, control]):
        c.sendall(b"%d" % name)
    while wish := control.recv(1):
        n = int(wish)
        if n < 6:
            conns[n].sendall(b"x")
        else:
            c = connect()
            c.sendall(b"a")
            say(exactly(c, 1))
            c.sendall(b"b")
            attempt("unread", to_end, c)
    say("over")


run(server, client)
