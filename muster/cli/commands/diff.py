"""`muster diff`."""

import os
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.options import (
    FILE,
    STACK,
    TEAM,
    MemberType,
    Written,
    assumption_options,
    context_option,
    json_option,
    manifests_option,
    stack_names,
)
from muster.cli.output import STDOUT, format_report, note_list, progress, put, put_json
from muster.cli.sides import base_option, bases, every_head, heads
from muster.cloud.price_lists import load_prices
from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import connect
from muster.live.snapshot import Snapshot, fetch_snapshot, load_snapshot
from muster.model.stack import Scheduler
from muster.preview import markdown
from muster.preview.compare.diff import StackDiff
from muster.preview.compare.replay import Replay
from muster.preview.explain import explain as explain_team
from muster.preview.explain import explain_to_json
from muster.preview.failing import FailOn, failures, require_valid_heads
from muster.preview.forge import draws_mermaid
from muster.preview.inputs import (
    InputError,
    SharedInputs,
    SideOptions,
    compare_sides,
    load_inputs,
    parse_stack_option,
)
from muster.preview.json_report import to_json
from muster.preview.report import to_report

_EXAMPLES = """
muster diff
muster diff gke-prod
muster diff gke-prod --base origin/main --fail-on loss
muster diff gke-prod --explain vision
muster diff gke-prod --head-plan plan.json --html preview.html --markdown comment.md
muster diff dev prod --base "$BASE_COMMIT" --head-plan dev=dev.json --head-plan prod=prod.json
muster diff stacks/Pulumi.new.yaml --base none
muster diff gke-prod --kubeconfig ~/.kube/config --json
muster diff --manifests origin/main queues/ --fail-on loss
kustomize build . | muster diff --manifests main:rendered.yaml -
muster diff gke-prod --replay last-month.jsonl --html replay.html
muster diff --manifests origin/main queues/ --replay last-month.jsonl
muster diff gke-prod --replay last-month.jsonl --durations x1.2 --provisioning h100=8m
"""
_CODES = {
    ExitCode.DONE: "The report was written.",
    ExitCode.FOUND: "The report was written, and the change contains what --fail-on names.",
    ExitCode.UNUSABLE: "The options or a file cannot be used. A head with mistakes is reported first.",
}


@command(examples=_EXAMPLES, codes=_CODES)
@click.argument("stacks", type=STACK, nargs=-1, metavar="[STACK]...")
@base_option
@click.option(
    "--base-plan",
    multiple=True,
    metavar="[STACK=]JSON",
    help="Output of `pulumi preview --json` before the change. May be repeated.",
)
@click.option(
    "--head-plan",
    multiple=True,
    metavar="[STACK=]JSON",
    help="Output of `pulumi preview --json` with the change. May be repeated.",
)
@manifests_option
@click.option(
    "--fail-on",
    type=MemberType(FailOn),
    multiple=True,
    help="Exit with 1 when a team loses quota, one team can newly preempt another, the plan replaces or "
    "deletes a resource or replaces nodes, the report calls the change refused, a team uses more than its "
    "new quota now, or the report's answer is not yes. May be repeated.",
)
@click.option(
    "--snapshot",
    multiple=True,
    metavar="[STACK=]FILE",
    help="What `muster snapshot` recorded: shows who uses more than the new quota now.",
)
@click.option(
    "--kubeconfig",
    multiple=True,
    metavar="[STACK=]FILE",
    help="The same, read from the cluster of this kubeconfig; nothing is written to it.",
)
@context_option
@click.option(
    "--replay",
    multiple=True,
    metavar="[STACK=]RECORDING",
    help="Play the jobs of a recording in both sides with the scheduler's own code: who would have waited "
    "longer or less, and who would have been preempted.",
)
@assumption_options
@click.option(
    "--explain",
    type=TEAM,
    metavar="TEAM",
    help="Write what the change means for this team, in place of the report: what it is guaranteed and can "
    "borrow, who can evict it, and where the figures come from.",
)
@click.option("--prices", type=FILE, metavar="FILE", help="Your prices, YAML.")
@click.option(
    "--markdown",
    "to_markdown",
    metavar="OUT",
    help="Write the report as Markdown; - is standard output, the default where that is no terminal.",
)
@click.option("--details", is_flag=True, help="Show on a terminal what the report folds, as well.")
@click.option("--html", "to_html", metavar="OUT", help="Write the report as one page of HTML.")
@json_option
def cli(
    stacks: tuple[str, ...],
    *,
    base: tuple[str, ...],
    base_plan: tuple[str, ...],
    head_plan: tuple[str, ...],
    manifests: tuple[str, str] | None,
    fail_on: tuple[FailOn, ...],
    snapshot: tuple[str, ...],
    kubeconfig: tuple[str, ...],
    context: str,
    replay: tuple[str, ...],
    grace: str,
    durations: str,
    provisioning: tuple[str, ...],
    seed: int,
    explain: str | None,
    prices: Path | None,
    to_markdown: str | None,
    to_html: str | None,
    details: bool,
    as_json: bool,
) -> ExitCode:
    """Show what a change of a stack means: quota, borrowing, preemption, pools, cost.

    STACK is the name of a stack, a file, or STACK=FILE. Without one, every stack of the project that the
    change touches is reported. The base is the same file at the commit where this branch left the default
    branch, unless --base names another. With plans the report shows which resources change, too; what the
    base's plan would change as well is listed apart.
    """
    if manifests and (stacks or base or base_plan or head_plan or prices):
        raise InputError(
            "--manifests takes the place of stacks, bases, plans and prices.",
            fix="name two sides, and none of those.",
        )
    found, base_names = heads(stacks), [*base]
    if not (stacks or manifests or base_plan):
        found, base_names = every_head(base, is_gate=bool(fail_on))
    if not (found or head_plan or manifests):
        known = ", ".join(stack_names()) or "a file"
        raise InputError("no stack is named.", fix=f"name one of {known}, or --head-plan JSON.")
    _check_outputs([to_markdown, to_html, STDOUT if as_json else None])
    written = Written(grace=grace, durations=durations, provisioning=provisioning, seed=seed)

    def shared() -> SharedInputs:
        return SharedInputs(
            prices=load_prices(prices),
            snapshots=_snapshots(snapshot, kubeconfig, context=context),
            replays=_replays(replay, written),
        )

    if manifests:
        diffs = _manifests(*manifests, shared())
    else:
        with tempfile.TemporaryDirectory(prefix="muster-diff-") as folder:
            has_files = base_names or not base_plan
            named = bases(base_names, found, into=Path(folder), is_gate=bool(fail_on)) if has_files else []
            diffs = load_inputs(
                SideOptions(side="base", files=named, plans=base_plan),
                SideOptions(side="head", files=[each.value for each in found], plans=head_plan),
                shared(),
            )
    report = (
        to_report(diffs, is_whole=bool(found) and not stacks)
        if explain is None
        else explain_team(diffs, explain)
    )
    is_drawn = draws_mermaid(os.environ)
    if to_markdown:
        put(to_markdown, markdown.format_comment(report, is_drawn=is_drawn))
    elif not (to_html or as_json):
        put(STDOUT, format_report(report, has_details=details, is_drawn=is_drawn))
    if to_html:
        # Templates take longer to load than most reports to compute.
        from muster.preview.html import format_html

        put(to_html, format_html(report))
    if as_json:
        put_json(to_json(diffs) if explain is None else explain_to_json(diffs, explain))
    _check(diffs, fail_on)
    return ExitCode.DONE


def _manifests(base: str, head: str, shared: SharedInputs) -> list[StackDiff]:
    from muster.adopt.manifests import load_manifests
    from muster.cli.manifests import load_texts, on_manifests

    named = load_texts(base, head)
    sides = {each.name: each for each in load_manifests(named.name, named.base, named.head)}
    bases, found = ({name: getattr(each, side) for name, each in sides.items()} for side in ("base", "head"))
    replays = {name: on_manifests(each) for name, each in shared.replays.items()}
    diffs = compare_sides(bases, found, replace(shared, replays=replays))
    return [sides[each.name].completed(each) for each in diffs]


def _check_outputs(outputs: Sequence[str | None]) -> None:
    if outputs.count(STDOUT) > 1:
        raise InputError("standard output takes one of --markdown, --html and --json.", fix="name files.")


def _snapshots(files: Sequence[str], kubeconfigs: Sequence[str], *, context: str) -> dict[str, Snapshot]:
    found: dict[str, Snapshot] = {}
    for value in files:
        name, path = parse_stack_option(value)
        _once(found, name)
        found[name] = load_snapshot(path)
    for value in kubeconfigs:
        name, path = parse_stack_option(value)
        _once(found, name)
        found[name] = fetch_snapshot(connect(path, context=context, progress=note_list))
    return found


def _replays(values: Sequence[str], written: Written) -> dict[str, Replay]:
    if not values:
        return {}
    from muster.replay.recording_file import load_recording

    assumptions = written.parse()
    recordings = [(name, load_recording(path)) for name, path in map(parse_stack_option, values)]
    # What builds programs takes longer to import than `--help` may, and needs an extra.
    from muster.preview.replay.both import replay

    found: dict[str, Replay] = {}
    for name, recording in recordings:
        if name in found:
            raise InputError("a stack has two recordings.", fix="name --replay once for each stack.")
        found[name] = replay(recording, programs=_player, assumptions=assumptions)
    return found


def _player(scheduler: Scheduler) -> Path:
    from muster.preview.replay.both import ensure_player_of

    with progress():
        return ensure_player_of(scheduler)


def _once(found: dict[str, Snapshot], name: str) -> None:
    if name in found:
        what = f"stack {name!r}" if name else "the only stack"
        raise InputError(
            f"{what} has two snapshots.", fix="name --snapshot or --kubeconfig once for each stack."
        )


def _check(diffs: list[StackDiff], wanted: Collection[FailOn]) -> None:
    """MusterError when a head is broken, or a change contains what `wanted` names."""
    require_valid_heads(diffs)
    found = failures(diffs, wanted)
    if found:
        raise MusterError(
            "\n".join(["the change contains what --fail-on names.", *(f"  {each}" for each in found)]),
            fix="correct the change, or have it approved and run without --fail-on.",
            exit_code=ExitCode.FOUND,
        )
