"""Kills at random instants. Usage: killer.py group|leader ROUNDS SEED COMMAND...: all processes that the command starts, or the first alone."""
import os, random, select, signal, subprocess, sys, time

whom, rounds = sys.argv[1], int(sys.argv[2])
chance = random.Random(int(sys.argv[3]))
command = sys.argv[4:]
LONGEST = 0.3
killed = ended = stuck = 0
for number in range(rounds):
    # The pipe has its end when the last process that has it is gone.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    select.select([process.stdout], [], [], chance.uniform(0, LONGEST))
    if process.poll() is None:
        killed += 1
        os.killpg(process.pid, signal.SIGKILL) if whom == "group" else process.kill()
    else:
        ended += 1
    end = time.monotonic() + 15
    while time.monotonic() < end and select.select([process.stdout], [], [], 1)[0]:
        if not os.read(process.stdout.fileno(), 1 << 16):
            break
    else:
        stuck += 1
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
print("killed", killed, "ended", ended, "stuck", stuck)
