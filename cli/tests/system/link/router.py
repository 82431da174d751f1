"""A router on one interface, and perhaps a rival: router.py INTERFACE PREFIX RIVALS.

Advertises PREFIX (/64) until somebody asks whether an address in it is free, and says what it hears. The first RIVALS of these
questions are answered: the address is taken."""
import socket, struct, sys, time
from ipaddress import IPv6Address, IPv6Network

interface, prefix, rivals = sys.argv[1], IPv6Network(sys.argv[2]), int(sys.argv[3])
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x86DD))
wire.bind((interface, 0x86DD))
MAC = wire.getsockname()[4]
ROUTER = IPv6Address("fe80::77:1")
ALL_NODES = IPv6Address("ff02::1")
ADVERTISEMENT, SOLICITATION, ANSWER = 134, 135, 136


def send(source, message):
    """To all nodes, with the checksum of RFC 4443 §2.3."""
    pseudo = source.packed + ALL_NODES.packed + struct.pack("!II", len(message), 58)
    words = struct.unpack(f"!{len(pseudo + message) // 2}H", pseudo + message)
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    message = message[:2] + struct.pack("!H", ~total & 0xFFFF) + message[4:]
    header = struct.pack("!IHBB", 6 << 28, len(message), 58, 255) + source.packed + ALL_NODES.packed
    wire.send(bytes.fromhex("333300000001") + MAC + b"\x86\xdd" + header + message)


def advertise():
    """RFC 4861 §4.2: a router for half an hour, an autonomous prefix on the link."""
    option = struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 7200, 3600, 0) + prefix.network_address.packed
    link = struct.pack("!BB", 1, 1) + MAC
    send(ROUTER, struct.pack("!BBHBBHII", ADVERTISEMENT, 0, 0, 64, 0, 1800, 0, 0) + link + option)


def claim(target):
    """RFC 4861 §4.4, unsolicited: the address is ours."""
    send(target, struct.pack("!BBHI", ANSWER, 0, 0, 0x20000000) + target.packed + struct.pack("!BB", 2, 1) + MAC)


heard = False
wire.settimeout(0.5)
print("on the link", flush=True)
while True:
    if not heard:
        advertise()
    try:
        frame = wire.recv(2000)
    except TimeoutError:
        continue
    # A solicitation from nobody: RFC 4862 §5.4.2.
    if len(frame) < 78 or frame[20] != 58 or frame[54] != SOLICITATION or any(frame[22:38]):
        continue
    target = IPv6Address(frame[62:78])
    if target not in prefix:
        print("link-local probe" if target.is_link_local else "other probe", target, flush=True)
        continue
    heard = True
    print("probe", target, flush=True)
    if rivals > 0:
        rivals -= 1
        claim(target)
        print("claimed", target, flush=True)
