"""processes.py SECONDS PEER: 64 processes beside the server, each of which opens 200 sockets to where nobody answers."""
import os, resource, socket, sys, time

end = time.monotonic() + float(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
for _ in range(64):
    if os.fork() == 0:
        held = []
        for _ in range(200):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex((sys.argv[2], 9))
            held.append(connection)
        time.sleep(max(0, end - time.monotonic()))
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
print("64 processes, 12800 sockets")
