"""Connections in messages that are looked at, come several at once, or come from a process that has ended."""
import array, ctypes

from common import *

libc = ctypes.CDLL(None, use_errno=True)


class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class mmsghdr(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("iov", ctypes.POINTER(iovec)), ("iovlen", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_size_t), ("len", ctypes.c_size_t)]


def messages(fds):
    """One message for each descriptor, with what must outlive the call."""
    many, kept = (mmsghdr * len(fds))(), []
    for message, fd in zip(many, fds):
        control = ctypes.create_string_buffer(struct.pack("@Qiii", 20, socket.SOL_SOCKET, socket.SCM_RIGHTS, fd), 24)
        byte = ctypes.create_string_buffer(b"m", 1)
        vector = iovec(ctypes.addressof(byte), 1)
        message.iov, message.iovlen = ctypes.pointer(vector), 1
        message.control, message.controllen = ctypes.addressof(control), 24
        kept += [control, byte, vector]
    return many, kept


def descriptors(many, count):
    return [struct.unpack("@Qiii", ctypes.string_at(m.control, 20))[3] for m in many[:count]]


def receive(s, flags=0):
    fds = array.array("i")
    _, ancillary, _, _ = s.recvmsg(1, socket.CMSG_LEN(4), flags)
    fds.frombytes(ancillary[0][2][:4])
    return socket.socket(fileno=fds[0])


def in_child(act):
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(0)
    return pid


def several(l, ours, theirs):
    def child():
        ours.close()
        many, kept = messages([-1, -1, -1])
        count = libc.recvmmsg(theirs.fileno(), many, 3, 0x10000, None)  # MSG_WAITFORONE
        for c in map(lambda fd: socket.socket(fileno=fd), descriptors(many, count)):
            c.sendall(exactly(c, 5).upper())
            c.close()

    taken = [l.accept()[0] for _ in range(2)]
    refused, kept = messages([taken[0].fileno(), 9999])
    say("some are sent", libc.sendmmsg(ours.fileno(), refused, 2, 0))
    receive(theirs).close()
    many, kept = messages([c.fileno() for c in taken])
    say("sent", libc.sendmmsg(ours.fileno(), many, 2, 0))
    for c in taken:
        c.close()
    say("child", os.waitpid(in_child(child), 0)[1])


def looked_at(l, ours, theirs):
    def child():
        ours.close()
        c = receive(theirs)
        c.sendall(exactly(c, 5).upper())
        c.close()

    c, _ = l.accept()
    socket.send_fds(ours, [b"m"], [c.fileno()])
    c.close()
    receive(theirs, socket.MSG_PEEK).close()
    say("child", os.waitpid(in_child(child), 0)[1])


def ended(l, ours, theirs):
    def child():
        c, _ = l.accept()
        c.sendall(b"first")
        d, _ = l.accept()
        socket.send_fds(ours, [b"m"], [c.fileno()])
        # The end of this connection is the end of this process.
        exactly(d, 5)

    say("child", os.waitpid(in_child(child), 0)[1])
    with l.accept()[0] as d:
        say("the client has seen it", exactly(d, 5))
    c = receive(theirs)
    c.sendall(exactly(c, 5).upper())
    c.close()


def lost(l, ours, theirs):
    """What is in a message that nobody can receive any more is closed, while this process waits."""
    c, _ = l.accept()
    c.sendall(b"first")
    socket.send_fds(ours, [b"m"], [c.fileno()])
    c.close()
    ours.close()
    theirs.close()
    with l.accept()[0] as d:
        say("the client has seen it", exactly(d, 5))


def server():
    l = listener()
    for play in several, looked_at, ended, lost:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        play(l, ours, theirs)
        ours.close()
        theirs.close()


def client():
    both = [connect() for _ in range(2)]
    for c in both:
        c.sendall(b"hello")
    say([to_end(c) for c in both])
    c = connect()
    c.sendall(b"hello")
    say(to_end(c))
    c = connect()
    say(exactly(c, 5))
    d = connect()
    d.sendall(b"hello")
    say(to_end(d))
    with connect() as d:
        d.sendall(b"ended")
        c.sendall(b"hello")
        say(to_end(c))
    c = connect()
    say(to_end(c))
    with connect() as d:
        d.sendall(b"ended")


run(server, client)
