"""talker.py STOP BEGUN COMMAND ARGUMENT...: sends lines to a program that gives them back, and compares each, until there is the file STOP, for five
minutes at most. It makes the file BEGUN after the first line."""
import os, subprocess, sys, time

stop, begun, command = sys.argv[1], sys.argv[2], sys.argv[3:]
other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def line(number):
    other.stdin.write(b"%d\n" % number)
    other.stdin.flush()
    answer = other.stdout.readline()
    assert answer == b"%d\n" % number, (number, answer)


line(0)
open(begun, "w").close()
end = time.monotonic() + 300
number, last = 0, False
while not last:
    number, last = number + 1, os.path.exists(stop)
    assert time.monotonic() < end
    line(number)
    time.sleep(0.05)
other.stdin.close()
assert other.wait() == 0
print(number, "lines")
