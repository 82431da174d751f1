"""crowd serve N, crowd ADDRESS N EACH: N servers and N clients, processes of one tree; every client opens EACH connections to
its server, and when all are open every connection says something and hears it again."""
import os, select, socket, sys


def serve(number):
    server = socket.create_server(("0.0.0.0", 5000 + number), backlog=4096)
    epoll, kept = select.epoll(), {}
    epoll.register(server, select.EPOLLIN)
    print("serves", flush=True)
    while True:
        for ready, _ in epoll.poll():
            if ready == server.fileno():
                connection = server.accept()[0]
                kept[connection.fileno()] = connection
                epoll.register(connection, select.EPOLLIN)
            elif data := kept[ready].recv(100):
                kept[ready].send(data)
            else:
                kept.pop(ready).close()


def talk(address, number, each, opened, all_open):
    connections = [socket.create_connection((address, 5000 + number), timeout=60) for _ in range(each)]
    os.write(opened, b"o")
    os.read(all_open, 1)
    for connection in connections:
        connection.sendall(b"hello")
    for connection in connections:
        assert connection.recv(10) == b"hello"


count = int(sys.argv[2])
if sys.argv[1] == "serve":
    for number in range(count - 1):
        if os.fork() == 0:
            serve(number)
    serve(count - 1)
opened, all_open = os.pipe(), os.pipe()
for number in range(count):
    if os.fork() == 0:
        os.close(all_open[1])
        talk(sys.argv[1], number, int(sys.argv[3]), opened[1], all_open[0])
        os._exit(0)
os.close(opened[1])
assert sum(len(os.read(opened[0], 1)) for _ in range(count)) == count
print("all open", flush=True)
os.close(all_open[1])
assert all(os.wait()[1] == 0 for _ in range(count))
print("all talked")
