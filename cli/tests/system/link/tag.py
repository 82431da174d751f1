"""Puts the kernel's end of a link on a VLAN: tag.py INTERFACE VLAN.

What leaves by the interface gets the tag, what arrives without it is dropped, by two programs of the kernel that live as long as
this one. Unlike an 8021q interface this needs no option of the kernel that others do not have."""
import ctypes, os, platform, signal, socket, struct, sys

interface, vlan = socket.if_nametoindex(sys.argv[1]), int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
NUMBER = {"x86_64": 321, "aarch64": 280}[platform.machine()]
LOAD, LINK = 5, 28
SCHED_CLS, INGRESS, EGRESS = 3, 46, 47
VLAN_PUSH, VLAN_POP = 18, 19
PASS, DROP = 0, 2


def bpf(command, attributes):
    room = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    fd = libc.syscall(NUMBER, command, room, len(room))
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


def op(code, to=0, source=0, offset=0, number=0):
    return struct.pack("<BBhi", code, to | source << 4, offset, number)


def attach(program, where):
    code, license = ctypes.create_string_buffer(program), ctypes.create_string_buffer(b"MIT")
    load = struct.pack("<IIQQ", SCHED_CLS, len(program) // 8, ctypes.addressof(code), ctypes.addressof(license))
    bpf(LINK, struct.pack("<IIII", bpf(LOAD, load), interface, where, 0))


MOVE, CALL, EXIT, AND, UNEQUAL, WORD = 0xB7, 0x85, 0x95, 0x57, 0x55, 0x61
push = [op(MOVE, 2, number=socket.htons(0x8100)), op(MOVE, 3, number=vlan), op(CALL, number=VLAN_PUSH)]
attach(b"".join([*push, op(MOVE, 0, number=PASS), op(EXIT)]), EGRESS)
# The tag is the seventh word of __sk_buff.
pop = [op(WORD, 2, 1, offset=24), op(AND, 2, number=0xFFF), op(UNEQUAL, 2, offset=3, number=vlan)]
pop += [op(CALL, number=VLAN_POP), op(MOVE, 0, number=PASS), op(EXIT)]
attach(b"".join([*pop, op(MOVE, 0, number=DROP), op(EXIT)]), INGRESS)
print("tagged", flush=True)
signal.pause()
