"""A user of the gateway, by OpenAlgo's own package, as published.

    openalgo_feed.py URL KEY LOG

Connects, authenticates, subscribes in all three modes, receives, unsubscribes, and comes back after the gateway was
restarted: it says `streaming` when everything arrives, and expects the restart then. Ends with 0 if all was as it should be.
"""

import sys
import time
from importlib.metadata import version

from openalgo import api

PATIENCE = 60
LTP = [{"exchange": "NSE", "symbol": "SBIN"}, {"exchange": "NSE", "symbol": "RELIANCE"}]
QUOTE = [{"exchange": "NSE", "symbol": "TCS"}]
DEPTH = [{"exchange": "NSE", "symbol": "INFY"}]
# From this version on the package comes back, and subscribes again, by itself.
COMES_BACK = 2


class User:
    def __init__(self, url, key):
        self.client = api(api_key=key, host="http://127.0.0.1:1", ws_url=url, verbose=2)
        self.ticks = {"ltp": [], "quote": [], "depth": []}

    def subscribe(self):
        for name, instruments in (("ltp", LTP), ("quote", QUOTE), ("depth", DEPTH)):
            subscribe = getattr(self.client, f"subscribe_{name}")
            assert subscribe(instruments, on_data_received=self.ticks[name].append), name

    def forget(self):
        for ticks in self.ticks.values():
            ticks.clear()

    def everything_arrives(self):
        seen = {name: {tick["symbol"] for tick in list(ticks)} for name, ticks in self.ticks.items()}
        wanted = {"ltp": LTP, "quote": QUOTE, "depth": DEPTH}
        return all(seen[name] == {instrument["symbol"] for instrument in wanted[name]} for name in wanted)


def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.05)


def check(user):
    """What the package makes of what it was sent."""
    for name, number in (("ltp", 1), ("quote", 2), ("depth", 3)):
        for tick in list(user.ticks[name]):
            assert (tick["type"], tick["mode"]) == ("market_data", number), tick
    price = user.client.get_ltp("NSE", "SBIN")["ltp"]["NSE"]["SBIN"]
    assert price["ltp"] > 0 and abs(price["timestamp"] - time.time() * 1000) < PATIENCE * 1000, price
    quote = user.client.get_quotes("NSE", "TCS")["quote"]["NSE"]["TCS"]
    assert quote["low"] <= quote["ltp"] <= quote["high"] and quote["volume"] > 0, quote
    book = user.client.get_depth("NSE", "INFY")["depth"]["NSE"]["INFY"]
    bids = [book["buyBook"][str(level)]["price"] for level in range(1, 6)]
    asks = [book["sellBook"][str(level)]["price"] for level in range(1, 6)]
    assert bids == sorted(bids, reverse=True) and asks == sorted(asks) and bids[0] < asks[0], book


def main():
    url, key, log = sys.argv[1:]
    said, sys.stdout = sys.stdout, open(log, "w", buffering=1)

    def say(line):
        print(line, file=said, flush=True)

    say(f"openalgo {version('openalgo')}, Python {sys.version.split()[0]}")

    # An error before the reply, and no more than that: the package gives up after five seconds.
    stranger = api(api_key="0" * 64, host="http://127.0.0.1:1", ws_url=url, verbose=1)
    assert not stranger.connect(), "a key that nobody gave out lets in"
    stranger.disconnect()
    say("a wrong key does not let in")

    user = User(url, key)
    assert user.client.connect(), "it does not connect"
    user.subscribe()
    until("everything arrives", user.everything_arrives)
    check(user)
    say("streaming")

    until("the gateway goes", lambda: not user.client.connected)
    user.forget()
    if int(version("openalgo").split(".")[0]) < COMES_BACK:
        until("it comes back", user.client.connect)
        user.subscribe()
    until("everything arrives again", user.everything_arrives)
    check(user)
    say("streaming again")

    assert user.client.unsubscribe_ltp(LTP) and user.client.unsubscribe_quote(QUOTE)
    assert user.client.unsubscribe_depth(DEPTH[:1])
    # What was on its way has arrived when something that was asked for later has.
    assert user.client.subscribe_quote(LTP[:1])
    user.forget()
    until("a quote of what was subscribed last", lambda: any(tick["symbol"] == "SBIN" for tick in user.ticks["quote"]))
    user.forget()
    until("some quotes more", lambda: len(user.ticks["quote"]) > 3)
    assert not user.ticks["ltp"] and not user.ticks["depth"], user.ticks
    assert {tick["symbol"] for tick in user.ticks["quote"]} == {"SBIN"}, user.ticks
    user.client.disconnect()
    say("what was unsubscribed is silent")


main()
