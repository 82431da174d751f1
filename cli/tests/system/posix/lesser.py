"""Calls that pass libc's read and write by: dprintf, stdio made before connect, sendfile's errors, close_range, status flags,
numbers that were closed by an instruction of the program's own."""
from common import *
import ctypes, fcntl, mmap, platform, tempfile

libc = ctypes.CDLL(None, use_errno=True)
libc.fdopen.restype = ctypes.c_void_p


def flags(name, s):
    for value in (0, os.O_NONBLOCK, os.O_APPEND, os.O_ASYNC, os.O_APPEND | os.O_NONBLOCK, os.O_RDWR, os.O_DIRECT, os.O_WRONLY):
        attempt(f"{name} F_SETFL {value:o}", fcntl.fcntl, s.fileno(), fcntl.F_SETFL, value)
        say(f"{name} F_GETFL {fcntl.fcntl(s.fileno(), fcntl.F_GETFL) & ~0o100000:o}")
    fcntl.fcntl(s.fileno(), fcntl.F_SETFL, 0)


def files(s):
    with tempfile.TemporaryFile() as file, open("/dev/null", "wb") as sink:
        file.write(b"0123456789")
        file.flush()
        readable, writable = os.pipe()
        os.write(writable, b"pipe")
        folder = os.open("/", os.O_RDONLY)
        attempt("a closed file", os.sendfile, s.fileno(), 999, None, 10)
        attempt("a closed file, nothing", os.sendfile, s.fileno(), 999, None, 0)
        attempt("a file for writing", os.sendfile, s.fileno(), sink.fileno(), 0, 10)
        attempt("a pipe", os.sendfile, s.fileno(), readable, None, 4)
        attempt("a pipe with an offset", os.sendfile, s.fileno(), readable, 0, 4)
        attempt("a directory", os.sendfile, s.fileno(), folder, 0, 4)
        attempt("a negative offset", os.sendfile, s.fileno(), file.fileno(), -1, 4)
        attempt("behind the end", os.sendfile, s.fileno(), file.fileno(), 100, 4)
        file.seek(3)
        attempt("from the position", os.sendfile, s.fileno(), file.fileno(), None, 4)
        say("the position is", file.tell())
        attempt("from an offset", os.sendfile, s.fileno(), file.fileno(), 8, 4)
        say("the position is", file.tell())
        for fd in (readable, writable, folder):
            os.close(fd)


def child_with_a_table_of_its_own(s):
    """What the child writes to its file is in the file."""
    path = tempfile.mktemp()
    child = os.fork()
    if child == 0:
        libc.close_range(ctypes.c_uint(3), ctypes.c_uint(2**32 - 1), 2)
        for _ in range(s.fileno() + 2):
            os.write(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), b"x")
        os._exit(0)
    say("the child", os.waitpid(child, 0)[1], os.path.getsize(path) == s.fileno() + 2)
    os.unlink(path)


def closed_past_libc(s):
    """close(2) by an instruction; the number is a file's then."""
    fd = s.detach()
    if platform.machine() == "x86_64":
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x03\x00\x00\x00\x0f\x05\xc3")
        close = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
        say("closed", close(fd))
    else:
        os.close(fd)
    path = tempfile.mktemp()
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    say("the same number", file == fd, os.write(file, b"file"), os.pread(file, 10, 0))
    os.unlink(path)


def server():
    l = listener()
    flags("listener", l)
    c, _ = l.accept()
    flags("accepted", c)
    say("printed", libc.dprintf(c.fileno(), b"%s %d %.2f %d %d %d %d %d\n", b"words", 1, ctypes.c_double(2.5), 3, 4, 5, 6, 7))
    files(c)
    child_with_a_table_of_its_own(c)
    closed_past_libc(c)


def client():
    s = fresh_socket()
    stream = libc.fdopen(s.fileno(), b"w")
    s.connect((address, port))
    flags("connected", s)
    say(to_end(s))
    say("put", libc.fputs(b"hello", ctypes.c_void_p(stream)) >= 0)


run(server, client)
