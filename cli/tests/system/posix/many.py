"""200 connections at once through asyncio, each echoing 50 KB; then threads that block."""
import asyncio, threading

from common import *


async def echo(reader, writer):
    while data := await reader.read(1 << 15):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve():
    done = asyncio.Event()
    count = 0

    async def one(reader, writer):
        nonlocal count
        await echo(reader, writer)
        count += 1
        if count == 200:
            done.set()

    async with await asyncio.start_server(one, anywhere, port, backlog=256):
        await done.wait()
    say("served", count)


async def ask(n):
    reader, writer = await asyncio.open_connection(address, port)
    data = noise(50_000 + n)[n:]
    writer.write(data)
    writer.write_eof()
    same = await reader.read() == data
    writer.close()
    return same


async def ask_all():
    answers = await asyncio.gather(*(ask(n) for n in range(200)))
    say("equal", sum(answers))


def server():
    asyncio.run(serve())
    l = listener()

    def work():
        c, _ = l.accept()
        c.sendall(to_end(c))
        c.close()

    threads = [threading.Thread(target=work) for _ in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    say("threads done")


def client():
    asyncio.run(ask_all())
    results = []

    def work(n):
        for _ in range(200):
            try:
                c = connect()
                break
            except ConnectionRefusedError:
                time.sleep(0.02)
        c.sendall(noise(1000 * n))
        c.shutdown(socket.SHUT_WR)
        results.append(to_end(c) == noise(1000 * n))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    say("threads", sum(results))


run(server, client)
