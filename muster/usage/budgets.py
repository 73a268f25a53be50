"""Lets nothing more start of teams that have used their GPU-hours of the month (`muster:budgets`).

    python3 -m muster.usage.budgets --out RECORDING --order JSON

Runs beside the recorder. A round bills the month so far by the code of `muster usage` and sets `stopPolicy:
Hold` on the LocalQueues of a team with nothing left: what runs, runs on. The next month, or a larger budget,
takes it away. A recording that is missing or stale changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, start_http_server

from muster.controller.kube.client import Client
from muster.controller.kube.connection import ConnectionSettingsError, in_cluster, kubeconfig
from muster.controller.kube.errors import Conflict, Forbidden, KubeError, NotFound
from muster.controller.kube.resource import Key, Object, Resource
from muster.errors import ExitCode, MusterError
from muster.live.fields import from_json, text, texts
from muster.model import names
from muster.replay.recording import Recording, RecordingError
from muster.replay.recording_file import load_recording, older_parts
from muster.replay.watch import quiet_logs
from muster.usage.inputs import Month, Terms, format_month, month_of, read_window
from muster.usage.ledger import Quotas, book

AGENT: Final = names.BUDGETS_WRITER
ROUND_SECONDS: Final = 300.0
STALE_SECONDS: Final = 900.0
"""A recording that ends so long ago says too little of now."""
HOLD: Final = "Hold"
LOCAL_QUEUE: Final = Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", True, Object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """GPU-hours of a month. `queues`: the team's LocalQueues, each with its namespace before a slash."""

    team: str
    hours: int
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """`warn`: the share of a budget from which on its queues say how much is used."""

    budgets: tuple[Budget, ...]
    warn: float
    terms: Terms


@dataclass(frozen=True, slots=True)
class State:
    """What a LocalQueue has of us. `note` is "" for nothing to say."""

    note: str = ""
    is_held: bool = False


def hours_by_team(recording: Recording, terms: Terms, month: Month) -> Mapping[str, float]:
    """What the lines of `muster usage --by team` have for this month."""
    window = read_window(recording, month)
    ledger = book(
        terms.holds(recording, window.end),
        terms.supplies(recording, window.end),
        Quotas(own={}, roots={}),
        window,
    )
    hours: defaultdict[str, float] = defaultdict(float)
    for entry in ledger.entries:
        if entry.hold is not None:
            hours[entry.hold.team] += entry.hours
    return hours


def judge(budget: Budget, used: float, *, warn: float, month: Month) -> State:
    if used < warn * budget.hours:
        return State()
    note = f"used {used:,.0f} of {budget.hours:,} GPU-hours in {format_month(month[0])}"
    if used < budget.hours:
        return State(f"{note}; at the end of the budget nothing more starts")
    begins = datetime.fromtimestamp(month[1], UTC).date()
    return State(f"{note}; more starts from {begins} on, or with a larger `muster:budgets`", is_held=True)


def wanted(order: Order, used: Mapping[str, float], month: Month) -> dict[str, State]:
    """By LocalQueue."""
    return {
        queue: judge(budget, used.get(budget.team, 0.0), warn=order.warn, month=month)
        for budget in order.budgets
        for queue in budget.queues
    }


class BudgetMetrics:
    """Teams are those of the stack."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.used = Gauge(
            "muster_budget_used_ratio",
            "The part of its GPU-hours of the month that a team has used (`muster:budgets`). From 1 on "
            "nothing more of it starts",
            ["team"],
            registry=registry,
        )


@dataclass(slots=True)
class Keeper:
    """Reads the recording and the LocalQueues, and writes what differs."""

    recording: Path
    order: Order
    metrics: BudgetMetrics = field(default_factory=lambda: BudgetMetrics(CollectorRegistry()))

    async def run(self, client: Client, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self.round(client, now=time.time())
            except Forbidden as error:
                raise RecordingError(
                    f"{error}.",
                    fix="run `pulumi up`, which gives the recorder the rights of budgets.",
                    exit_code=ExitCode.OUTSIDE,
                ) from None
            except (KubeError, MusterError) as error:
                _say(f"budgets stay as they are, trying again in the next round: {error}")
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), timeout=ROUND_SECONDS)

    async def round(self, client: Client, *, now: float) -> None:
        month = month_of(now)
        # A part that was put aside before the month began has nothing of it that the next one has not.
        parts = sum(part.stat().st_mtime >= month[0] for part in older_parts(self.recording))
        recording = load_recording(self.recording, most_older=parts)
        if now - recording.header.end > STALE_SECONDS:
            _say("budgets stay as they are: the recording is stale")
            return
        used = hours_by_team(recording, self.order.terms, month)
        for budget in self.order.budgets:
            self.metrics.used.labels(budget.team).set(used.get(budget.team, 0.0) / budget.hours)
        states = wanted(self.order, used, month)
        async with aclosing(client.pages(LOCAL_QUEUE)) as pages:
            found = [json.loads(bytes(raw)) async for page in pages for raw in page.items or ()]
        for each in found:
            key = Key(text(each, "metadata", "namespace"), text(each, "metadata", "name"))
            notes = texts(each, "metadata", "annotations")
            note = notes.get(names.BUDGET_ANNOTATION, "")
            before = State(note, is_held=bool(note) and text(each, "spec", "stopPolicy") == HOLD)
            after = states.get(f"{key.namespace}/{key.name}", State())
            # Of a budget that the stack has just ended this process may not know yet.
            if before != after and (note or notes.get(names.WRITER_ANNOTATION) == AGENT):
                await _write(client, key, text(each, "metadata", "uid"), after)


async def _write(client: Client, key: Key, uid: str, state: State) -> None:
    """What an earlier round wrote and this one does not is taken away by the API server."""
    notes = {names.BUDGET_ANNOTATION: state.note} if state.note else {}
    body = {
        "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid, "annotations": notes},
        "spec": {"stopPolicy": HOLD} if state.is_held else {},
    }
    try:
        await client.apply(LOCAL_QUEUE, key, body, field_manager=AGENT)
    except (Conflict, NotFound) as error:
        _say(f"{key} is left as it is: {error}")
        return
    _say(f"{key}: {state.note or 'no more than the budget is used'}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m muster.usage.budgets")
    parser.add_argument("--out", type=Path, required=True, help="the recording")
    parser.add_argument("--order", type=json.loads, required=True, metavar="JSON", help="the budgets")
    parser.add_argument("--metrics", type=int, metavar="PORT", help="where to serve metrics")
    parser.add_argument("--kubeconfig", type=Path, help="a kubeconfig in JSON, for running outside a pod")
    settings = parser.parse_args(arguments)
    try:
        order, registry = from_json(Order, settings.order, "order"), CollectorRegistry()
        keeper = Keeper(settings.out, order, BudgetMetrics(registry))
        if settings.metrics is not None:
            start_http_server(settings.metrics, registry=registry)
        asyncio.run(_run(keeper, settings.kubeconfig))
    except (MusterError, ConnectionSettingsError) as error:
        _say(f"Error: {error}")
        return error.exit_code if isinstance(error, MusterError) else ExitCode.UNUSABLE
    return 0


async def _run(keeper: Keeper, path: Path | None) -> None:
    quiet_logs()
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop.set)
    connection = in_cluster() if path is None else kubeconfig(path)
    async with Client(connection, field_manager=AGENT, user_agent=AGENT) as client:
        await keeper.run(client, stop)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
