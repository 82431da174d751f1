"""C streams over sockets: fdopen, fileno, and programs that print to a socket as their standard output."""
import ctypes, subprocess
from common import *

libc = ctypes.CDLL(None, use_errno=True)
libc.fdopen.restype = ctypes.c_void_p
for function in (libc.fgets, libc.fputs, libc.fileno, libc.fclose, libc.fflush):
    function.argtypes = {
        "fgets": [ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p],
        "fputs": [ctypes.c_char_p, ctypes.c_void_p],
    }.get(function.__name__, [ctypes.c_void_p])
libc.fgets.restype = ctypes.c_void_p


def talk(s):
    """One line each way, then the stream is closed."""
    s.settimeout(None)
    fd = s.detach()
    stream = libc.fdopen(fd, b"r+")
    say("the number stays", libc.fileno(stream) == fd)
    room = ctypes.create_string_buffer(100)
    say("put", libc.fputs(b"a line of " + role.encode() + b"\n", stream) >= 0, libc.fflush(stream))
    say("got", libc.fgets(room, 100, stream) is not None, room.value)
    say("closed", libc.fclose(stream))
    attempt("the descriptor", os.fstat, fd)


def server():
    l = listener()
    talk(l.accept()[0])
    c, _ = l.accept()
    say("printed", subprocess.run(["/usr/bin/printf", "%s", "to the socket"], stdout=c).returncode)
    c.close()
    c, _ = l.accept()
    say("read", subprocess.run(["/usr/bin/tr", "a-z", "A-Z"], stdin=c, stdout=c).returncode)
    c.close()


def client():
    talk(connect())
    say(to_end(connect()))
    c = connect()
    c.sendall(b"whispered")
    c.shutdown(socket.SHUT_WR)
    say(to_end(c))
    c.close()


run(server, client)
