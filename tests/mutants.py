"""python -m tests.mutants [--minutes 480] [--until short] [--only PATH...] [--table]: does a test fail if the
code is wrong?

A mutant is the product with one expression changed: a comparison turned, a condition negated, a number one
larger, a call left out. For each one the tests that can see it run, the nearest first, until one fails: some
hundred unit tests that execute its line (executed.py), all unit tests that a change of the file can break
(changed.py), then the rest of `make test`, then all of `make test-all`. A mutant that no test notices
survives; it shows code that nothing checks, or code that does the same: alike.toml has those, each with the
reason.

The sample is fixed by the seed and does not depend on other code: what is drawn first is run first, so the
first hundred are a sample of the whole. Results are added to mutants.jsonl one by one, and a run goes on
where the last one ended; a result counts as long as its file is unchanged. mutmut and cosmic-ray were not
taken: both run one command for every mutant, which starts Python and imports everything anew.
"""

import argparse
import ast
import hashlib
import importlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import pytest

from tests import changed, length
from tests.budget import ROOT
from tests.executed import Executed, record

# What decides, and what has to be right before anything is applied.
AREAS: Final = {
    "kueue/decide": "muster/controller/kueue/decide.py",
    "kai/decide": "muster/controller/kai/decide.py",
    "gangs": "muster/controller/gangs/",
    "validation": "muster/validation/",
    "render/tenancy": "muster/render/tenancy/",
    "render, the rest": "muster/render/",
    "config": "muster/config/",
    "policies": "policies/",
    "provider": "muster/provider/",
    "check": "muster/check/",
}
RESULTS: Final = Path(__file__).with_name("mutants.jsonl")
# Survivors that no test should notice, by name, with the reason.
ALIKE: Final = Path(__file__).with_name("alike.toml")
# Which tests run, each after all before it.
STAGES: Final = ("near", "unit", "short", "all")
_UNIT: Final = ("tests/unit/", "tests/kai/")
# grimp, which reads the imports here, starts threads once, and a fork has none of them.
_WITHOUT_FORK: Final = {"tests/unit/test_changed.py"}
_ROOTS: Final = ("muster", "policies")
# How many of the tests that execute a line run first, and how many then.
_FEW: Final = 10
_MANY: Final = 400
# Seconds of CPU for one test, in which only a mutant's loop spends so many.
_LONGEST: Final = 60
# A mutant that lets nothing be imported, or never ends, is noticed by no test in particular.
_NO_TEST: Final = "no test"
_FORK: Final = multiprocessing.get_context("fork")
# Slow to import and needed by most tests: a fork has them.
_LIBRARIES: Final = ("aiohttp", "hypothesis", "structlog", "yaml")
# What a fork imports anew, from its checkout.
_OURS: Final = {"tests", "muster", "bench", "release"}
_GENERATED: Final = "muster/provider/proto/"
_TWO_WAYS: Final[tuple[tuple[type[ast.AST], type[ast.AST]], ...]] = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot)),
    *((ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv), (ast.Continue, ast.Break)),
)
_SWAPS: Final = {one: other for pair in _TWO_WAYS for one, other in (pair, pair[::-1])}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
# What says nothing about behaviour, or stands for it somewhere else.
_SKIPPED_FIELDS: Final = {"annotation", "returns", "decorator_list", "pattern"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """`start` and `end`: where `new` takes the place of `old`, in bytes of the file. `occurrence` counts
    equal changes of one file.
    """

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str
    occurrence: int

    @property
    def name(self) -> str:
        return f"{self.path}: {self.old} -> {self.new} #{self.occurrence}"

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`until`: the last stage that ran. `killer`: the test that failed, "" where the mutant survived."""

    name: str
    path: str
    line: int
    digest: str
    until: str
    killer: str
    seconds: float


def mutants(path: str, source: bytes) -> Iterator[Mutant]:
    """Every mutant of one file, in its order."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    seen: defaultdict[tuple[str, str], int] = defaultdict(int)
    for old, new in _changes(ast.parse(source)):
        text = new if isinstance(new, str) else ast.unparse(new)
        if isinstance(old, ast.expr) and not isinstance(old, ast.Constant):
            text = f"({text})"
        start = starts[old.lineno - 1] + old.col_offset
        end = starts[(old.end_lineno or 0) - 1] + (old.end_col_offset or 0)
        change = ast.unparse(old), text
        yield Mutant(path, old.lineno, start, end, *change, seen[change])
        seen[change] += 1


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST | str]]:
    """Nodes below this one, each with what takes its place."""
    match node:
        case ast.Compare(left, operators, others):
            for place, operator in enumerate(operators):
                turned = [*operators[:place], _swap(operator), *operators[place + 1 :]]
                yield node, ast.Compare(left, turned, others)
        case ast.BoolOp(operator, values):
            yield node, ast.BoolOp(_swap(operator), values)
        case ast.BinOp(left, operator, right) if type(operator) in _SWAPS and not _has_text(node):
            yield node, ast.BinOp(left, _swap(operator), right)
        case ast.UnaryOp(ast.Not(), operand):
            yield node, operand
        case ast.Constant(bool(value)):
            yield node, str(not value)
        case ast.Constant(int(value)):
            yield node, str(value + 1)
        case ast.Call(ast.Name(name)) if name in _CALLS:
            yield node, ast.Call(ast.Name(_CALLS[name]), node.args, node.keywords)
        case ast.Expr(ast.Call()):
            yield node, "pass"
        case ast.Continue() | ast.Break():
            yield node, _swap(node)
    match node:
        # A comparison, a negation and a junction are turned already.
        case ast.If(test) | ast.While(test) | ast.IfExp(test) if isinstance(
            test, ast.Name | ast.Attribute | ast.Call
        ):
            yield test, ast.UnaryOp(ast.Not(), test)
    skipped = _SKIPPED_FIELDS | {"keywords"} if isinstance(node, ast.ClassDef) else _SKIPPED_FIELDS
    for name, value in ast.iter_fields(node):
        if name not in skipped and not isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _changes(child)


def _swap(node: ast.AST) -> Any:
    return _SWAPS[type(node)]()


def _has_text(node: ast.AST) -> bool:
    """Concatenation: strings, lists and dicts have no minus."""
    texts = ast.JoinedStr | ast.List | ast.Tuple | ast.Dict | ast.ListComp
    return any(
        isinstance(each, texts) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        for each in ast.walk(node)
    )


def drawn(seed: int) -> list[Mutant]:
    """Every mutant in the order in which this seed takes them."""
    return sorted(_every(), key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest())


@cache
def _every() -> tuple[Mutant, ...]:
    files = sorted(str(file.relative_to(ROOT)) for root in _ROOTS for file in (ROOT / root).rglob("*.py"))
    paths = [path for path in files if area_of(path) and not path.startswith(_GENERATED)]
    return tuple(mutant for path in paths for mutant in mutants(path, (ROOT / path).read_bytes()))


def area_of(path: str) -> str:
    """The first area that has the file, "" where none has."""
    return next((area for area, place in AREAS.items() if path.startswith(place)), "")


def copy_checkout(folder: Path) -> None:
    """The working tree, where the tests can run."""
    listed = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if os.path.lexists(ROOT / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    if (ROOT / ".venv").exists():
        (folder / ".venv").symlink_to((ROOT / ".venv").resolve())
    author = ("-c", "user.name=muster", "-c", "user.email=muster@localhost")
    for command in (("init", "-q"), ("add", "-A"), (*author, "commit", "-q", "-m", "a copy")):
        subprocess.run(("git", *command), cwd=folder, check=True)
    # By its content: a mutant may be as long and as old as what it replaces.
    compiled = ("-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "muster")
    subprocess.run((sys.executable, *compiled), cwd=folder, check=True)


class Checkout:
    """A copy of the working tree in which one file at a time is a mutant's."""

    def __init__(self, folder: Path, seconds: float, executed: Executed, known: Iterable[Outcome]) -> None:
        self.folder, self._seconds, self._executed = folder, seconds, executed
        # What has noticed the most in an area is tried first.
        self._broken: list[str] = []
        self._kills: Counter[tuple[str, str]] = Counter()
        for outcome in known:
            self._count(outcome.path, outcome.killer)

    def judge(self, mutant: Mutant, stages: Sequence[str]) -> tuple[str, str]:
        """The last stage that ran, and the test that noticed the mutant, "" where none did."""
        target, original = self.folder / mutant.path, (self.folder / mutant.path).read_bytes()
        stage = killer = ""
        for stage, tests in self._rounds(mutant, original, stages):
            while True:
                target.write_bytes(mutant.apply(original))
                try:
                    killer = self._first_failure(tests, stage)
                finally:
                    target.write_bytes(original)
                if not killer or killer.startswith(_NO_TEST) or self._passes(killer):
                    break
                print(f"{killer} fails without a mutant, too: left out", file=sys.stderr)
                self._broken.append(killer)
            if killer:
                self._count(mutant.path, killer)
                break
        return stage, killer

    def _count(self, path: str, killer: str) -> None:
        self._kills[path, killer] += 1
        self._kills[area_of(path), killer.partition("::")[0]] += 1

    def _rounds(
        self, mutant: Mutant, source: bytes, stages: Sequence[str]
    ) -> Iterator[tuple[str, Sequence[str]]]:
        """What to run one after the other: tests that execute the line, then whole files."""
        area = area_of(mutant.path)
        last = mutant.line + source.count(b"\n", mutant.start, mutant.end)
        executing = self._executed.tests(mutant.path, range(mutant.line, last + 1))

        def place(test: str) -> tuple[int, int, str]:
            return -self._kills[area, test.partition("::")[0]], self._executed.breadth[test], test

        tests = sorted(executing, key=place)
        for stage in stages:
            files = set(_tests(mutant.path, stage))
            if stage == STAGES[0]:
                # Most mutants need a few.
                first = sorted(tests, key=lambda test: -self._kills[mutant.path, test])[:_FEW]
                yield stage, first
                yield stage, self._executed.newer(files | _tests(mutant.path, STAGES[1]), self.folder)
                yield stage, [test for test in tests if test not in first][:_MANY]
                if executing:
                    continue
            elif stage == STAGES[1]:
                # What tests of a file share is made once, and executed by the first of them alone.
                files |= _tests(mutant.path, STAGES[0]) | {test.partition("::")[0] for test in tests}
            yield stage, sorted(files, key=lambda test: (len(changed.imports(test)), test))

    @cache  # noqa: B019 - one checkout for the whole run
    def _passes(self, test: str) -> bool:
        return not self._first_failure((test,), "all")

    def _first_failure(self, tests: Sequence[str], stage: str) -> str:
        """The first test that fails, in a process of its own."""
        if not tests:
            return ""
        ours, theirs = _FORK.Pipe(duplex=False)
        variables = {"PYTHONPATH": str(self.folder)}
        if stage != STAGES[-1]:
            variables[length.VARIABLE] = length.SHORT
        deselected = [word for broken in self._broken for word in ("--deselect", broken)]
        process = _FORK.Process(
            target=_run_tests, args=(self.folder, variables, (*deselected, *tests), theirs)
        )
        process.start()
        theirs.close()
        try:
            if not ours.poll(self._seconds * (1 if stage in STAGES[:2] else 10)):
                return f"{_NO_TEST} ended in time"
            return str(ours.recv())
        except EOFError:
            return f"{_NO_TEST} ended"
        finally:
            # With whatever it has started.
            with suppress(ProcessLookupError):
                os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()


def _run_tests(
    folder: Path, variables: Mapping[str, str], arguments: Sequence[str], result: Connection
) -> None:
    """In a fork of this process, which has imported what is slow to import and nothing of the checkout."""
    os.setsid()
    os.chdir(folder)
    os.environ.update(variables)
    for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
        del sys.modules[name]
    sys.path[:] = [str(folder), *(place for place in sys.path if place not in ("", str(ROOT)))]
    with Path(os.devnull).open("w") as nothing:
        for stream in (1, 2):
            os.dup2(nothing.fileno(), stream)
    failures: list[str] = []

    class FirstFailure:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
            def end(*_: object) -> None:
                result.send(item.nodeid)
                os._exit(1)

            signal.signal(signal.SIGPROF, end)
            # Of this process's own time, so that other work on the machine ends no test.
            signal.setitimer(signal.ITIMER_PROF, _LONGEST)
            try:
                return (yield)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failures.append(report.nodeid)

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed:
                failures.append(f"{_NO_TEST} of {report.nodeid} could be read")

    options = ("-x", "-q", "--tb=no", "--hypothesis-seed=0", "-p", "no:cacheprovider")
    code = pytest.main([*options, *arguments], [FirstFailure()])
    # Names of parameters that the mutant has changed are not found; their file runs next.
    passed = code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.USAGE_ERROR)
    result.send("" if passed else next(iter(failures), f"{_NO_TEST} could run"))


@cache
def _tests(path: str, stage: str) -> frozenset[str]:
    """The files of a stage that can see a change of this one."""
    chosen = changed.select([path]).chosen - _WITHOUT_FORK
    near = changed.importers(path) & chosen
    unit = frozenset(name for name in chosen if name.startswith(_UNIT))
    match stage:
        case "near":
            files = near & unit
        case "unit":
            files = unit - near
        case "short":
            files = frozenset(name for name in chosen - unit if not length.is_long(name))
        case _:
            files = chosen
    return files


def _results() -> dict[tuple[str, str], Outcome]:
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    outcomes = (Outcome(**json.loads(line)) for line in lines)
    return {(outcome.name, outcome.digest): outcome for outcome in outcomes}


@cache
def _digest(path: str) -> str:
    return hashlib.sha256((ROOT / path).read_bytes()).hexdigest()[:12]


def run(
    sample: Sequence[Mutant],
    known: Mapping[tuple[str, str], Outcome],
    until: str,
    *,
    minutes: float,
    seconds: float,
    workers: int,
    data: Path,
) -> None:
    """Judge the mutants in their order, until the time is over. What is `known` of one is not tried again."""
    end = time.monotonic() + minutes * 60
    with tempfile.TemporaryDirectory() as folder:
        folders = [Path(folder, str(number)) for number in range(workers)]
        for checkout in folders:
            copy_checkout(checkout)
        if not data.exists():
            places = [*AREAS.values(), f"muster/{AREAS['policies']}"]
            patterns = (f"{place}**" if place.endswith("/") else place for place in places)
            record(folders[0], _UNIT, of=patterns, data=data)
        executed = Executed(data)
        for name in _LIBRARIES:
            importlib.import_module(name)
        processes = [
            _FORK.Process(
                target=_judge,
                args=(Checkout(checkout, seconds, executed, known.values()), sample[number::workers]),
                kwargs={"until": until, "end": end, "known": known},
            )
            for number, checkout in enumerate(folders)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    # Each once, and those of the code as it is.
    files = {mutant.path for mutant in _every()}
    current = (
        each for each in _results().values() if each.path in files and each.digest == _digest(each.path)
    )
    lines = sorted(json.dumps(asdict(outcome)) + "\n" for outcome in current)
    RESULTS.write_text("".join(lines), encoding="utf-8")


def _judge(
    checkout: Checkout,
    sample: Iterable[Mutant],
    *,
    until: str,
    end: float,
    known: Mapping[tuple[str, str], Outcome],
) -> None:
    stages = STAGES[: STAGES.index(until) + 1]
    for mutant in sample:
        if time.monotonic() > end:
            return
        before = known.get((mutant.name, _digest(mutant.path)))
        begun = time.monotonic()
        stage, killer = checkout.judge(mutant, stages[STAGES.index(before.until) + 1 if before else 0 :])
        spent = round(time.monotonic() - begun, 1)
        outcome = Outcome(mutant.name, mutant.path, mutant.line, _digest(mutant.path), stage, killer, spent)
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
        change = outcome.name.partition(": ")[2]
        print(f"{outcome.path}:{outcome.line}: {change}: {killer or 'SURVIVED'}", flush=True)


def table(sample: Sequence[Mutant]) -> Iterator[str]:
    """Lines of Markdown: each area with what became of its part of the sample, then who survived."""
    known = _results()
    alike = tomllib.loads(ALIKE.read_text(encoding="utf-8"))
    killed_by = "Killed by `make test` | by `make test-all`"
    yield f"| Code | Mutants | Judged | {killed_by} | Alike | Survived | Killed |"
    yield "|---|---|---|---|---|---|---|---|"
    survived = []
    for area in AREAS:
        mutants = [mutant for mutant in sample if area_of(mutant.path) == area]
        found = [(mutant, known.get((mutant.name, _digest(mutant.path)))) for mutant in mutants]
        judged = [(mutant, outcome) for mutant, outcome in found if outcome]
        killed = [outcome for _, outcome in judged if outcome.killer]
        short = [outcome for outcome in killed if outcome.until != STAGES[-1]]
        left = [(mutant, outcome) for mutant, outcome in judged if not outcome.killer]
        same = sum(mutant.name in alike for mutant, _ in left)
        counts = (len(mutants), len(judged), len(short), len(killed), same, len(left) - same)
        noticed = f"{len(killed) / (len(judged) - same):.0%}" if len(judged) > same else ""
        yield f"| {area} | {' | '.join(map(str, counts))} | {noticed} |"
        survived += left
    yield ""
    for mutant, outcome in sorted(survived, key=lambda each: (each[0].name in alike, each[0].path)):
        change = f"`{outcome.path}:{mutant.line}`: `{mutant.old}` as `{mutant.new}`"
        yield f"- {change}: {alike.get(mutant.name, f'not noticed by the tests of `{outcome.until}`')}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--minutes", type=float, default=480, help="begin no mutant after so long [480]")
    parser.add_argument("--sample", type=int, default=1500, help="how many mutants [1500]")
    parser.add_argument("--seed", type=int, default=44, help="which ones [44]")
    parser.add_argument(
        "--only", nargs="+", default=(), metavar="PATH", help="of these files or folders alone"
    )
    parser.add_argument("--until", choices=STAGES, default="short", help="the last tests to try [short]")
    parser.add_argument(
        "--seconds", type=float, default=600, help="a mutant that takes longer never ends [600]"
    )
    parser.add_argument("--workers", type=int, default=2, help="how many mutants at a time [2]")
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    parser.add_argument(
        "--coverage",
        type=Path,
        default=ROOT / ".coverage",
        help="which test executes what: recorded where the file does not exist [.coverage]",
    )
    parser.add_argument("--table", action="store_true", help="print what is known and run nothing")
    options = parser.parse_args(arguments)
    sample = drawn(options.seed)[: options.sample]
    sample = [mutant for mutant in sample if not options.only or mutant.path.startswith(tuple(options.only))]
    if not options.table:
        known = _results()
        if options.again:
            known = {key: outcome for key, outcome in known.items() if outcome.killer}

        def is_open(mutant: Mutant) -> bool:
            outcome = known.get((mutant.name, _digest(mutant.path)))
            return not outcome or not (
                outcome.killer or STAGES.index(outcome.until) >= STAGES.index(options.until)
            )

        run(
            list(filter(is_open, sample)),
            known,
            options.until,
            minutes=options.minutes,
            seconds=options.seconds,
            workers=options.workers,
            data=options.coverage,
        )
    print(*table(sample), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
