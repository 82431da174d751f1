"""A program with connections that see no call for a long time, and whose threads are elsewhere.

MODE HOST PORT FILE: connects, has a message echoed, prints ready, and is somewhere else until FILE exists: in accept, poll, epoll or recvfrom of another socket, or in calls on another one (calls), in
epoll_wait with a time limit (turns), or in no call on a socket at all (sleep). Then it has another message echoed by each of its connections, and prints how many answered.
"""
import os
import select
import socket
import sys
import time

mode, host, port, file = sys.argv[1:]
pool = [socket.create_connection((host, int(port))) for _ in range(3)]


def answers(message):
    count = 0
    for conn in pool:
        conn.sendall(message)
        count += conn.recv(len(message), socket.MSG_WAITALL) == message
    return count


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
print(answers(b"after"), "answered", flush=True)
