"""The plugin's process: serve on a free port of this machine, print it, and go when the engine goes."""

import asyncio
import signal
import sys

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from pulumi.runtime.proto import provider_pb2_grpc

from muster.provider.provider import Engine, MusterProvider

# A department of a thousand teams is megabytes of text; this is what the engine and the SDK allow too.
_LARGEST_MESSAGE = 400 * 1024 * 1024


async def serve(address: str | None) -> None:
    engine = Engine()
    if address:
        engine.connect(address)
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
            ("grpc.max_send_message_length", _LARGEST_MESSAGE),
        ]
    )
    provider = MusterProvider(engine)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    # The engine interrupts its plugins when it is done and waits for them: go at once.
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(
            number, lambda: asyncio.ensure_future(server.stop(None))
        )
    print(port, flush=True)
    await server.wait_for_termination()
    await provider.close()


def main() -> None:
    addresses = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    asyncio.run(serve(addresses[0] if addresses else None))


if __name__ == "__main__":
    main()
