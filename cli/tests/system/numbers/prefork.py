"""A server that forks for each connection: the child talks, the parent has closed its descriptor."""
import os, signal, socket

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
server = socket.create_server(("0.0.0.0", 4300), backlog=1024)
while True:
    connection, _ = server.accept()
    if os.fork() == 0:
        server.close()
        while data := connection.recv(4096):
            connection.sendall(data)
        os._exit(0)
    connection.close()
