"""Numbered datagrams to a group: `sender GROUP PORT INTERFACE_ADDRESS FIRST COUNT`, `member GROUP PORT INTERFACE_ADDRESS LAST [ANSWER]`."""
import socket, sys

role, group, port, interface = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
numbers = [int(word) for word in sys.argv[5:]]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(30)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if interface != "0.0.0.0":
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
if role == "sender":
    for number in range(numbers[0], numbers[0] + numbers[1]):
        s.sendto(b"%d" % number, (group, port))
else:
    s.bind(("", port))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton(interface))
    print("ready", flush=True)
    number = -1
    while number != numbers[0]:
        number = int(s.recv(100))
        print(number, flush=True)
    if numbers[1:]:
        s.sendto(b"%d" % numbers[1], (group, port))
