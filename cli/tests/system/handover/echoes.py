"""Both ends of connections that echo a byte now and then.

server PORT CONNECTIONS: accepts so many, closes the listener, prints `kept`, echoes until all have ended.
client HOST PORT CONNECTIONS FILE: connects, prints `connected`, waits for FILE, has a byte echoed on each, prints `CONNECTIONS whole`.
"""
import os
import resource
import selectors
import socket
import sys
import time

resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))


def server(port, count):
    listener = socket.create_server(("0.0.0.0", port), backlog=1024)
    print("listens", flush=True)
    selector = selectors.DefaultSelector()
    for _ in range(count):
        selector.register(listener.accept()[0], selectors.EVENT_READ)
    listener.close()
    print("kept", flush=True)
    while selector.get_map():
        for key, _ in selector.select():
            sock = key.fileobj
            byte = sock.recv(1)
            if byte:
                sock.sendall(byte)
            else:
                selector.unregister(sock)
                sock.close()


def client(host, port, count, file):
    socks = [socket.create_connection((host, port), 20) for _ in range(count)]
    print("connected", flush=True)
    while not os.path.exists(file):
        time.sleep(0.01)
    for sock in socks:
        sock.sendall(b"?")
    for sock in socks:
        assert sock.recv(1) == b"?", "no echo"
    print(count, "whole", flush=True)


if sys.argv[1] == "server":
    server(*map(int, sys.argv[2:4]))
else:
    client(sys.argv[2], *map(int, sys.argv[3:5]), sys.argv[5])
