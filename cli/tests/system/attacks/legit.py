"""legit.py ADDRESS STOP: a client that keeps to the rules, until the file STOP exists; prints `tried N served N p50_ms X p99_ms X max_ms X`."""
import os, socket, sys, time

took, tried = [], 0
print("running", flush=True)
while not os.path.exists(sys.argv[2]):
    tried += 1
    start = time.perf_counter()
    try:
        with socket.create_connection((sys.argv[1], 7080), 5) as connection:
            connection.settimeout(5)
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            got = b""
            while data := connection.recv(4096):
                got += data
            if got == b"s" * 100:
                took.append(time.perf_counter() - start)
    except OSError:
        pass
    time.sleep(0.005)
took.sort()
at = lambda part: took[min(len(took) - 1, int(len(took) * part))] * 1e3 if took else float("nan")
print(f"tried {tried} served {len(took)} p50_ms {at(0.5):.1f} p99_ms {at(0.99):.1f} max_ms {at(1):.1f}")
