"""A server, peers of it that never read, and one that does. Usage: SCRIPT server|slow|served ADDRESS PORT; speaks in stable words."""
import resource, select, signal, socket, sys

role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))
LARGE, MIDDLE = b"l" * (4 << 20), b"m" * (64 << 10)


def say(*words):
    print(*words, flush=True)


def server():
    """Answers L with 4 MiB, M with 64 KiB, S with itself, and keeps what finds no room."""
    listener = socket.create_server((address, port), backlog=4096)
    listener.setblocking(False)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    connections, waiting = {}, {}
    while True:
        for number, events in poll.poll():
            if number == listener.fileno():
                connection, _ = listener.accept()
                connection.setblocking(False)
                connections[connection.fileno()] = connection
                waiting[connection.fileno()] = memoryview(b"")
                poll.register(connection, select.EPOLLIN)
                continue
            try:
                if events & select.EPOLLIN:
                    asked = connections[number].recv(1)
                    if not asked:
                        raise ConnectionError
                    waiting[number] = memoryview({b"L": LARGE, b"M": MIDDLE}.get(asked, asked))
                if waiting[number]:
                    waiting[number] = waiting[number][connections[number].send(waiting[number]):]
                poll.modify(number, select.EPOLLIN | (select.EPOLLOUT if waiting[number] else 0))
            except BlockingIOError:
                poll.modify(number, select.EPOLLIN | select.EPOLLOUT)
            except OSError:
                poll.unregister(number)
                connections.pop(number).close()


def slow():
    """Connects a thousand times, asks for much each time and reads nothing."""
    made = []
    for _ in range(1000):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        one.settimeout(20)
        one.connect((address, port))
        one.sendall(b"L")
        made.append(one)
    say("asked for much")
    signal.pause()


def read_all(one, count):
    while count > 0:
        piece = one.recv(65536)
        assert piece, "the end came early"
        count -= len(piece)


def served():
    """Is answered each time: on new connections, and on one that lasts."""
    lasting = socket.create_connection((address, port), 20)
    for _ in range(100):
        fresh = socket.create_connection((address, port), 20)
        for one in (fresh, lasting):
            for request, count in ((b"S", 1), (b"M", len(MIDDLE))):
                one.sendall(request)
                read_all(one, count)
        fresh.close()
    lasting.sendall(b"L")
    read_all(lasting, len(LARGE))
    say("all answered")


{"server": server, "slow": slow, "served": served}[role]()
