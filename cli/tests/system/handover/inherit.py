"""A server on Ringway that gives its connection, with bytes unread, to a program that Ringway's library does not reach.

server PORT HOW PROGRAM...: HOW is exec, vfork, spawn or passed. The program has the connection as its standard input and output;
`passed`: it is sent in a message to the helper that listens at the path PROGRAM.
client HOST PORT: sends a line at once and one later, reads until the end, prints what came.
"""
import array
import os
import socket
import subprocess
import sys


def accept(port):
    listener = socket.create_server(("0.0.0.0", port))
    print("listens", flush=True)
    conn, _ = listener.accept()
    # The first line is here, and stays unread.
    assert conn.recv(6, socket.MSG_PEEK | socket.MSG_WAITALL) == b"first\n"
    return conn


def server(port, how, program):
    conn = accept(port)
    number = conn.fileno()
    if how == "exec":
        if os.fork() == 0:
            os.dup2(number, 0)
            os.dup2(number, 1)
            os.execv(program[0], program)
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


def helper(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    print("listens", flush=True)
    sender, _ = listener.accept()
    _, rights, _, _ = sender.recvmsg(1, 100)
    conn = socket.socket(fileno=array.array("i", rights[0][2])[0])
    sender.sendall(b"y")
    while data := conn.recv(100):
        conn.sendall(data)
    conn.close()


def client(host, port):
    conn = socket.create_connection((host, port), 20)
    conn.sendall(b"first\n")
    got = conn.recv(6, socket.MSG_WAITALL)
    conn.sendall(b"second\n")
    got += conn.recv(7, socket.MSG_WAITALL)
    conn.shutdown(socket.SHUT_WR)
    got += conn.recv(1)
    print(got.decode(), end="", flush=True)


if sys.argv[1] == "server":
    server(int(sys.argv[2]), sys.argv[3], sys.argv[4:])
elif sys.argv[1] == "helper":
    helper(sys.argv[2])
else:
    client(sys.argv[2], int(sys.argv[3]))
