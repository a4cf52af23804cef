"""Both ends of a WebSocket, by the package `websockets`.

    websocket_echo.py serve LOG                listens, says where, sends back what it gets until it is killed
    websocket_echo.py talk URL LOG             sends texts, bytes and pings of many sizes, checks what comes back, and leaves

Ends with 0 if all was as it should be.
"""

import asyncio
import os
import sys

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

LARGEST = 1 << 20  # compressed it may be a little more


async def echo(connection):
    async for message in connection:
        await connection.send(message)


async def listen():
    async with serve(echo, "127.0.0.1", 0, max_size=2 * LARGEST) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


async def talk(url):
    async with connect(url, max_size=2 * LARGEST) as connection:
        for size in (0, 1, 125, 126, 65_535, 65_536, LARGEST):
            for message in ("é" * (size // 2), os.urandom(size)):
                await connection.send(message)
                assert await connection.recv() == message, f"{size} bytes came back changed"
        await (await connection.ping())
        print("echoed", flush=True)
        # Many at once, in both directions.
        count = 2_000
        sender = asyncio.create_task(send(connection, count))
        for i in range(count):
            assert await connection.recv() == f"message {i}"
        await sender
        print("streamed", flush=True)
    assert connection.close_code == 1000, connection.close_code
    print("closed", flush=True)


async def send(connection, count):
    for i in range(count):
        await connection.send(f"message {i}")


match sys.argv[1:]:
    case ["serve", _log]:
        asyncio.run(listen())
    case ["talk", url, _log]:
        asyncio.run(talk(url))
    case _:
        sys.exit(__doc__)
