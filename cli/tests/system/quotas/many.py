"""many.py serve|ask SERVER COUNT: an echo server, and a peer that asks it COUNT times, one after the other."""
import socket, sys

role, server, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
if role == "serve":
    listener = socket.create_server(("0.0.0.0", 4410))
    while True:
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(4096):
                connection.sendall(data)
connection = socket.create_connection((server, 4410), 20)
for number in range(count):
    asked = b"question %06d" % number
    connection.sendall(asked)
    answer = b""
    while len(answer) < len(asked):
        answer += connection.recv(100)
    assert answer == asked, (answer, asked)
print("all answered")
