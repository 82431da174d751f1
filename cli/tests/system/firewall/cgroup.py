"""Attaches a BPF program. Usage: SCRIPT attach|hold TARGET TYPE VERDICT

TYPE is a number of enum bpf_attach_type; the program returns VERDICT: 0 refuses, or drops. TARGET is the directory of a cgroup or,
for hold, also a file of a network namespace or the name of an interface; for a hook of netfilter FAMILY,HOOK,PRIORITY in numbers, in the
namespace of the caller. hold attaches by a link and keeps it while it runs.
"""
import ctypes, os, signal, socket, struct, sys

order, target, attach_type, verdict = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {"x86_64": 321, "aarch64": 280}
PROG_LOAD, PROG_ATTACH, LINK_CREATE = 5, 8, 28
ALLOW_MULTI = 2
# By the type of attachment, the type of program.
SCHED_CLS, XDP, CGROUP_SKB, CGROUP_SOCK_ADDR, SK_LOOKUP, NETFILTER = 3, 6, 8, 18, 30, 32
PROGRAM_TYPES = {0: CGROUP_SKB, 1: CGROUP_SKB, 36: SK_LOOKUP, 37: XDP, 45: NETFILTER, 46: SCHED_CLS, 47: SCHED_CLS}


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = libc.syscall(NUMBERS[os.uname().machine], command, buffer, len(attributes))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def program():
    # r0 = VERDICT; exit
    code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xB7, 0, 0, verdict, 0x95, 0, 0, 0), 16)
    license = ctypes.create_string_buffer(b"GPL")
    kind = PROGRAM_TYPES.get(attach_type, CGROUP_SOCK_ADDR)
    load = struct.pack("<IIQQIIQII16sII", kind, 2, ctypes.addressof(code), ctypes.addressof(license),
                       0, 0, 0, 0, 0, b"test", 0, attach_type)
    return bpf(PROG_LOAD, load)


if attach_type == 45:
    family, hook, priority = (int(number) for number in target.split(","))
    link = bpf(LINK_CREATE, struct.pack("<IIIIIIiIQQ", program(), 0, attach_type, 0, family, hook, priority, 0, 0, 0))
    print("attached", flush=True)
    signal.pause()
place = os.open(target, os.O_RDONLY) if "/" in target else socket.if_nametoindex(target)
if order == "attach":
    bpf(PROG_ATTACH, struct.pack("<IIII", place, program(), attach_type, ALLOW_MULTI))
else:
    link = bpf(LINK_CREATE, struct.pack("<IIIIIIQ", program(), place, attach_type, 0, 0, 0, 0))
    print("attached", flush=True)
    signal.pause()
