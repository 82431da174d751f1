"""select, poll and timeouts over sockets, pipes and timers together; signals interrupt waits."""
from common import *


def server():
    l = listener()
    r, w = os.pipe()
    first, _ = l.accept()
    say("nothing", select.select([l, r], [], [], 0.05))
    os.write(w, b"x")
    ready = select.select([l, r], [w], [], 20)
    say("pipe", [x == r for x in ready[0]], len(ready[1]))
    os.read(r, 1)
    first.sendall(b"next")
    first.close()
    select.select([l], [], [], 20)
    c, _ = l.accept()
    ready = select.select([c, r], [c, w], [c], 0)
    say("fresh connection", len(ready[0]), len(ready[1]), len(ready[2]))
    c.sendall(b"go")
    ready = select.select([c, r], [], [], 20)
    say("socket", [x == c for x in ready[0]])
    p = select.poll()
    p.register(c, select.POLLIN)
    p.register(r, select.POLLIN)
    os.write(w, b"y")
    say("both", sorted(events(mask) for _, mask in p.poll(0)))
    say(c.recv(10), os.read(r, 1))
    said = []
    signal.signal(signal.SIGALRM, lambda *_: said.append("alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    start = time.monotonic()
    say("wait goes on after a signal", p.poll(300), said, time.monotonic() - start >= 0.29)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    c.sendall(b"now")
    say("recv goes on after a signal", c.recv(10), said)
    start = time.monotonic()
    say("timeout", p.poll(100), 0.09 < time.monotonic() - start < 5)
    c.sendall(b"end")


def client():
    await_server()
    c = connect()
    exactly(c, 2)
    c.sendall(b"data")
    exactly(c, 3)
    time.sleep(0.5)
    c.sendall(b"late")
    say(to_end(c))


run(server, client)
