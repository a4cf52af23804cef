"""Packets per second that Zerodha's own client parses: messages come in as JSON, figures go out as JSON."""

import json
import statistics
import sys
import time

from kiteconnect import KiteTicker

asked = json.load(sys.stdin)
ticker = KiteTicker("key", "token")


def packets_per_second(message):
    start, read = time.perf_counter(), 0
    while True:
        read += len(ticker._parse_binary(message))
        elapsed = time.perf_counter() - start
        if elapsed >= asked["seconds"]:
            return read / elapsed


figures = {}
for mode, text in asked["messages"].items():
    message = bytes.fromhex(text)
    assert len(ticker._parse_binary(message)) == asked["packets"]
    figures[mode] = statistics.median(packets_per_second(message) for _ in range(asked["rounds"]))
json.dump(figures, sys.stdout)
