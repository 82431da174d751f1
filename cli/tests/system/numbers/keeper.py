"""A server that keeps its connections until SIGUSR1, and then lets them go, and those that follow."""
import signal, socket

kept, keep = [], True


def let_go(*_):
    global keep
    keep = False
    kept.clear()


signal.signal(signal.SIGUSR1, let_go)
server = socket.create_server(("0.0.0.0", 4400), backlog=128)
while True:
    connection, _ = server.accept()
    if keep:
        kept.append(connection)
        print(len(kept), "kept", flush=True)
    else:
        connection.close()
