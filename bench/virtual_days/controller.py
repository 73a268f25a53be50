"""One life of the controller: its view, its queue and its workers over caches of its own."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
from prometheus_client import CollectorRegistry

from bench.virtual_days.server import Server
from muster.controller.gangs.broken_nodes import NodeSigns
from muster.controller.gangs.gang_state import GangObserver
from muster.controller.gangs.metrics import GangMetrics
from muster.controller.gangs.objects import NODE, PLACEHOLDER, POD, POD_TEMPLATE, PROVISIONING_REQUEST
from muster.controller.gangs.reconciler import GangReconciler
from muster.controller.gangs.requests import Requests
from muster.controller.kube.errors import KubeError
from muster.controller.kube.resource import Key
from muster.controller.kueue.executor import Executor
from muster.controller.kueue.hooks import WorkloadHooks
from muster.controller.kueue.objects import WORKLOAD, Workload
from muster.controller.kueue.pending_workloads import PendingWorkloads
from muster.controller.kueue.setup import observed, watch
from muster.controller.kueue.view import View
from muster.controller.runtime.controller import Controller, Result
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.queue import WorkQueue
from muster.model.gangpolicy import GangPolicy
from tests.unit.admission.fleet import _flavor
from tests.unit.admission.views import view_of
from tests.unit.gangs.slow_api import moment

_WORKERS: Final = 16


def read(policy: GangPolicy, held: Mapping[Any, Informer[Any]]) -> View:
    """The caches of a process that has just started: what the last one's held, read anew."""
    objects: dict[str, Any] = {
        name: held[kind].store if kind in held else () for name, kind in _CACHED.items()
    }
    flavors = [_flavor(each.name) for each in policy.flavors]
    view = view_of(policy, flavors=flavors, clock=moment, **objects)
    view.signs = NodeSigns(policy=lambda: policy, clock=moment)
    return view


def caches_of(view: View) -> dict[Any, Informer[Any]]:
    return {kind: getattr(view, name) for name, kind in _CACHED.items()}


_CACHED: Final[Mapping[str, Any]] = {
    "workloads": WORKLOAD,
    "requests": PROVISIONING_REQUEST,
    "templates": POD_TEMPLATE,
    "placeholders": PLACEHOLDER,
    "nodes": NODE,
    "pods": POD,
}


class Life:
    """From its start to its end. `errors`: what no reconcile may raise."""

    def __init__(self, server: Server, view: View) -> None:
        metrics = Metrics(CollectorRegistry())
        self.events: Counter[str] = Counter()
        self.errors: list[Exception] = []
        self.view = view
        self.pending = PendingWorkloads()
        executor = Executor(
            cast(Any, server),
            events=cast(Any, SimpleNamespace(event=self._event)),
            requests=Requests(cast(Any, server), caches=server.caches),
            pending=self.pending,
            slice_of=view.slice_of,
            is_current=lambda: True,
            clock=moment,
        )
        queue = WorkQueue[Key]("gangs", metrics=metrics)
        self.gangs = GangReconciler(WorkloadHooks(view, executor), enqueue=queue.add, clock=moment)
        self.observer = GangObserver(GangMetrics(metrics.registry), partial(observed, view), clock=moment)
        reconcile = self.observer.around(self._reconcile, writes=lambda: self.gangs.applied)
        self.controller = Controller(
            "gangs", reconcile, metrics=metrics, workers=_WORKERS, queue=queue, about=view.workloads
        )
        view.split_gangs.enqueue = queue.add
        self._watch()
        self._task: asyncio.Task[None] | None = None

    def _watch(self) -> None:
        view = self.view
        view.workloads.store.listen(self._delivered)
        watch(self.controller, self.gangs, view)
        caches: tuple[Informer[Any], ...] = (
            *(view.workloads, view.requests, view.templates, view.placeholders),
            *(view.nodes, view.pods, view.queues, view.flavors),
        )
        for informer in caches:
            informer.relisted("test", 0)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self.controller.run())

    async def kill(self) -> None:
        """Between any two of its steps."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _reconcile(self, key: Key) -> Result:
        try:
            return await self.gangs.reconcile(key)
        except KubeError:
            raise
        except Exception as error:
            self.errors.append(error)
            return None

    def _event(self, about: Any, kind: str, **rest: str) -> None:
        self.events[rest["reason"]] += 1

    def _delivered(self, before: Workload | None, after: Workload | None) -> None:
        """As the watch delivers them, deleted ones too."""
        if after is not None:
            templates = [
                {"name": each.name, "template": msgspec.to_builtins(each.template)}
                for each in after.spec.pod_sets
            ]
            body = {"metadata": msgspec.to_builtins(after.metadata), "spec": {"podSets": templates}}
            self.pending.on_event(after, msgspec.Raw(msgspec.json.encode(body)))
        elif before is not None:
            gone = msgspec.structs.replace(before.metadata, deletion_timestamp=moment())
            self.pending.on_event(msgspec.structs.replace(before, metadata=gone), msgspec.Raw(b"{}"))

    def tables(self) -> Counter[str]:
        """How many entries each table in its memory has, other than the caches of the API's objects."""
        parts = (self.view.split_gangs, self.view.competing_gangs, self.pending, self.gangs, self.observer)
        found: Counter[str] = Counter()
        for part in (*parts, self.controller.queue):
            for name, count in _tables(part, type(part).__name__, set()):
                found[name] += count
        return found


def _tables(part: object, name: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    """The collections in it and in the parts of the controller that it is made of."""
    if id(part) in seen or isinstance(part, Informer | View):
        return
    seen.add(id(part))
    slots = [slot for each in type(part).__mro__ for slot in getattr(each, "__slots__", ())]
    held = {**getattr(part, "__dict__", {}), **{slot: getattr(part, slot, None) for slot in slots}}
    for attribute, value in held.items():
        here = f"{name}.{attribute.lstrip('_')}"
        if isinstance(value, dict | set | list | tuple) or hasattr(value, "appendleft"):
            yield here, len(cast(Any, value))
            values = value.values() if isinstance(value, dict) else cast(Any, value)
            if attribute in ("_lanes", "_of", "_waiting"):
                for each in list(values):
                    if isinstance(each, dict | set | list) or hasattr(each, "appendleft"):
                        yield f"{here}.entries", len(cast(Any, each))
                    else:
                        yield from _tables(each, f"{here}.entries", seen)
        elif type(value).__module__.startswith("muster.controller.") and attribute not in ("_hooks", "hooks"):
            yield from _tables(value, here, seen)
