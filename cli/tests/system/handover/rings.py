"""The peer of rings.c, in the kernel.

client HOST PORT EARLY ALL: connects EARLY times and sends a line in each, prints "connected"; reads the answers, then connects one after the
other until there are ALL; prints the ports that it had.
server PORT: answers one connection.
"""
import socket
import sys
import threading


def talk(conn):
    conn.sendall(b"two\n")
    got = conn.recv(8, socket.MSG_WAITALL)
    assert got == b"one\ntwo\n", got
    conn.shutdown(socket.SHUT_WR)
    assert conn.recv(1) == b""
    conn.close()


def connected(host, port):
    conn = socket.create_connection((host, port))
    conn.sendall(b"one\n")
    return conn


if sys.argv[1] == "client":
    host, port, early, count = sys.argv[2], *map(int, sys.argv[3:])
    first = [connected(host, port) for _ in range(early)]
    print("connected", flush=True)
    ports = [conn.getsockname()[1] for conn in first]
    # Which of them is served first is the server's affair.
    talks = [threading.Thread(target=talk, args=(conn,)) for conn in first]
    for thread in talks:
        thread.start()
    for thread in talks:
        thread.join()
    for _ in range(early, count):
        conn = connected(host, port)
        ports.append(conn.getsockname()[1])
        talk(conn)
    print(*ports, sep="\n", flush=True)
else:
    listener = socket.create_server(("0.0.0.0", int(sys.argv[2])))
    conn, _ = listener.accept()
    conn.sendall(conn.recv(5, socket.MSG_WAITALL))
    assert conn.recv(1) == b""
    print("served", flush=True)
