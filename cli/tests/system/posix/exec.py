"""A connection as standard input and output of another program; close-on-exec."""
import ctypes, subprocess

from common import *


def listed(form, c):
    """Runs a shell on the connection by one of the forms of exec that take their arguments one by one."""
    pid = os.fork()
    if pid == 0:
        os.dup2(c.fileno(), 0)
        os.dup2(c.fileno(), 1)
        words = [b"sh", b"-c", b'read line; echo $0 $1 $2 $3 $4 $5 $line ${OWN-none}', b"zero", b"a", b"b", b"c", b"d", b"e", None]
        path = b"sh" if form == "execlp" else b"/bin/sh"
        if form == "execle":
            words.append((ctypes.c_char_p * 2)(b"OWN=yes", None))
        getattr(ctypes.CDLL(None), form)(path, *words)
        os._exit(9)
    c.close()
    say(form, os.waitpid(pid, 0)[1])


def server():
    l = listener()
    c, _ = l.accept()
    say("cat", subprocess.run(["cat"], stdin=c, stdout=c).returncode)
    c.close()
    c, _ = l.accept()
    pid = os.fork()
    if pid == 0:
        os.dup2(c.fileno(), 0)
        os.dup2(c.fileno(), 1)
        os.execvp("sh", ["sh", "-c", "read line; echo got $line; read line; echo then $line"])
    c.close()
    say("sh", os.waitpid(pid, 0)[1])
    c, _ = l.accept()
    say("inheritable", c.get_inheritable())
    child = "import socket, sys\ntry: print(socket.socket(fileno=int(sys.argv[1])).getpeername() != None)\nexcept OSError as e: print(e.errno)"
    for inheritable in (False, True):
        c.set_inheritable(inheritable)
        done = subprocess.run([sys.executable, "-c", child, str(c.fileno())], close_fds=False, capture_output=True, text=True)
        say("inherited" if inheritable else "not inherited", done.stdout.strip())
    c.set_inheritable(False)
    for number in (63, 64, 255, 256, 900):  # around the sizes of a process's table of descriptors
        os.dup2(c.fileno(), number)
        done = subprocess.run([sys.executable, "-c", child, str(number)], close_fds=False, capture_output=True, text=True)
        say("inherited as", number, done.stdout.strip())
        os.close(number)
    c.close()
    for form in ("execl", "execlp", "execle"):
        c, _ = l.accept()
        listed(form, c)


def client():
    c = connect()
    c.sendall(noise(500_000))
    c.shutdown(socket.SHUT_WR)
    say("echo", to_end(c) == noise(500_000))
    c = connect()
    c.sendall(b"one\n")
    say(exactly(c, 8))
    c.sendall(b"two\n")
    say(to_end(c))
    c = connect()
    say("end", to_end(c))
    for form in ("execl", "execlp", "execle"):
        c = connect()
        c.sendall(b"line\n")
        say(form, to_end(c))


run(server, client)
