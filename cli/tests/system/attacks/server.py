"""server.py ADDRESS: answers requests that end with an empty line on TCP port 7080 (`GET /large`: 4 MB, all else 100 bytes) and echoes UDP
on port 7081. One thread, no time limits: what keeps its clients apart is the stack's business."""
import resource, selectors, socket, sys

resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
SMALL, LARGE = b"s" * 100, b"l" * 4_000_000
poll = selectors.DefaultSelector()
door = socket.create_server((sys.argv[1], 7080), backlog=1024)
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind((sys.argv[1], 7081))
waiting = {}  # connection -> what it has asked so far, or a view of what it is still to get


def end(connection):
    poll.unregister(connection)
    del waiting[connection]
    connection.close()


def serve(connection):
    state = waiting[connection]
    try:
        if isinstance(state, bytes):
            more = connection.recv(4096)
            state += more
            waiting[connection] = state
            if not more or len(state) > 8192:
                return end(connection)
            if not state.endswith(b"\r\n\r\n"):
                return
            waiting[connection] = state = memoryview(LARGE if state.startswith(b"GET /large") else SMALL)
            poll.modify(connection, selectors.EVENT_WRITE)
        waiting[connection] = state[connection.send(state):]
        if not waiting[connection]:
            end(connection)
    except BlockingIOError:
        pass
    except OSError:
        end(connection)


for listener in (door, datagrams):
    listener.setblocking(False)
    poll.register(listener, selectors.EVENT_READ)
while True:
    for key, _ in poll.select():
        if key.fileobj is door:
            try:
                connection = door.accept()[0]
            except OSError:
                continue
            connection.setblocking(False)
            waiting[connection] = b""
            poll.register(connection, selectors.EVENT_READ)
        elif key.fileobj is datagrams:
            try:
                datagrams.sendto(*datagrams.recvfrom(2048))
            except OSError:
                pass
        elif key.fileobj in waiting:
            serve(key.fileobj)
