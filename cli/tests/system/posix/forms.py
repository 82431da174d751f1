"""The forms of reading and writing: peek, waitall, dontwait, vectors, messages, plain files."""
import array, fcntl, termios

from common import *

TCP_INQ = 36


def waiting(s):
    count = array.array("i", [0])
    fcntl.ioctl(s, termios.FIONREAD, count)
    return count[0]


def server():
    c, _ = listener().accept()
    say("all", exactly(c, 4), waiting(c) >= 0)
    c.sendall(b"go")
    say("peek", c.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL), c.recv(4, socket.MSG_PEEK))
    say("waitall", c.recv(10, socket.MSG_WAITALL))
    attempt("dontwait", c.recv, 1, socket.MSG_DONTWAIT)
    c.sendall(b"go")
    select.select([c], [], [])
    while waiting(c) < 12:
        time.sleep(0.01)
    one, two = bytearray(5), bytearray(20)
    say("readv", os.readv(c.fileno(), [one, two]), bytes(one), bytes(two[:7]))
    say("writev", os.writev(c.fileno(), [b"ab", b"", b"cde"]), os.write(c.fileno(), b"f"))
    attempt("pread", os.pread, c.fileno(), 1, 0)
    attempt("seek", os.lseek, c.fileno(), 0, os.SEEK_CUR)
    say("sendmsg", c.sendmsg([b"gh", b"ij"]))
    attempt("inquiry", c.setsockopt, socket.IPPROTO_TCP, TCP_INQ, 2)
    c.setsockopt(socket.IPPROTO_TCP, TCP_INQ, 1)
    say("left", c.getsockopt(socket.IPPROTO_TCP, TCP_INQ), c.recvmsg(3, 100)[:3])
    c.setsockopt(socket.IPPROTO_TCP, TCP_INQ, 0)
    c.sendall(b"go")
    data, control, flags, sender = c.recvmsg(100, 100)
    say("recvmsg", data, control, flags)
    c.sendall(b"go")
    say("recvfrom", c.recvfrom(1)[0])
    c.sendall(b"go")
    attempt("recv nothing", c.recv, 0)
    attempt("send nothing", c.send, b"")
    stream = c.makefile("rwb")
    say("stream", stream.readline())
    stream.write(b"line\n")
    stream.flush()
    say("truncated", c.recv(5, socket.MSG_TRUNC | socket.MSG_WAITALL) != None)
    say("end", c.recv(1))


def client():
    c = connect()
    c.sendall(b"abcd")
    exactly(c, 2)
    for piece in (b"0123", b"456", b"789"):
        c.sendall(piece)
        time.sleep(0.05)
    exactly(c, 2)
    c.sendall(b"hello world!")
    say("vectors", exactly(c, 10))
    c.sendall(b"message")
    exactly(c, 4)
    c.sendall(b"x")
    exactly(c, 2)
    c.sendall(b"one line\n")
    say("line", exactly(c, 5))
    c.sendall(b"12345")
    c.close()


run(server, client)
