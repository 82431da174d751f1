"""pin.py SERVER: writes to a peer that never reads, writes on every page of the shared memory, and ends."""
import ctypes, select, socket, sys

connection = socket.create_connection((sys.argv[1], 9200), 10)
connection.setblocking(False)
writable = select.poll()
writable.register(connection, select.POLLOUT)
# Until the peer's window is full too: what the peer takes holds no memory afterwards.
while writable.poll(500):
    try:
        connection.send(b"x" * 65536)
    except BlockingIOError:
        pass
touched = 0
for line in open("/proc/self/maps"):
    if "ringway-region" in line:
        start, end = (int(x, 16) for x in line.split()[0].split("-"))
        for page in range(start + 4096, end, 4096):
            ctypes.c_ubyte.from_address(page + 64).value
            touched += 1
print("touched", touched > 0)
