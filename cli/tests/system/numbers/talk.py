"""talk ADDRESS PORT N: N connections, all open at once; each says something twice and hears it again."""
import socket, sys

connections = []
for number in range(int(sys.argv[3])):
    connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
    connection.sendall(b"first %d" % number)
    assert connection.recv(100) == b"first %d" % number, number
    connections.append(connection)
for number, connection in enumerate(connections):
    connection.sendall(b"again %d" % number)
    assert connection.recv(100) == b"again %d" % number, number
print(len(connections), "talked twice")
