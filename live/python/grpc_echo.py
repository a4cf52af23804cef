"""Both ends of gRPC, by the package `grpcio`: C-core, as in C++, Ruby and PHP.

    grpc_echo.py serve LOG              listens, prints its port, serves until it is killed
    grpc_echo.py call ADDRESS LOG       calls every kind of method, and checks what comes back

Messages are bytes, so no generated code is needed. Ends with 0 if everything was as expected.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

PREFIX = "/live.Echo/"
SECONDS = 20  # for calls that succeed

cancelled = threading.Event()


def unary(request, context):
    context.set_trailing_metadata((("x-length", str(len(request))),))
    return request


def client_stream(requests, _context):
    return b",".join(requests)


def server_stream(request, _context):
    for number in range(int(request)):
        yield b"message %d" % number


def both_streams(requests, context):
    context.send_initial_metadata((("x-stream", "both"),))
    for request in requests:
        yield request[::-1]


def fail(request, context):
    context.set_trailing_metadata((("x-reason", "none"),))
    context.abort(grpc.StatusCode.NOT_FOUND, request.decode())


def wait(_request, context):
    """Sends one message, then nothing until the client leaves."""
    left = threading.Event()
    context.add_callback(left.set)
    yield b"waiting"
    if left.wait(60):
        cancelled.set()


def was_cancelled(_request, _context):
    return b"yes" if cancelled.wait(SECONDS) else b"no"


METHODS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "ClientStream": grpc.stream_unary_rpc_method_handler(client_stream),
    "ServerStream": grpc.unary_stream_rpc_method_handler(server_stream),
    "BothStreams": grpc.stream_stream_rpc_method_handler(both_streams),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Wait": grpc.unary_stream_rpc_method_handler(wait),
    "WasCancelled": grpc.unary_unary_rpc_method_handler(was_cancelled),
}


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return METHODS.get(details.method.removeprefix(PREFIX))


def serve():
    server = grpc.server(ThreadPoolExecutor(8), handlers=(Echo(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


def call(address):
    with grpc.insecure_channel(address) as channel:
        for message in (b"", b"hello", bytes(range(256)) * 4096):
            response, call = channel.unary_unary(PREFIX + "Unary").with_call(message, timeout=SECONDS)
            assert response == message, f"{len(message)} bytes came back changed"
            assert dict(call.trailing_metadata())["x-length"] == str(len(message)), call.trailing_metadata()
        print("unary", flush=True)

        parts = [b"part %d" % number for number in range(100)]
        joined = channel.stream_unary(PREFIX + "ClientStream")(iter(parts), timeout=SECONDS)
        assert joined == b",".join(parts), joined
        print("client stream", flush=True)

        received = list(channel.unary_stream(PREFIX + "ServerStream")(b"1000", timeout=SECONDS))
        assert received == [b"message %d" % number for number in range(1000)], len(received)
        print("server stream", flush=True)

        # Each message is sent after the response to the one before.
        turn = threading.Semaphore(1)

        def requests():
            for part in parts:
                assert turn.acquire(timeout=SECONDS)
                yield part

        responses = channel.stream_stream(PREFIX + "BothStreams")(requests(), timeout=SECONDS)
        for part in parts:
            assert next(responses) == part[::-1]
            turn.release()
        assert list(responses) == [] and dict(responses.initial_metadata())["x-stream"] == "both"
        print("both streams", flush=True)

        error = refused(lambda: channel.unary_unary(PREFIX + "Fail")(b"no such order", timeout=SECONDS))
        assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "no such order"), error
        assert dict(error.trailing_metadata())["x-reason"] == "none", error
        error = refused(lambda: channel.unary_unary(PREFIX + "Missing")(b"", timeout=SECONDS))
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
        print("status", flush=True)

        waiting = channel.unary_stream(PREFIX + "Wait")(b"", timeout=SECONDS)
        assert next(waiting) == b"waiting"
        waiting.cancel()
        assert channel.unary_unary(PREFIX + "WasCancelled")(b"", timeout=2 * SECONDS) == b"yes"
        print("cancelled", flush=True)

        error = refused(lambda: list(channel.unary_stream(PREFIX + "Wait")(b"", timeout=0.5)))
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
        print("deadline", flush=True)


def refused(call):
    try:
        call()
    except grpc.RpcError as error:
        return error
    raise AssertionError("the call succeeded")


match sys.argv[1:]:
    case ["serve", _log]:
        serve()
    case ["call", address, _log]:
        call(address)
    case _:
        sys.exit(__doc__)
