"""One process: its caches, controllers and servers, and its shutdown.

Caches and servers run on every replica, controllers on the leader only. Anything that ends unexpectedly ends
the process with an error, so that Kubernetes restarts it. On SIGTERM the reconciles in progress get `GRACE`
seconds; if the program is being uninstalled, the leader then runs the uninstall handlers; last, the lease is
released.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any

import structlog

from muster.controller.kube.client import Client, Selection
from muster.controller.kube.reflector import OnEvent
from muster.controller.kube.resource import Resource, T
from muster.controller.runtime.controller import Controller, Reconcile
from muster.controller.runtime.events import EventRecorder
from muster.controller.runtime.health import Health
from muster.controller.runtime.informer import Cached, Informer
from muster.controller.runtime.lease import LeaderElection
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.queue import K, WorkQueue
from muster.controller.runtime.removal import Removal
from muster.controller.runtime.spans import Traces
from muster.controller.runtime.store import IndexFunction
from muster.controller.runtime.traces import NO_TRACES

GRACE = 12.0
"""Seconds for the reconciles under way at the end."""

UNINSTALL_TIMEOUT = 36.0
"""Seconds for the uninstall handlers. Then come the lease (4 s), Events and traces (3 s each): together with
GRACE less than the 60 s that the manager's pod gets.
"""

FLUSH_TIMEOUT = 3.0

Run = Callable[[], Coroutine[Any, Any, None]]


class UnexpectedEnd(Exception):
    """A task that never ends has ended."""


class Manager:
    """Collects the parts of a process, then runs them. Without an `election` every replica runs the
    controllers.
    """

    def __init__(
        self,
        client: Client,
        *,
        metrics: Metrics,
        health: Health,
        events: EventRecorder,
        election: LeaderElection | None = None,
        grace: float = GRACE,
        lame_duck: float = 0.0,
        traces: Traces = NO_TRACES,
        removal: Removal | None = None,
        reads_events: bool = False,
        deletes_without_quota: int | None = None,
        makes_compute_domains: bool = False,
        closes_nodes: bool = False,
        gated_kinds: Collection[str] = (),
    ) -> None:
        """`reads_events`: whether its account may read what autoscalers say about our placeholders.
        `deletes_without_quota`: seconds that a finished job may keep its pods for, where those without quota
        are deleted. `makes_compute_domains`: whether it may make NVIDIA's ComputeDomains for gangs.
        `closes_nodes`: whether it may set broken nodes aside. `gated_kinds`: the work beside Ray's whose
        pods wait at the gate, with KAI.
        """
        self.traces, self.reads_events = traces, reads_events
        self.deletes_without_quota = deletes_without_quota
        self.makes_compute_domains = makes_compute_domains
        self.closes_nodes, self.gated_kinds = closes_nodes, gated_kinds
        self.metrics, self.health, self.events = metrics, health, events
        self.reader = client
        self.client = client.guarded(election.check) if election else client
        self._election = election
        self._led_from: dict[str, asyncio.Task[str]] = {}
        self._compared: list[Informer[Any]] = []
        self._grace, self._lame_duck = grace, lame_duck
        self._stopping = False
        health.ready_when("process", lambda: "stopping" if self._stopping else None)
        self._informers: list[Informer[Any]] = []
        self._needed: list[Informer[Any]] = []
        self._controllers: list[Controller[Any]] = []
        self._services: dict[str, Run] = {"events": events.run}
        self._removal = removal
        self._uninstall_handlers: list[Callable[[], Awaitable[None]]] = []
        self._log = structlog.get_logger("manager")

    def informer(
        self,
        resource: Resource[T],
        *,
        selection: Selection | None = None,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        on_event: OnEvent[T] | None = None,
        is_needed: bool = True,
    ) -> Informer[T]:
        """A cache of this kind, on every replica. `indexes`: name -> function from an object to its
        values. `on_event`: sees each object as the watch brings it, before the cache does. `is_needed`:
        without it the process is not ready.
        """
        informer = Informer(
            self.reader,
            resource,
            metrics=self.metrics,
            selection=selection,
            indexes=indexes,
            on_event=on_event,
        )
        self._informers.append(informer)
        if is_needed:
            self._needed.append(informer)
            self.health.ready_when(f"cache {resource}", lambda: informer.unread or None)
        return informer

    def is_stopping(self) -> bool:
        """Whether the end has begun."""
        return self._stopping

    def leads(self) -> bool:
        """Whether this process reconciles now: it holds the lease, or there is none to hold."""
        return self._election is None or self._election.leads

    def shows_all_writes(self, informer: Informer[Any]) -> bool:
        """Whether no other replica can have written what this cache does not show: this process leads, and
        the cache has come to where its collection was after it began to. Never without an election. The
        lease's own version would not do: each kind may have an etcd of its own, which counts for itself.
        """
        if self._election is None or not self._election.leads:
            return False
        name = str(informer.resource)
        looked = self._led_from.get(name)
        if looked is None or (looked.done() and (looked.cancelled() or looked.exception() is not None)):
            self._led_from[name] = asyncio.ensure_future(self.reader.latest_version(informer.resource))
            return False
        return looked.done() and informer.store.has_read_to(looked.result())

    def compare_writes(self, informer: Informer[Any]) -> Callable[[], bool]:
        """`shows_all_writes` of this cache. This process looks as soon as it leads: the first that ask need
        not wait for it.
        """
        self._compared.append(informer)
        return partial(self.shows_all_writes, informer)

    def controller(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        workers: int = 1,
        about: Cached[Any] | None = None,
        queue: WorkQueue[K] | None = None,
    ) -> Controller[K]:
        """A reconcile function, run on the leader only. Say what feeds it with `.watches(informer, keys)`.
        `about`: where the object of a key lies, whose uid every line that is logged meanwhile carries.
        `queue`: one made before, where the reconcile function has to add keys itself.
        """
        controller = Controller(
            name,
            reconcile,
            metrics=self.metrics,
            workers=workers,
            queue=queue,
            about=about,
            traces=self.traces,
        )
        self._controllers.append(controller)
        return controller

    def unsynced(self) -> dict[str, str]:
        """The caches that have not been read yet, and why."""
        return {str(informer.resource): informer.unread for informer in self._needed if informer.unread}

    def unserved(self) -> list[Resource[Any]]:
        """The kinds among them that the API server does not know: their caches are never read."""
        return [informer.resource for informer in self._needed if informer.is_unserved]

    def has_looked(self) -> bool:
        """Every cache has been read, or its kind is known to be missing."""
        return all(informer.has_synced or informer.is_unserved for informer in self._needed)

    def service(self, name: str, run: Run) -> None:
        """Something that runs forever on every replica, such as a webhook server. Cancelled at the end."""
        self._services[name] = run

    def on_uninstall(self, handler: Callable[[], Awaitable[None]]) -> None:
        """Run by the leader when it stops because the program is being uninstalled, not restarted."""
        self._uninstall_handlers.append(handler)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then shut down in order. Raises what ended the process otherwise."""
        await self.health.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(_forever(name, run), name=name)
                    for name, run in [
                        *((f"informer {informer.resource}", informer.run) for informer in self._informers),
                        *self._services.items(),
                    ]
                ]
                leading = tasks.create_task(self._lead(stop), name="controllers")
                await _first(stop.wait(), leading)
                self._stopping = True
                self._log.info("stopping")
                await leading
                await self.events.drained(seconds=FLUSH_TIMEOUT)
                await asyncio.sleep(self._lame_duck)
                for task in background:
                    task.cancel()
        finally:
            await self.health.stop()

    async def _lead(self, stop: asyncio.Event) -> None:
        """Wait for the lease, run the controllers under it, and give it back when stop_on to stop."""
        if not self._controllers:
            await stop.wait()
            return
        if self._election is not None and not await _first(stop.wait(), self._election.acquire()):
            await self._election.release()
            return
        for compared in self._compared:
            self.shows_all_writes(compared)
        async with asyncio.TaskGroup() as tasks:
            holder = tasks.create_task(self._election.hold(), name="lease") if self._election else None
            running = [
                tasks.create_task(controller.run(), name=f"controller {controller.name}")
                for controller in self._controllers
            ]
            await stop.wait()
            await self._drain(running)
            await self._run_uninstall_handlers()
            if holder is not None:
                holder.cancel()
        if self._election is not None:
            await self._election.release()

    async def _drain(self, running: "list[asyncio.Task[None]]") -> None:
        for controller in self._controllers:
            controller.stop()
        _, late = await asyncio.wait(running, timeout=self._grace)
        for task in late:
            self._log.warning("cut short", task=task.get_name(), after_seconds=self._grace)
            task.cancel()

    async def _run_uninstall_handlers(self) -> None:
        """Whatever fails here, the process ends."""
        if self._removal is None or not self._uninstall_handlers:
            return
        try:
            async with asyncio.timeout(UNINSTALL_TIMEOUT):
                if await self._removal.is_under_way():
                    self._log.warning("the program is being uninstalled")
                    for handler in self._uninstall_handlers:
                        await handler()
        except Exception:
            self._log.exception("uninstall handlers did not complete")


async def _forever(name: str, run: Run) -> None:
    await run()
    raise UnexpectedEnd(f"{name} has ended")


async def _first(stopped: Coroutine[Any, Any, Any], work: "Awaitable[None]") -> bool:
    """Wait for either. True when it was the work; the wait for the stop, or unfinished own work, is
    cancelled.
    """
    stopping = asyncio.ensure_future(stopped)
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait({stopping, working}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return True
        return False
    finally:
        stopping.cancel()
        if working is not work:
            working.cancel()


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set; a second signal ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_on(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_on, number)
    return stop
