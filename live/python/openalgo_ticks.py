"""Receives ticks of the gateway with OpenAlgo's own package, as published.

    openalgo_ticks.py sparse URL KEY LOG    one tick in each mode, with as few fields as a source may have
    openalgo_ticks.py burst URL KEY LOG     the prices 1 to 50, published at once

Says `delivered` when the callbacks and the getters of the package have the ticks. Exits with 0 on success.
"""

import sys
import time

from openalgo import api

PATIENCE = 60
NIFTY = {"exchange": "NSE_INDEX", "symbol": "NIFTY"}


def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what()}"
        time.sleep(0.02)


def sparse(client):
    """Fields that the source lacks are 0 in the package, and the time is when the tick arrived."""
    ticks = {"ltp": [], "quote": [], "depth": []}
    for name in ticks:
        assert getattr(client, f"subscribe_{name}")([NIFTY], on_data_received=ticks[name].append), name
    until(lambda: ticks, lambda: all(ticks.values()))
    now = time.time() * 1000

    price = ticks["ltp"][0]["data"]
    assert price["ltp"] == 25000.5 and abs(price["timestamp"] - now) < PATIENCE * 1000, price
    price = client.get_ltp("NSE_INDEX", "NIFTY")["ltp"]["NSE_INDEX"]["NIFTY"]
    assert price["ltp"] == 25000.5, price

    for quote in (ticks["quote"][0]["data"], client.get_quotes("NSE_INDEX", "NIFTY")["quote"]["NSE_INDEX"]["NIFTY"]):
        lacking = ("open", "high", "low", "close", "volume", "change", "change_percent")
        assert quote["ltp"] == 25000.5 and not any(quote[name] for name in lacking), quote
        assert all(quote[name] == 0 for name in lacking), quote

    assert ticks["depth"][0]["data"]["depth"]["buy"] == [{"price": 25000.0, "quantity": 75}], ticks["depth"]
    book = client.get_depth("NSE_INDEX", "NIFTY")["depth"]["NSE_INDEX"]["NIFTY"]
    assert book["buyBook"]["1"] == {"price": 25000.0, "qty": 75, "orders": 0}, book
    assert book["sellBook"]["1"]["price"] == 0, book


def burst(client):
    prices = []
    assert client.subscribe_ltp([NIFTY], on_data_received=lambda tick: prices.append(tick["data"]["ltp"]))
    until(lambda: prices, lambda: 50 in prices)
    assert prices == list(range(1, 51)), f"{len(prices)} of 50: {prices}"


def main(role, url, key, log):
    said, sys.stdout = sys.stdout, open(log, "w", buffering=1)
    client = api(api_key=key, host="http://127.0.0.1:1", ws_url=url, verbose=2)
    assert client.connect(), "it does not connect"
    {"sparse": sparse, "burst": burst}[role](client)
    client.disconnect()
    print("delivered", file=said, flush=True)


main(*sys.argv[1:])
