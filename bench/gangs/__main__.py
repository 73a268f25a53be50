"""Kueue's own provisioning check and Muster's side by side: `python -m bench.gangs`, or `make bench`.

With --paper, Muster's alone on virtual time: exact calls, no API server. Otherwise it needs the programs of
the local cluster (`make build`) and no root. All runs on loopback, in a folder of its own, and is gone at the
end or at Ctrl-C.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.gangs import (
    cases,
    controller_only,
    machine,
    paper,
    plan,
    plot,
    results,
    reviews,
    table,
    trial,
    variants,
)
from bench.gangs.cases import Case
from bench.gangs.plan import Allowance, Planned, Turn
from bench.gangs.results import Results
from bench.gangs.stage import NEEDED, StageError
from bench.gangs.variants import Contender
from muster.local import LocalClusterError
from tests import envtest
from tests.envtest import Programs

_ROOT: Final = Path(__file__).parents[2]
_OUT: Final = _ROOT / "bench" / "results"
_PICTURE: Final = _ROOT / "docs" / "bench" / "comparison.svg"
_MAKERS: Final[dict[str, Callable[[int], Case]]] = {
    "burst": cases.burst,
    "two-shapes": cases.two_shapes,
    "steady": lambda count: cases.steady(count, rate=4.0),
    "cohorts": cases.kueues_own,
    "shared": cases.shared,
    "scarcity": cases.scarcity,
    "stockout": cases.stockout,
}
_DEFAULT: Final = ("burst:100", "steady:40", "scarcity:8")
_SHIPPED: Final = [each for each in variants.ALL if not each.is_tuned]
_EVERY_SECONDS: Final = 15.0
_WEBHOOK_RATE, _WEBHOOK_SECONDS = 200.0, 20.0


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.paper:
        return _on_paper(arguments.paper)
    found = _before(arguments)
    for file in arguments.merge:
        found.merge(results.load(file), replaces=not arguments.more)
    try:
        if not arguments.merge:
            _run(arguments, found)
    except KeyboardInterrupt:
        print("\ninterrupted: nothing runs any more; what was measured is written", file=sys.stderr)
        return 130
    except (StageError, LocalClusterError) as error:
        print(f"\n{error}", file=sys.stderr)
        return int(error.exit_code)
    finally:
        _write(found, arguments.out)
    print((arguments.out / "results.json").read_text() if arguments.json else table.markdown(found))
    return 0


def _on_paper(named: Sequence[tuple[str, int]]) -> int:
    above = ""
    for name, count in named:
        figures = paper.run(name, count)
        if (header := paper.header(figures)) != above:
            above = header
            print(header)
        print(paper.row(f"{name}:{count}", figures), flush=True)
    return 0


def _before(arguments: argparse.Namespace) -> Results:
    """What stays of an earlier run."""
    file = arguments.out / "results.json"
    fresh = Results(machine.here(), datetime.now(UTC).strftime("%Y-%m-%d"))
    return results.load(file) if (arguments.add or arguments.more) and file.is_file() else fresh


def _write(found: Results, out: Path) -> None:
    if not found.trials and not found.alone:
        return  # Nothing came about: what is there is worth more.
    found.save(out / "results.json")
    (out / "comparison.md").write_text(table.markdown(found), encoding="utf-8")
    plot.draw(found, _PICTURE if out == _OUT else out / _PICTURE.name)


def _run(arguments: argparse.Namespace, found: Results) -> None:
    """Everything that is asked for, as long as there is time. What is there is kept after every trial."""
    programs = envtest.found(*NEEDED)
    if programs is None:
        raise StageError("the programs are not built; build them with `make build`")
    allowance, file = Allowance(arguments.minutes), arguments.out / "results.json"
    begun = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
    for turn in plan.turns(arguments.cases, arguments.contenders, rounds=arguments.rounds):
        if allowance.left <= 0:
            print(f"{turn}: left out, the time is over", file=sys.stderr)
            continue
        is_first = turn.number == 1 and not arguments.more
        named = f"{begun} #{turn.number}"
        _show(str(turn), _try(found, turn, programs, allowance, named=named, replaces=is_first))
        print(file=sys.stderr)
        found.save(file)
    for name, measure in _controller_only(arguments, programs).items():
        if allowance.left <= 0:
            break
        found.alone[name] = measure(_reporter(name))
        found.save(file)


def _try(
    found: Results, turn: Turn, programs: Programs, allowance: Allowance, *, named: str, replaces: bool
) -> str:
    """One trial into the results, as one of the round of this name. One that does not come about costs itself
    alone.
    """
    begun = time.monotonic()
    try:
        done = trial.run(allowance.cut(turn.case), turn.contender, programs, on_progress=_reporter(str(turn)))
    except (StageError, LocalClusterError) as error:
        found.failed.append(f"{turn}: {str(error).splitlines()[0]}")
        return f"failed: {error}"
    found.take(replace(done, round=named), replaces=replaces)
    taken = (
        f"{done.admitted} of {done.gangs} in {done.seconds:.0f} s, {time.monotonic() - begun:.0f} s in all"
    )
    return f"{done.throughput:.1f} gangs/s: {taken}{', cut short' if done.is_cut_short else ''}"


def _controller_only(
    arguments: argparse.Namespace, programs: Programs
) -> dict[str, Callable[[trial.Progress], dict[str, float]]]:
    """What only ours can be asked, by the name under which it is shown."""
    found: dict[str, Callable[[trial.Progress], dict[str, float]]] = {}
    if count := arguments.standing:
        found[f"{count} live Workloads"] = lambda report: controller_only.steady_state(
            count, programs, on_progress=report
        )
    if arguments.webhooks:
        found["webhooks"] = lambda _: reviews.webhooks(programs, rate=_WEBHOOK_RATE, seconds=_WEBHOOK_SECONDS)
    return found


def _reporter(where: str) -> Callable[[str], None]:
    """On a terminal every step, in one line; elsewhere a line now and then."""
    last = 0.0

    def report(text: str) -> None:
        nonlocal last
        if sys.stderr.isatty():
            _show(where, text)
        elif time.monotonic() - last > _EVERY_SECONDS:
            last = time.monotonic()
            print(f"{where}: {text}", file=sys.stderr)

    return report


def _show(where: str, text: str) -> None:
    print(f"\r{where}: {text}\033[K" if sys.stderr.isatty() else f"{where}: {text}", end="", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gangs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = ", ".join(f"{name}:N" for name in _MAKERS)
    parser.add_argument(
        "--cases", nargs="*", type=_planned, default=[_planned(each) for each in _DEFAULT], metavar="CASE",
        help=f"of {kinds}; N gangs, in `cohorts` N in each of 30 queues; 3 rounds of it: NAME:Nx3 "
        f"(default: {' '.join(_DEFAULT)})",
    )  # fmt: skip
    parser.add_argument(
        "--paper", nargs="+", type=_paper, default=[], metavar="CASE",
        help=f"print these cases on virtual time and end: {', '.join(f'{name}:N' for name in paper.CASES)} "
        "(N gangs; in kai-queue N running pods, and 400 gangs that wait)",
    )  # fmt: skip
    parser.add_argument("--rounds", type=_positive, default=2, help="trials of each (default: 2)")
    parser.add_argument(
        "--contenders", nargs="+", type=_contender, default=_SHIPPED, metavar="NAME",
        help=f"of {', '.join(each.name for each in variants.ALL)} (default: those that are not tuned)",
    )  # fmt: skip
    parser.add_argument(
        "--standing", type=int, default=0, metavar="N", help="also ours over N live Workloads"
    )
    parser.add_argument("--webhooks", action="store_true", help="also our webhooks at 200 reviews a second")
    parser.add_argument("--out", type=Path, default=_OUT, help="folder of results (default: bench/results)")
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="begin nothing after this time, and end what is under way"
    )
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument(
        "--add", action="store_true", help="keep what is there of other cases and contenders, with its date"
    )
    kept.add_argument("--more", action="store_true", help="keep all that is there: these are further rounds")
    parser.add_argument(
        "--merge", nargs="+", type=Path, default=[], metavar="FILE",
        help="run nothing: put the results.json of other runs together (with --add: and what is there; with "
        "--more: as further rounds of it)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print all results as JSON, not the table")
    return parser


def _planned(text: str) -> Planned:
    kind, _, count = text.partition(":")
    if kind not in _MAKERS:
        raise argparse.ArgumentTypeError(f"{text!r}: must be one of {', '.join(_MAKERS)}, and :N behind it")
    gangs, mark, rounds = count.partition("x")
    return Planned(case=_MAKERS[kind](_positive(gangs)), rounds=_positive(rounds) if mark else None)


def _paper(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    if name not in paper.CASES:
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be one of {', '.join(paper.CASES)}, and :N behind it"
        )
    return name, _positive(count)


def _contender(text: str) -> Contender:
    for each in variants.ALL:
        if each.name == text:
            return each
    raise argparse.ArgumentTypeError(
        f"{text!r}: must be one of {', '.join(one.name for one in variants.ALL)}"
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
