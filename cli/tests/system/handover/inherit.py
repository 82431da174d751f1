"""A server on Ringway that gives a socket to a program that Ringway's library does not reach.

server PORT HOW WHAT PROGRAM...: HOW is exec, vfork, spawn, jail (exec below the folder of PROGRAM, its root directory) or passed. WHAT is unread (a connection with bytes that were not read), half (one of
which the client has sent all), listener, or early (one for which the stack has accepted the client). The program has it as its standard input and output; `passed`: it is sent in a message to the helper
that listens at the path PROGRAM.
helper PATH WHAT
client HOST PORT WHAT: sends a line at once and one later, reads until the end, prints what came.
"""
import array
import os
import select
import socket
import subprocess
import sys


def taken(port, what):
    listener = socket.create_server(("0.0.0.0", port))
    print("listens", flush=True)
    if what == "early":
        select.select([listener], [], [])
    if what in ("listener", "early"):
        return listener
    conn, _ = listener.accept()
    # What is here stays unread.
    if what == "half":
        poll = select.poll()
        poll.register(conn, select.POLLRDHUP)
        poll.poll()
    assert conn.recv(6, socket.MSG_PEEK | socket.MSG_WAITALL) == b"first\n"
    return conn


def server(port, how, what, program):
    conn = taken(port, what)
    number = conn.fileno()
    if how in ("exec", "jail"):
        until_exec, closes_on_exec = os.pipe()
        if os.fork() == 0:
            os.dup2(number, 0)
            os.dup2(number, 1)
            # Nothing that is said there is for the client.
            os.dup2(number, 2)
            if how == "jail":
                root, name = os.path.split(program[0])
                os.chroot(root)
                program[0] = f"/{name}"
            os.execv(program[0], program)
        os.close(closes_on_exec)
        assert os.read(until_exec, 1) == b""
    elif how == "vfork":
        subprocess.Popen(program, stdin=conn, stdout=conn)
    elif how == "spawn":
        actions = [(os.POSIX_SPAWN_DUP2, number, 0), (os.POSIX_SPAWN_DUP2, number, 1)]
        conn.set_inheritable(True)
        os.posix_spawn(program[0], program, os.environ, file_actions=actions)
    else:
        helper = socket.socket(socket.AF_UNIX)
        helper.connect(program[0])
        helper.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [number]))])
        assert helper.recv(1) == b"y"
    conn.close()
    print("given", flush=True)
    try:
        os.wait()
    except ChildProcessError:
        pass


def helper(path, what):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("listens", flush=True)
    sender, _ = listener.accept()
    _, rights, _, _ = sender.recvmsg(1, 100)
    conn = socket.socket(fileno=array.array("i", rights[0][2])[0])
    sender.sendall(b"y")
    if what in ("listener", "early"):
        conn, _ = conn.accept()
    while data := conn.recv(100):
        conn.sendall(data)
    conn.close()


def client(host, port, what):
    conn = socket.create_connection((host, port))
    conn.sendall(b"first\n")
    got = b""
    if what == "half":
        conn.sendall(b"second\n")
    else:
        got += conn.recv(6, socket.MSG_WAITALL)
        conn.sendall(b"second\n")
        got += conn.recv(7, socket.MSG_WAITALL)
    conn.shutdown(socket.SHUT_WR)
    while piece := conn.recv(100):
        got += piece
    print(got.decode(), end="", flush=True)


if sys.argv[1] == "server":
    server(int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:])
elif sys.argv[1] == "helper":
    helper(*sys.argv[2:])
else:
    client(sys.argv[2], int(sys.argv[3]), sys.argv[4])
