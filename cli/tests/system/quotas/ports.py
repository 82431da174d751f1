"""ports.py COUNT: listens on so many ports from 4420 on, and answers each connection with the port's number."""
import select, socket, sys

listeners = [socket.create_server(("0.0.0.0", 4420 + n)) for n in range(int(sys.argv[1]))]
print("listens", flush=True)
while True:
    for listener in select.select(listeners, [], [])[0]:
        connection, _ = listener.accept()
        connection.sendall(b"%d\n" % listener.getsockname()[1])
        connection.close()
