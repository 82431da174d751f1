"""A blocked recv(2) of a connected socket with IP_RECVERR ends with the error; a queue that is not read ends none again."""
import signal
import socket
import sys
import threading
import time

role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
if role == "server":
    print("ready", flush=True)
    time.sleep(2)
    sys.exit()
IP_RECVERR = 11
signal.alarm(20)
s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IPV6 if ":" in address else socket.IPPROTO_IP, 25 if ":" in address else IP_RECVERR, 1)
s.connect((address, port))
threading.Timer(0.3, lambda: s.send(b"to nobody")).start()
try:
    print(s.recv(10))
except ConnectionRefusedError as error:
    print("refused", error.errno)
# The queue is still full: the next wait sleeps, and the next error ends it.
used = time.process_time()
threading.Timer(0.5, lambda: s.send(b"again")).start()
try:
    print(s.recv(10))
except ConnectionRefusedError as error:
    print("refused", error.errno)
print("slept" if time.process_time() - used < 0.25 else "spun")
data, control, flags, source = s.recvmsg(100, 1000, socket.MSG_ERRQUEUE)
print(data, len(control) > 0, flags & socket.MSG_ERRQUEUE != 0)
