"""sendfile with offsets, splice through a pipe, both ways."""
import tempfile

from common import *


def server():
    c, _ = listener().accept()
    content = noise(2_000_000)
    with tempfile.TemporaryFile() as f:
        f.write(content)
        f.flush()
        f.seek(5)
        sent = 0
        while sent < 1_000_000:
            sent += os.sendfile(c.fileno(), f.fileno(), 100 + sent, 1_000_000 - sent)
        say("offset given: position", f.tell())
        left = 500_000
        os.lseek(f.fileno(), 7, os.SEEK_SET)
        while left:
            left -= os.sendfile(c.fileno(), f.fileno(), None, left)
        say("position moved", os.lseek(f.fileno(), 0, os.SEEK_CUR))
        say("behind the end", os.sendfile(c.fileno(), f.fileno(), 3_000_000, 10))
    r, w = os.pipe()
    os.write(w, b"through a pipe")
    say("splice out", os.splice(r, c.fileno(), 100))
    select.select([c], [], [])
    say("splice in", os.splice(c.fileno(), w, 5), os.read(r, 100))
    c.close()


def client():
    c = connect()
    content = noise(2_000_000)
    say("given offset", exactly(c, 1_000_000) == content[100:1_000_100])
    say("position", exactly(c, 500_000) == content[7:500_007])
    say(exactly(c, 14))
    c.sendall(b"bytes")
    say("end", c.recv(1))


run(server, client)
