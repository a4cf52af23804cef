"""The other end of a CURVE connection, by libzmq.

    zmq_curve.py router LOG                    binds, says where and with which key, answers until it is told to stop
    zmq_curve.py dealer ADDRESS KEY LOG        asks, and checks the answers

What the dealer or router is for is in live/tests/indy_zmq.rs. Ends with 0 if all was as it should be.
"""

import sys

import zmq
from zmq.utils import z85

PATIENCE = 10_000
# libzmq counts what encryption adds, too.
LIMIT = 128 * 1024 + 33


def secured(context, kind):
    socket = context.socket(kind)
    public, secret = zmq.curve_keypair()
    socket.curve_publickey, socket.curve_secretkey = public, secret
    socket.linger, socket.rcvtimeo, socket.maxmsgsize = 0, PATIENCE, LIMIT
    return socket, public


def router(context):
    """Echoes, with the identity and the number of parts before it."""
    socket, public = secured(context, zmq.ROUTER)
    socket.curve_server, socket.router_mandatory, socket.router_handover = True, 1, 1
    # So that pings are answered, or the connection ends.
    socket.heartbeat_ivl, socket.heartbeat_timeout = 100, 2_000
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    print(port, z85.decode(public).hex(), flush=True)
    while True:
        identity, *parts = socket.recv_multipart()
        if parts == [b"stop"]:
            return
        if parts == [b"many"]:
            socket.send_multipart([identity, b"a", b"b"])
        socket.send_multipart([identity, b"%s %d " % (identity, len(parts)) + parts[0]])


def dealer(context, address, key):
    """Asks over several connections, one after the other; the other side closes some of them."""
    socket, _ = secured(context, zmq.DEALER)
    socket.curve_serverkey = z85.encode(bytes.fromhex(key))
    socket.identity, socket.reconnect_ivl = b"python", 10
    socket.connect(address)
    for size in (1, 255, 256, 100_000, 128 * 1024 - 7):
        socket.send(b"x" * size)
        assert socket.recv() == b"python " + b"x" * size
    for number in range(3):
        # The other side closes; libzmq comes again by itself.
        socket.send(b"close")
        assert socket.recv() == b"again"
    print("echoed up to 128 KiB, and came again after each close")
    socket.send(b"stop")
    assert socket.recv() == b"python stop"


def main(role, *arguments):
    context = zmq.Context()
    {"router": router, "dealer": dealer}[role](context, *arguments[:-1])
    context.destroy(linger=0)


main(*sys.argv[1:])
