"""Threads with descriptors of their own (CLOSE_RANGE_UNSHARE, CLONE_FILES): what they close stays open for the others."""
import ctypes, tempfile, threading

from common import *

libc = ctypes.CDLL(None, use_errno=True)
CLOSE_RANGE_UNSHARE, CLONE_FILES = 2, 0x400


def in_thread(act):
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def use_again(number):
    """The number names a file now, for this thread."""
    attempt("closed", os.read, number, 1)
    path = tempfile.mktemp()
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    say("the number again", fd == number, os.write(fd, b"for the file"), os.pread(fd, 100, 0))
    os.unlink(path)
    os.close(fd)
    attempt("closed again", os.write, number, b"for nobody")


def talk(c, there):
    def ranged():
        say("close_range", libc.close_range(c.fileno(), c.fileno(), CLOSE_RANGE_UNSHARE))
        use_again(c.fileno())

    def unshared():
        say("unshare", libc.unshare(CLONE_FILES))
        os.close(c.fileno())
        use_again(c.fileno())

    def epoll():
        say("unshare", libc.unshare(CLONE_FILES))
        os.dup2(os.open("/dev/null", os.O_RDWR), c.fileno())
        say("to another file", os.write(c.fileno(), b"for nobody"))

    for act in ranged, unshared, epoll:
        in_thread(act)
        c.sendall(b"hello")
        say("still", exactly(c, 5))
    # As most do, before exec.
    pid = os.fork()
    if pid == 0:
        say("alone", libc.close_range(c.fileno(), c.fileno(), CLOSE_RANGE_UNSHARE))
        attempt("closed", c.recv, 1)
        os._exit(0)
    say("child", os.waitpid(pid, 0)[1])
    c.sendall(b"last!")
    say(to_end(c) if there else exactly(c, 5))


def server():
    l = listener()
    talk(l.accept()[0], True)


def client():
    talk(connect(), False)


run(server, client)
