"""`python -m muster.replay record|print|forecast`: the recorder of a cluster, in a pod of that cluster.

The controller's image holds it without the command line, whose libraries the image does not have. `print`
writes the whole recording to standard output, from a pod in which there is no other way to copy a file.
`forecast` writes on waiting Workloads when they may start, by what the recorder beside it has seen.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from muster.controller.kube.connection import Connection, ConnectionSettingsError, in_cluster, kubeconfig
from muster.errors import ExitCode, MusterError
from muster.model.stack import Scheduler
from muster.replay import forecaster
from muster.replay.forecast import Settings
from muster.replay.recorder import Order, record
from muster.replay.recording import RecordingError
from muster.replay.recording_file import older_parts

_MIB = 2**20
_DAY = 86_400


def main(arguments: Sequence[str] | None = None) -> int:
    settings = _parser().parse_args(arguments)
    try:
        if settings.command == "print":
            print_recording(settings.out, sys.stdout.buffer)
            return 0
        if settings.command == "forecast":
            forecaster.follow(_forecasts(settings), lambda: _connection(settings.kubeconfig), _say)
            return 0
        record(_order(settings), lambda: _connection(settings.kubeconfig), _say)
    except MusterError as error:
        _say(f"Error: {error}")
        return error.exit_code
    except ConnectionSettingsError as error:
        _say(f"Error: {error}")
        return ExitCode.UNUSABLE
    return 0


def print_recording(path: Path, out: BinaryIO) -> None:
    """The older parts and the file, one after the other, which is a recording as well.

    The file is opened first: a recorder may put it aside while the parts are read, and then it is one of
    them.
    """
    try:
        with path.open("rb") as last:
            number = os.fstat(last.fileno()).st_ino
            for part in older_parts(path):
                with part.open("rb") as file:
                    if os.fstat(file.fileno()).st_ino != number:
                        shutil.copyfileobj(file, out)
            shutil.copyfileobj(last, out)
        out.flush()
    except OSError as error:
        raise RecordingError(
            f"{path}: cannot be read: {error.strerror}.",
            fix="name the file that the recorder writes.",
            exit_code=ExitCode.OUTSIDE,
        ) from None


def _parser() -> argparse.ArgumentParser:
    program = argparse.ArgumentParser(prog="python -m muster.replay", description="Records a cluster's jobs.")
    commands = program.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="record until a signal")
    printer = commands.add_parser("print", help="write the recording to standard output")
    forecasts = commands.add_parser("forecast", help="write on waiting Workloads when they may start")
    for each in (recorder, printer, forecasts):
        each.add_argument(
            "--out", type=Path, default=Path("/recordings/recording.jsonl.gz"), help="the recording"
        )
    recorder.add_argument("--scheduler", type=Scheduler, choices=[*Scheduler], help="whose jobs to record")
    recorder.add_argument("--rotate", type=int, default=256, metavar="MIB", help="the size of a part")
    recorder.add_argument("--keep", type=int, metavar="MIB", help="the size of all parts; default: no limit")
    for each in (recorder, forecasts):
        each.add_argument("--kubeconfig", type=Path, help="a kubeconfig in JSON, for running outside a pod")
    recorder.add_argument("--with-names", action="store_true", help="write the names of jobs, too")
    _add_forecaster(forecasts)
    return program


def _add_forecaster(parser: argparse.ArgumentParser) -> None:
    known = Settings()
    parser.add_argument("--player", type=Path, required=True, help="the program kueue-player")
    parser.add_argument(
        "--configuration", type=json.loads, required=True, metavar="JSON", help="Kueue's Configuration"
    )
    parser.add_argument("--runs", type=int, default=known.runs, metavar="N", help="how many futures")
    parser.add_argument("--days", type=int, default=7, metavar="N", help="how far a future reaches")
    parser.add_argument(
        "--minutes", type=float, default=15, metavar="N", help="how long a round may play futures"
    )
    parser.add_argument("--memory", type=int, metavar="MIB", help="of this program, beside its player's")
    parser.add_argument("--once", action="store_true", help="end after a round")


def _connection(path: Path | None) -> Connection:
    return in_cluster() if path is None else kubeconfig(path)


def _forecasts(settings: argparse.Namespace) -> forecaster.Order:
    return forecaster.Order(
        recording=settings.out,
        program=settings.player,
        config=settings.configuration,
        settings=Settings(
            runs=settings.runs, seconds=settings.days * _DAY, at_once=1, limit=settings.minutes * 60
        ),
        is_once=settings.once,
        memory=None if settings.memory is None else settings.memory * _MIB,
    )


def _order(settings: argparse.Namespace) -> Order:
    return Order(
        out=settings.out,
        scheduler=settings.scheduler,
        with_names=settings.with_names,
        rotate_bytes=settings.rotate * _MIB,
        keep_bytes=None if settings.keep is None else settings.keep * _MIB,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
