"""Kueue's own provisioning check and Muster's side by side: `python -m bench.gangs`, or `make bench`.

Needs the programs of the local plane (`make build`) and no root. Everything runs on loopback, in a folder of
its own, and is gone at the end or at Ctrl-C.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.gangs import alone, cases, contenders, machine, plot, results, reviews, table, trial
from bench.gangs.cases import Case
from bench.gangs.contenders import Contender
from bench.gangs.results import Results
from bench.gangs.stage import NEEDED, StageError
from localplane import bare
from localplane.bare import Programs
from localplane.errors import PlaneError

_OUT: Final = Path(__file__).parents[2] / "docs" / "bench"
_MAKERS: Final[dict[str, Callable[[int], Case]]] = {
    "burst": cases.burst,
    "steady": lambda count: cases.steady(count, rate=4.0),
    "cohorts": cases.kueues_own,
    "shared": cases.shared,
    "scarcity": cases.scarcity,
}
_DEFAULT: Final = ("burst:100", "steady:40", "scarcity:8")
_SHIPPED: Final = [each for each in contenders.ALL if not each.is_tuned]
_WEBHOOK_RATE, _WEBHOOK_SECONDS = 200.0, 20.0


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    programs = bare.found(*NEEDED)
    if programs is None:
        print("the programs are not built; build them with `make build`", file=sys.stderr)
        return 1
    try:
        found = _run(arguments, programs)
    except KeyboardInterrupt:
        print("\ninterrupted: nothing runs any more; what was measured is in results.json", file=sys.stderr)
        return 130
    except (StageError, PlaneError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    (arguments.out / "comparison.md").write_text(table.markdown(found), encoding="utf-8")
    plot.draw(found, arguments.out / "comparison.svg")
    print((arguments.out / "results.json").read_text() if arguments.json else table.markdown(found))
    return 0


def _run(arguments: argparse.Namespace, programs: Programs) -> Results:
    """Round by round, and in each round all contenders of all cases, each time another one first."""
    file = arguments.out / "results.json"
    fresh = Results(machine.here(), datetime.now(UTC).strftime("%Y-%m-%d"))
    found = results.load(file) if arguments.add and file.is_file() else fresh
    found.trials = found.without(case.name for case in arguments.cases)
    for number in range(arguments.rounds):
        for case in arguments.cases:
            turn = number % len(arguments.contenders)
            for contender in (*arguments.contenders[turn:], *arguments.contenders[:turn]):
                where = f"round {number + 1} of {arguments.rounds}, {case.name}, {contender.name}"
                _say(where, _try(found, case, contender, programs, where))
                print(file=sys.stderr)
                found.save(file)
    for name, measure in _alone(arguments, programs).items():
        found.alone[name] = measure(_teller(name))
        found.save(file)
    return found


def _try(found: Results, case: Case, contender: Contender, programs: Programs, where: str) -> str:
    """One trial into the results. One that does not come about costs itself alone."""
    try:
        done = trial.run(case, contender, programs, told=_teller(where))
    except (StageError, PlaneError) as error:
        found.failed.append(f"{where}: {str(error).splitlines()[0]}")
        return f"failed: {error}"
    found.trials.append(done)
    return f"{done.throughput:.1f} gangs/s in {done.seconds:.0f} s"


def _alone(
    arguments: argparse.Namespace, programs: Programs
) -> dict[str, Callable[[trial.Told], dict[str, float]]]:
    """What only ours can be asked, by the name under which it is shown."""
    found: dict[str, Callable[[trial.Told], dict[str, float]]] = {}
    if count := arguments.standing:
        found[f"{count} live Workloads"] = lambda told: alone.standing(count, programs, told=told)
    if arguments.webhooks:
        found["webhooks"] = lambda _: reviews.webhooks(programs, rate=_WEBHOOK_RATE, seconds=_WEBHOOK_SECONDS)
    return found


def _teller(where: str) -> Callable[[str], None]:
    return lambda text: _say(where, text) if sys.stderr.isatty() else None


def _say(where: str, text: str) -> None:
    print(f"\r{where}: {text}\033[K" if sys.stderr.isatty() else f"{where}: {text}", end="", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gangs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = ", ".join(f"{name}:N" for name in _MAKERS)
    parser.add_argument(
        "--cases", nargs="*", type=_case, default=[_case(each) for each in _DEFAULT], metavar="CASE",
        help=f"of {kinds}; N gangs, in `cohorts` N in each of 30 queues (default: {' '.join(_DEFAULT)})",
    )  # fmt: skip
    parser.add_argument("--rounds", type=_positive, default=2, help="trials of each (default: 2)")
    parser.add_argument(
        "--contenders", nargs="+", type=_contender, default=_SHIPPED, metavar="NAME",
        help=f"of {', '.join(each.name for each in contenders.ALL)} (default: those that are not tuned)",
    )  # fmt: skip
    parser.add_argument(
        "--standing", type=int, default=0, metavar="N", help="also ours over N live Workloads"
    )
    parser.add_argument("--webhooks", action="store_true", help="also our webhooks at 200 reviews a second")
    parser.add_argument("--out", type=Path, default=_OUT, help="folder of the results (default: docs/bench)")
    parser.add_argument("--add", action="store_true", help="keep the other cases of results that are there")
    parser.add_argument("--json", action="store_true", help="print all results as JSON, not the table")
    return parser


def _case(text: str) -> Case:
    kind, _, count = text.partition(":")
    if kind not in _MAKERS:
        raise argparse.ArgumentTypeError(f"{text!r}: must be one of {', '.join(_MAKERS)}, and :N behind it")
    return _MAKERS[kind](_positive(count))


def _contender(text: str) -> Contender:
    for each in contenders.ALL:
        if each.name == text:
            return each
    raise argparse.ArgumentTypeError(
        f"{text!r}: must be one of {', '.join(one.name for one in contenders.ALL)}"
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
