"""Small exchanges and bulk in both directions, each byte compared. Usage: victim.py server ADDRESS PORT | victim.py client ADDRESS PORT STOP-FILE"""
import os, socket, sys, threading, time

role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
MESSAGE, BULK = 64, 4 << 20
content = bytes((i * 31 + i // 251) % 256 for i in range(BULK))


def exactly(s, count):
    data = bytearray()
    while len(data) < count:
        piece = s.recv(min(count - len(data), 1 << 18))
        if not piece:
            break
        data += piece
    return bytes(data)


def serve(s):
    with s:
        kind = exactly(s, 1)
        if kind == b"e":
            while data := s.recv(MESSAGE):
                s.sendall(data)
        elif kind == b"d":
            s.sendall(content)
        elif kind == b"u":
            s.sendall(b"1" if exactly(s, BULK) == content else b"0")


if role == "server":
    listener = socket.create_server((address, port))
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

stop = sys.argv[4]
wrong, errors, times = [], [], []


def until_stopped(work):
    def run():
        while not os.path.exists(stop):
            try:
                work()
            except OSError as error:
                errors.append(f"{work.__name__}: {error!r}")
                return
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def connect(kind):
    s = socket.create_connection((address, port), 30)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(kind)
    return s


echo_connection = connect(b"e")


def echo():
    message = os.urandom(MESSAGE)
    start = time.perf_counter()
    echo_connection.sendall(message)
    if exactly(echo_connection, MESSAGE) != message:
        wrong.append("echo")
    times.append(time.perf_counter() - start)
    time.sleep(0.002)


def download():
    with connect(b"d") as s:
        if exactly(s, BULK) != content:
            wrong.append("download")


def upload():
    with connect(b"u") as s:
        s.sendall(content)
        if exactly(s, 1) != b"1":
            wrong.append("upload")


threads = [until_stopped(work) for work in (echo, download, upload)]
print("running", flush=True)
for thread in threads:
    thread.join()
times.sort()
print("wrong", len(wrong), "errors", len(errors), *errors[:3])
print("p99_us", int(times[len(times) * 99 // 100] * 1e6), "exchanges", len(times), flush=True)
