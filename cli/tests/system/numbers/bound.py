"""bound ADDRESS PORT N: begins N connections and says how many there are."""
import select, socket, sys

connections = {}
poll = select.poll()
for _ in range(int(sys.argv[3])):
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex((sys.argv[1], int(sys.argv[2])))
    connections[connection.fileno()] = connection
    poll.register(connection, select.POLLOUT)
established = 0
while established < len(connections):
    for number, bits in poll.poll():
        assert bits == select.POLLOUT, bits
        poll.unregister(number)
        established += 1
        print(established, "connections", flush=True)
print("all")
