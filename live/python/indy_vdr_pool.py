"""Uses a pool of Indy nodes with the published indy-vdr, and says what happened.

    indy_vdr_pool.py GENESIS SIZE LOG

GENESIS is a file, SIZE how many transactions the pool ledger has. Ends with 0 if all was as it should be. The file LOG is not
used: what goes wrong is in the traceback.
"""

import asyncio
import json
import sys

import indy_vdr
from indy_vdr import ledger


def nym(number):
    request = {
        "identifier": "Th7MpTaRZVRYnPiabds81Y",
        "operation": {"type": "1", "dest": f"did{number}", "verkey": "~7TYfekw4GUagBnBVCqPjiC"},
        "protocolVersion": 2,
        "reqId": 1_000 + number,
    }
    return ledger.build_custom_request(request)


def answer(text):
    told = json.loads(text) if isinstance(text, str) else text
    return told.get("result", told)


async def main(path, size, _log):
    pool = await indy_vdr.open_pool(transactions_path=path)
    await pool.refresh()
    known = await pool.get_transactions()
    assert len(known.strip().splitlines()) == int(size), known
    status = await pool.get_status()
    # Seen with 0.4.2: a text, not what it says.
    status = json.loads(status) if isinstance(status, str) else status
    print(f"{size} transactions after catching up; nodes {sorted(status['nodes'])}")
    for number in (1, int(size)):
        reply = await pool.submit_request(ledger.build_get_txn_request(None, 0, number))
        assert reply["data"]["txnMetadata"]["seqNo"] == number, reply
    reply = await pool.submit_request(nym(1))
    assert reply["txnMetadata"]["seqNo"] == 1, reply
    told = await pool.submit_action(ledger.build_get_validator_info_request("Th7MpTaRZVRYnPiabds81Y"))
    aliases = sorted(answer(text)["data"]["alias"] for text in told.values())
    print(f"two transactions read, one written, {aliases} gave information")
    pool.close()


asyncio.run(main(*sys.argv[1:]))
