"""`muster what-if`."""

import math
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import click

from muster import config
from muster.cli.command import command
from muster.cli.options import FILE, STACK, context_option, existing_stack, json_option, manifests_option
from muster.cli.output import STDOUT, format_report, note, note_list, progress, put, put_json
from muster.cli.sides import bases, heads, one_base_option
from muster.errors import ExitCode
from muster.kubernetes.client import connect
from muster.live.snapshot import Snapshot, fetch_snapshot, load_snapshot
from muster.model.quantities import many, parse_duration
from muster.model.stack import Scheduler, Stack
from muster.paths import stack_name
from muster.preview import markdown
from muster.preview.document import Report
from muster.preview.inputs import NONE, InputError, parse_stack_option
from muster.preview.whatif.scenario import Scenario, synthetic_snapshot

_EXAMPLES = """
muster what-if gke-prod --kubeconfig ~/.kube/config
muster what-if gke-prod --base origin/main --snapshot snapshot.json --html what-if.html
muster what-if stacks/Pulumi.new.yaml --base old.yaml --synthetic 200+50
muster what-if --manifests origin/main queues/ --snapshot snapshot.json
muster what-if gke-prod --snapshot snapshot.json --duration 2h --duration team-a=30m
"""
_CODES = {
    ExitCode.DONE: "The comparison was written, whatever its result.",
    ExitCode.FOUND: "KAI had not decided everything within --seconds.",
    ExitCode.OUTSIDE: "A cluster could not be read, or a program could not be built or started.",
}


@command(examples=_EXAMPLES, codes=_CODES)
@click.argument("stack", type=STACK, required=False, metavar="[STACK]")
@one_base_option
@manifests_option
@click.option("--snapshot", type=FILE, metavar="FILE", help="What `muster snapshot` recorded.")
@click.option(
    "--kubeconfig",
    type=FILE,
    metavar="FILE",
    help="Kubeconfig of the cluster whose work is replayed; nothing is written to it.",
)
@context_option
@click.option(
    "--synthetic", metavar="RUNNING+WAITING", help="Invented work of the base's teams, such as 200+50."
)
@click.option(
    "--duration",
    multiple=True,
    metavar="[NAMESPACE=]TIME",
    help="How long jobs run, such as 2h or team-a=30m. Default: they never end. May be repeated.",
)
@click.option(
    "--seconds",
    type=float,
    default=600.0,
    show_default=True,
    metavar="N",
    help="Time limit of each side with KAI.",
)
@click.option(
    "--markdown",
    "to_markdown",
    metavar="OUT",
    help="Write Markdown; - is standard output, the default where that is no terminal.",
)
@click.option("--html", "to_html", metavar="OUT", help="Write one page of HTML.")
@json_option
def cli(
    stack: str | None,
    *,
    base: str,
    manifests: tuple[str, str] | None,
    snapshot: Path | None,
    kubeconfig: Path | None,
    context: str,
    synthetic: str | None,
    duration: tuple[str, ...],
    seconds: float,
    to_markdown: str | None,
    to_html: str | None,
    as_json: bool,
) -> ExitCode:
    """Replay running and waiting work against a changed stack in a real Kueue or KAI.

    Loads the queues of the base and of STACK and a snapshot of the work, and lets the scheduler's own code
    decide: who is admitted, preempted by whom, or still waiting, and why. Admission checks count as
    answered. Nothing is written to your cluster.

    With KAI the pools have their largest size, and jobs never end.

    With --duration jobs end, and the wait until each starts is measured.

    The scheduler runs in a process of its own, where time jumps. What Kueue would decide with topologies,
    admission fair sharing, concurrent admission or queues that drain is not played: the report says so.
    """
    if (snapshot, kubeconfig, synthetic).count(None) != 2:
        raise InputError(
            "the work to replay is not named.", fix="give one of --snapshot, --kubeconfig, --synthetic."
        )
    if not 0 < seconds < math.inf:
        raise InputError(f"--seconds {seconds:g}: a side takes some.", fix="write 600.")
    if [to_markdown, to_html, STDOUT if as_json else None].count(STDOUT) > 1:
        raise InputError("standard output takes one of --markdown, --html and --json.", fix="name files.")
    name, before, after = _sides(stack, base, manifests)
    lengths = _durations(duration)
    work = _snapshot(before, file=snapshot, kubeconfig=kubeconfig, context=context, synthetic=synthetic)
    admits_jobs = before.scheduler.traits.admits_jobs and after.scheduler.traits.admits_jobs
    if synthetic and not admits_jobs:
        raise InputError("--synthetic makes up work for Kueue alone.", fix="--snapshot or --kubeconfig.")
    if lengths and not admits_jobs:
        raise InputError("--duration: with KAI no job ends.", fix="leave it out.")
    if admits_jobs:
        report, record, is_settled = _replay(name, before, after, work, durations=lengths)
    else:
        report, record, is_settled = _replay_kai(name, before, after, work, seconds=seconds)
    if to_markdown:
        put(to_markdown, markdown.format_comment(report))
    elif not (to_html or as_json):
        put(STDOUT, format_report(report))
    if to_html:
        # Templates take longer to load than most reports to compute.
        from muster.preview.html import format_html

        put(to_html, format_html(report))
    if as_json:
        put_json(record)
    return ExitCode.DONE if is_settled else ExitCode.FOUND


def _replay(
    name: str, base: Stack, head: Stack, work: Snapshot, *, durations: Mapping[str, float]
) -> tuple[Report, object, bool]:
    """The report, its JSON, and whether the scheduler decided everything within the time limit of a side."""
    # They bring what builds the players, which `--help` does not need.
    from muster.preview.whatif import kueue
    from muster.preview.whatif import report as comparison
    from muster.replay.player import UnplayableError, ensure_player

    scenario = Scenario(snapshot=work, durations=durations)
    try:
        with progress():
            program = ensure_player()
        note(f"Kueue decides about {many(len(work.workloads), 'Workload')}, with base and with head.")
        before, after = kueue.simulate_both(base, head, scenario, program=program)
    except UnplayableError as error:
        why = comparison.Undecided(name, Scheduler.KUEUE, error.sentence)
        return why.to_report(), why.to_json(), True
    found = comparison.Comparison(
        name=name, base=before, head=after, base_stack=base, head_stack=head, is_timed=bool(durations)
    )
    return comparison.to_report(found), comparison.to_json(found), True


def _replay_kai(
    name: str, base: Stack, head: Stack, work: Snapshot, *, seconds: float
) -> tuple[Report, object, bool]:
    from muster.preview.whatif import kai
    from muster.preview.whatif.report import Comparison
    from muster.replay.kai_player import ensure_kai_player
    from muster.replay.player import UnplayableError

    why = kai.why_undecided(base, head, work)
    try:
        if not why:
            with progress():
                program = ensure_kai_player()
            decide = partial(kai.simulate, snapshot=work, program=program, seconds=seconds)
            with ThreadPoolExecutor() as pool:
                before, after = pool.map(decide, (base, head))
    except UnplayableError as error:
        why = error.sentence
    if why:
        sides = name, base, head, work
        return kai.undecided_report(*sides, why=why), kai.undecided_json(*sides, why=why), True
    found = Comparison(
        name=name, base=before, head=after, base_stack=base, head_stack=head, scheduler=Scheduler.KAI
    )
    return kai.to_report(found, work), kai.to_json(found, work), before.is_settled and after.is_settled


def _sides(stack: str | None, base: str, manifests: tuple[str, str] | None) -> tuple[str, Stack, Stack]:
    """What the report is called, and both sides."""
    if (stack is None) == (manifests is None) or (base and manifests):
        raise InputError("what to compare is not named.", fix="name STACK, or --manifests BASE HEAD.")
    if manifests:
        from muster.cli.manifests import load_stacks

        return load_stacks(*manifests)
    file = existing_stack(stack or "")
    with tempfile.TemporaryDirectory(prefix="muster-what-if-") as folder:
        named = bases([base] if base else [], heads([str(file)]), into=Path(folder))
        _, before = parse_stack_option(named[0])
        if str(before) == NONE:
            raise InputError(f"{file}: has no base to compare with.", fix="name one: --base FILE.")
        return stack_name(file), config.load(before), config.load(file)


def _snapshot(
    base: Stack, *, file: Path | None, kubeconfig: Path | None, context: str, synthetic: str | None
) -> Snapshot:
    if file:
        return load_snapshot(file)
    if kubeconfig:
        return fetch_snapshot(connect(kubeconfig, context=context, progress=note_list))
    running, plus, waiting = (synthetic or "").partition("+")
    if not (plus and running.isdecimal() and waiting.isdecimal()):
        raise InputError(
            f"--synthetic {synthetic}: is not two numbers.", fix="write RUNNING+WAITING, such as 200+50."
        )
    return synthetic_snapshot(base, running=int(running), pending=int(waiting))


def _durations(written: Sequence[str]) -> dict[str, float]:
    """How many seconds jobs run, by namespace; "" is every other namespace."""
    lengths: dict[str, float] = {}
    for each in written:
        namespace, _, length = each.rpartition("=")
        try:
            lengths[namespace] = parse_duration(length).total_seconds()
        except ValueError as error:
            raise InputError(f"--duration {each}: {error}.", fix="write 2h or team-a=30m.") from None
    return lengths
