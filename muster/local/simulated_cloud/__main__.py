"""The simulated cloud: `python -m muster.local.simulated_cloud --kubeconfig FILE --control SOCKET`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from pathlib import Path

from muster.local.simulated_cloud.app import serve
from muster.local.simulated_cloud.offering import OfferingError


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m muster.local.simulated_cloud", description=__doc__)
    parser.add_argument(
        "--kubeconfig", type=Path, required=True, help="with the autoscaler's own credentials"
    )
    parser.add_argument("--control", type=Path, required=True, help="the supervisor's control socket")
    parser.add_argument(
        "--clock-scale",
        type=float,
        default=1.0,
        metavar="N",
        help="seconds of the cloud in one real second; at 60 a ten-minute booking lasts ten seconds",
    )
    arguments = parser.parse_args(argv)
    if not arguments.clock_scale > 0:
        parser.error(f"--clock-scale {arguments.clock_scale}: must be above 0")
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        asyncio.run(_until_stopped(arguments))
    except (OSError, OfferingError, ValueError, KeyError) as error:
        logging.getLogger("autoscaler").error("cannot start: %s: %s", type(error).__name__, error)
        return 1
    return 0


async def _until_stopped(arguments: argparse.Namespace) -> None:
    """SIGTERM and SIGINT end it between two calls; nothing needs to be saved."""
    work = asyncio.create_task(serve(arguments.kubeconfig, arguments.control, scale=arguments.clock_scale))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work


if __name__ == "__main__":
    sys.exit(main())
