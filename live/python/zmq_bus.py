"""The other end of a bus on ZeroMQ, by libzmq, set up as OpenAlgo does it.

    zmq_bus.py publish ADDRESS TOPIC LOG       publishes numbers until it is killed
    zmq_bus.py disturb ADDRESS TOPIC LOG       likewise, with something senseless before each
    zmq_bus.py openalgo ADDRESS USER LOG       publishes what OpenAlgo's adapters and its web application do
    zmq_bus.py subscribe ADDRESS PREFIX LOG    says the number in each message
    zmq_bus.py count ADDRESS PREFIX LOG        says each hundredth number, and that none was left out when it is told to stop
    zmq_bus.py stall ADDRESS PREFIX LOG        says the first number, and then reads no more

What each is for is in live/tests/zeromq_bus.rs.
"""

import itertools
import json
import sys
import time

import zmq


def publisher(context, address):
    socket = context.socket(zmq.PUB)
    socket.sndhwm, socket.linger = 1000, 1000
    return connected(socket, address)


def subscriber(context, address, prefix):
    socket = context.socket(zmq.SUB)
    socket.subscribe(prefix)
    return connected(socket, address)


def connected(socket, address):
    # So that pings are answered, or the connection ends.
    socket.heartbeat_ivl, socket.heartbeat_timeout, socket.reconnect_ivl = 100, 2_000, 10
    socket.connect(address)
    return socket


def publish(context, address, topic):
    socket = publisher(context, address)
    for number in itertools.count():
        socket.send_multipart([topic.encode(), b"%d" % number])
        time.sleep(0.001)


SENSELESS = [
    [b"NSE_SBIN_LTP"],
    [b""],
    [b"NSE_SBIN_LTP", b"{}", b"{}"],
    [b"", b"", b"", b"", b"", b""],
    [b"NSE_\xff\xfe_LTP", b"{}"],
    [b"x" * 1000, b"{}"],
    [b"NSE_SBIN_LTP", b"x" * (2 << 20)],
]


def disturb(context, address, topic):
    socket = publisher(context, address)
    for number in itertools.count():
        socket.send_multipart(SENSELESS[number % len(SENSELESS)])
        socket.send_multipart([topic.encode(), b"%d" % number])
        time.sleep(0.002)


def openalgo(context, address, user):
    socket = publisher(context, address)

    def say(topic, payload):
        socket.send_multipart([topic.encode(), json.dumps(payload).encode()])

    for turn in itertools.count():
        say("NSE_INDEX_NIFTY_LTP", {"ltp": 25000.5, "symbol": "NIFTY", "exchange": "NSE_INDEX", "mode": 1})
        say("NSE_SBIN_QUOTE", {"ltp": 812.5, "change": float("nan"), "volume": float("inf"), "average_price": 811.9})
        # With the broker's name in front, alone and beside the name without it.
        say("zerodha_NSE_INDEX_BANKNIFTY_LTP", {"ltp": 50000.25})
        for topic in ["NSE_INFY_LTP", "zerodha_NSE_INFY_LTP"]:
            say(topic, {"ltp": 1500 + turn % 100, "turn": turn})
        say("zerodha_NSE_INFY_LTP", {"ltp": float("nan"), "turn": turn})
        say("CRYPTO_SOL_INR_LTP", {"ltp": 1, "name": "\u20b9"})
        say(f"ZERODHA_{user}_positions", {"user_id": user})
        say("ZERODHA_somebody_orders", {"type": "order_update", "user_id": "somebody", "orderid": "1"})
        say(f"ANALYZE_{user}_orders", {"type": "order_update", "user_id": user, "orderid": "2", "price": float("nan")})
        say(f"CACHE_INVALIDATE_ALL_{user}", {"action": "invalidate", "user_id": user, "cache_type": "ALL"})
        socket.send_multipart([b"NSE_SBIN_QUOTE", b"{", b"}"])
        time.sleep(0.01)


def number(payload):
    return int(payload.split(b" ")[0])


def subscribe(context, address, prefix):
    socket = subscriber(context, address, prefix)
    while True:
        _, payload = socket.recv_multipart()
        print(number(payload), flush=True)


def count(context, address, prefix):
    socket = subscriber(context, address, prefix)
    expected = None
    while True:
        topic, payload = socket.recv_multipart()
        if topic.endswith(b"END"):
            print("all", flush=True)
            return
        found = number(payload)
        # It begins with some of these, until we are known to be there.
        assert found in (0, expected), f"{found} instead of {expected}"
        expected = found + 1
        if found % 100 == 0:
            print(found, flush=True)


def stall(context, address, prefix):
    socket = subscriber(context, address, prefix)
    _, payload = socket.recv_multipart()
    print(number(payload), flush=True)
    time.sleep(3600)


def main(role, *arguments):
    context = zmq.Context()
    roles = [publish, disturb, openalgo, subscribe, count, stall]
    {known.__name__: known for known in roles}[role](context, *arguments[:-1])
    context.destroy(linger=0)


main(*sys.argv[1:])
