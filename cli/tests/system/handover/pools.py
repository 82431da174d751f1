"""A program with connections that see no call for a long time, and whose threads are elsewhere.

connects MODE HOST PORT FILE: connects, has a message echoed, prints ready, and is somewhere else until FILE exists: in accept, poll, epoll or recvfrom of another socket, or in calls on another one (calls), in
epoll_wait with a time limit (turns), or in no call on a socket at all (sleep). Then it has another message echoed by each of its connections, and prints how many answered.
listens MODE HOST PORT FILE: listens, prints ready, and is somewhere else too. Then it accepts what has come, reads a message of each, and goes on like that.
"""
import os
import select
import socket
import sys
import time

role, mode, host, port, file = sys.argv[1:]
if role == "connects":
    pool = [socket.create_connection((host, int(port))) for _ in range(3)]
else:
    listener = socket.create_server(("", int(port)))


def answers(message):
    count = 0
    for conn in pool:
        conn.sendall(message)
        count += conn.recv(len(message), socket.MSG_WAITALL) == message
    return count


if role == "connects":
    assert answers(b"before") == 3
kind = socket.SOCK_DGRAM if mode == "recvfrom" else socket.SOCK_STREAM
other = socket.socket(socket.AF_INET, kind)
other.bind(("0.0.0.0", 0))
if kind == socket.SOCK_STREAM:
    other.listen()
print("ready", other.getsockname()[1], flush=True)
if mode == "accept":
    other.accept()
elif mode == "poll":
    poll = select.poll()
    poll.register(other, select.POLLIN)
    poll.poll()
elif mode == "epoll":
    epoll = select.epoll()
    epoll.register(other, select.EPOLLIN)
    epoll.poll()
elif mode == "recvfrom":
    other.recvfrom(10)
else:
    epoll = select.epoll()
    epoll.register(other, select.EPOLLIN)
    while not os.path.exists(file):
        if mode == "turns":
            epoll.poll(0.02)
            continue
        if mode == "calls":
            other.getsockname()
        time.sleep(0.02)
if role == "listens":
    pool = [listener.accept()[0] for _ in range(3)]
    assert all(conn.recv(6, socket.MSG_WAITALL) == b"before" for conn in pool)
print(answers(b"after"), "answered", flush=True)
