"""sendmmsg and recvmmsg, SO_REUSEPORT, a socket that a child inherits."""
import ctypes

from common import *

libc = ctypes.CDLL(None, use_errno=True)
COUNT, SIZE = 8, 2048


class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class Msghdr(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.POINTER(Iovec)), ("iovlen", ctypes.c_size_t),
        ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_int),
    ]


class Mmsghdr(ctypes.Structure):
    _fields_ = [("header", Msghdr), ("len", ctypes.c_uint32)]


def messages(buffers):
    batch = (Mmsghdr * len(buffers))()
    vectors = []
    for message, buffer in zip(batch, buffers):
        vector = Iovec(ctypes.addressof(buffer), ctypes.sizeof(buffer))
        vectors.append(vector)
        message.header.iov, message.header.iovlen = ctypes.pointer(vector), 1
    return batch, vectors


def send_batch(sock, payloads):
    buffers = [ctypes.create_string_buffer(payload, len(payload)) for payload in payloads]
    batch, kept = messages(buffers)
    count = libc.sendmmsg(sock.fileno(), batch, len(batch), 0)
    return count, [message.len for message in batch[:max(count, 0)]]


def receive_all(sock, wanted):
    """Batches until `wanted` messages have come; what comes behind them is left."""
    got = []
    while len(got) < wanted:
        select.select([sock], [], [], 20)
        buffers = [ctypes.create_string_buffer(SIZE) for _ in range(wanted - len(got))]
        batch, kept = messages(buffers)
        count = libc.recvmmsg(sock.fileno(), batch, len(batch), socket.MSG_DONTWAIT, None)
        if count < 0:
            return got, errno.errorcode[ctypes.get_errno()]
        got += [buffer.raw[:message.len] for message, buffer in zip(batch[:count], buffers)]
    return got, "all"


PAYLOADS = [bytes([65 + number]) * (1 + 150 * number) for number in range(COUNT)]


def bound(reuse):
    sock = fresh_datagram_socket()
    if reuse:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((anywhere, port))
    return sock


def server():
    first = bound(True)
    second = bound(True)
    attempt("without SO_REUSEPORT", bound, False)
    say("ready")
    # Which of the two gets a flow is the hash's affair; each flow stays with one.
    got = {}
    answered = 0
    while answered < 16:
        for sock in select.select([first, second], [], [], 20)[0]:
            data, peer = sock.recvfrom(100)
            got.setdefault(peer[1], set()).add(sock is first)
            answered += 1
            if answered < 16:
                sock.sendto(data, peer)
    say("flows", len(got), "split", sum(len(where) > 1 for where in got.values()))
    # The client goes on with the last answer: from here on there is one socket.
    second.close()
    first.sendto(data, peer)
    say("batch", receive_all(first, COUNT) == (PAYLOADS, "all"))
    say("empty", receive_all(first, 0)[0])
    data, peer = first.recvfrom(100)
    child = os.fork()
    if child == 0:
        first.sendto(b"child " + first.recv(100), peer)
        os._exit(0)
    say("child ended", os.waitpid(child, 0)[1])
    first.sendto(b"parent", peer)
    first.close()


def client():
    for _ in range(8):
        one = fresh_datagram_socket()
        one.connect((address, port))
        for word in (b"one", b"two"):
            one.send(word)
            assert one.recv(100) == word
    sock = fresh_datagram_socket()
    sock.connect((address, port))
    say("sent", send_batch(sock, PAYLOADS))
    sock.send(b"hello")
    sock.send(b"again")
    say(sock.recv(100))
    say(sock.recv(100))


run(server, client)
