"""What happens in these days: tenants, their gangs, and everything that goes wrong."""

import asyncio
import random
import resource
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from bench.virtual_days.kueue import Gang
from bench.virtual_days.minutes import Minutes
from bench.virtual_days.service_levels import ServiceLevels
from bench.virtual_days.world import World
from muster.controller.gangs.indexes import BY_NODE
from muster.controller.gangs.objects import NODE, POD, Node
from muster.controller.gangs.retry import parse_history
from muster.controller.gangs.taints import closed_for
from muster.controller.kube.resource import Key
from muster.model.gangpolicy import GangPolicy, RetryPolicy
from muster.model.names import GKE_LEASE_LABEL
from tests.unit.admission.fleet import SPACE, Pieces
from tests.unit.admission.gang_world import CHECK, POLICY
from tests.unit.controller_runtime.virtual import now
from tests.unit.gangs.paper import flavor_policy
from tests.unit.gangs.slow_api import moment

DAY: Final = 86_400.0
HOUR: Final = 3_600.0
MINUTE: Final = 60.0
_HEADS: Final = 6
_TENANTS: Final = 5
_STUCK_AFTER: Final = 1200.0
"""Seconds for which a gang may be in a state that shows no end: an outage of the API server is shorter."""
_DRAIN: Final = 4 * DAY

HEADS = flavor_policy("cpu", 0, provisioning_class_name="", node_selector_from_details=(), gpus_per_node=0)
RULES: Final = replace(
    POLICY,
    flavors=(*POLICY.flavors, HEADS),
    queue_timeout=timedelta(hours=2),
    provision_timeout=timedelta(minutes=40),
    retry=RetryPolicy(deadline=timedelta(hours=24)),
)

_SHAPES: Final[tuple[Pieces, ...]] = (
    {"main": ("l4", 1)},
    {"main": ("l4", 4)},
    {"main": ("h100", 2)},
    {"head": ("cpu", 1), "main": ("l4", 2)},
    {"big": ("h100", 1), "small": ("l4", 1)},
    {"big": ("h100", 2), "small": ("l4", 3)},
    {"head": ("cpu", 1), "big": ("h100", 1), "small": ("l4", 2)},
    {"x": ("l4", 1), "y": ("l4", 2), "z": ("h100", 1)},
)


@dataclass(frozen=True, slots=True)
class Day:
    """One virtual day, at its end."""

    number: int
    live: int
    """Gangs that are not over."""
    finished: int
    refused: int
    starts: int
    lives: int
    objects: int
    """In the caches."""
    entries: int
    """In the controller's own tables."""
    rss_mib: float


@dataclass
class Story:
    """`policy` for the gangs; the same seed is the same story."""

    seed: int = 1
    policy: GangPolicy = RULES
    day: float = DAY
    """Virtual seconds between two samples."""
    days: list[Day] = field(default_factory=list)
    largest: dict[str, int] = field(default_factory=dict)
    """The most entries that each table had at the end of a day."""
    happened: dict[str, int] = field(default_factory=dict)
    minutes: Minutes = field(default_factory=Minutes)
    """At the end."""
    levels: ServiceLevels = field(default_factory=ServiceLevels)
    left: Counter[str] = field(default_factory=Counter)
    """Entries in the controller's tables when all gangs are over and deleted."""

    def __post_init__(self) -> None:
        self._random = Random(self.seed)  # noqa: S311  # a story, not a secret
        self._calm = False
        self._number = 0
        self._tenants: list[str] = []
        self._failures: list[BaseException] = []
        self._unended: dict[Key, tuple[str, float]] = {}

    async def run(
        self, *, until: Callable[[int], bool], told: Callable[[Day], None] = lambda _: None
    ) -> World:
        """Day after day until `until(days)`; then everything is mended and all gangs have to end."""
        random.seed(self.seed)  # The controller's queues draw their pauses of it.
        self._world = world = World(
            self.policy, random=self._random, stock={"l4": 24, "h100": 8}, heads=_HEADS
        )
        self.levels = world.levels
        for _ in range(_TENANTS):
            self._join()
        world.start_controller()
        tasks = [asyncio.ensure_future(each) for each in self._everything()]
        asyncio.get_running_loop().set_exception_handler(self._failed)
        try:
            while not until(len(self.days)):
                await asyncio.sleep(self.day)
                self._raise(tasks)
                self.days.append(self._sample())
                told(self.days[-1])
            await self._drain()
            self._raise(tasks)
            # Until the last Workload is deleted and the last node has gone.
            await asyncio.sleep(2 * HOUR)
            self._raise(tasks)
            self.minutes = self.settled()
            self.left = world.life.tables() if world.life else Counter()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await world.kill_controller()
        return world

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """In a callback of a stand-in."""
        self._failures.append(context.get("exception") or RuntimeError(context["message"]))

    def _raise(self, tasks: Iterable["asyncio.Future[None]"]) -> None:
        if self._failures:
            raise self._failures[0]
        for task in tasks:
            if task.done():
                task.result()

    async def _drain(self) -> None:
        """No more faults and no more gangs: what is there ends."""
        self._calm = True
        self._world.cloud.empty.clear()
        self._world.cloud.silent.clear()
        ends = now() + _DRAIN
        while live := self._live():
            assert now() < ends, f"stuck: {[self._state(gang) for gang in live][:5]}"
            await asyncio.sleep(10 * MINUTE)

    def _live(self) -> list[Gang]:
        found = []
        for gang in self._world.gangs.values():
            held = self._world.server.workload(gang.key)
            if held and not held.status.holds("Finished") and not parse_history(held).refused:
                found.append(gang)
        return found

    def settled(self) -> Minutes:
        self._world.account_all()
        return self._world.minutes.settled(at=now())

    # What happens

    def _everything(self) -> Iterator[Awaitable[None]]:
        yield self._watch()
        yield self._submit()
        for name, mean, one in (
            ("tenant leaves", 8 * HOUR, self._churn),
            ("gang deleted", 5 * HOUR, self._delete),
            ("preemption", 3 * HOUR, self._preempt),
            ("controller killed", 4 * HOUR, self._restart),
            ("API server down", 8 * HOUR, self._outage),
            ("pool out of stock", 6 * HOUR, self._stock_out),
            ("pool silent", 12 * HOUR, self._silence),
            ("lease revoked", 6 * HOUR, self._revoke),
            ("node lost", 2 * HOUR, self._lose_node),
            ("node broken", 2 * HOUR, self._break_node),
            ("nodes that do not last", 24 * HOUR, self._flaky),
            ("partition", 12 * HOUR, self._partition),
            ("node silent", 6 * HOUR, self._silent_node),
            ("nodes of heads gone", 12 * HOUR, self._fewer_heads),
        ):
            yield self._now_and_then(name, mean, one)

    async def _now_and_then(self, name: str, mean: float, one: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / mean))
            if not self._calm:
                self.happened[name] = self.happened.get(name, 0) + 1
                await one()

    async def _submit(self) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / (8 * MINUTE)))
            if self._calm:
                continue
            self._number += 1
            gang = Gang(
                key=Key(SPACE, f"gang-{self._number:06}"),
                tenant=self._random.choice(self._tenants),
                pieces=self._random.choice(_SHAPES),
                left=self._random.uniform(10 * MINUTE, 2 * HOUR),
                submitted=now(),
            )
            self._world.kueue.submit(gang)

    def _join(self) -> None:
        self._number += 1
        name = f"tenant-{self._number:06}"
        self._tenants.append(name)
        self._world.kueue.quota[name] = {"l4": 8, "h100": 3}

    async def _churn(self) -> None:
        """A tenant leaves with all that it has, and another one comes."""
        name = self._tenants.pop(0)
        for gang in [gang for gang in self._world.gangs.values() if gang.tenant == name]:
            self._world.forget(gang)
        del self._world.kueue.quota[name]
        self._join()

    async def _delete(self) -> None:
        if live := self._live():
            self._world.forget(self._random.choice(live))

    async def _preempt(self) -> None:
        running = [job.gang for job in self._world.jobs.running.values()]
        if running:
            self._world.kueue.evict(self._random.choice(running), "Preempted")

    async def _restart(self) -> None:
        await self._world.kill_controller()
        if self._random.random() < 0.5:
            await asyncio.sleep(self._random.uniform(1, 10 * MINUTE))
        self._world.start_controller()

    async def _outage(self) -> None:
        await self._world.lose_server(self._random.uniform(10, 5 * MINUTE))

    async def _stock_out(self) -> None:
        await self._while_in(self._world.cloud.empty, 90 * MINUTE)

    async def _silence(self) -> None:
        await self._while_in(self._world.cloud.silent, 60 * MINUTE)

    async def _while_in(self, pools: set[str], longest: float) -> None:
        pool = self._random.choice(("l4", "h100"))
        pools.add(pool)
        await asyncio.sleep(self._random.uniform(5 * MINUTE, longest))
        pools.discard(pool)
        self._world.cloud.serve(pool)

    async def _revoke(self) -> None:
        if used := [name for name, lease in self._world.cloud.leases.items() if not lease.after]:
            self._world.cloud.revoke(self._random.choice(sorted(used)))

    async def _lose_node(self) -> None:
        if nodes := self._gpu_nodes():
            self._world.lose(self._random.choice(nodes))

    async def _break_node(self) -> None:
        """Rather one that waits for its gang than one on which a gang runs, which is left alone."""
        pods = self._world.server.caches[POD].store
        nodes = self._gpu_nodes()
        waiting = [node for node in nodes if not pods.by_index(BY_NODE, node.metadata.name)]
        if nodes := waiting or nodes:
            await self._world.break_node(self._random.choice(nodes))

    async def _flaky(self) -> None:
        """For two hours the nodes of a gang die three minutes after it has begun."""
        ends = now() + 2 * HOUR
        while now() < ends and not self._calm:
            await asyncio.sleep(MINUTE)
            for key, job in list(self._world.jobs.running.items()):
                since = job.whole_since
                if (
                    zlib.crc32(key.name.encode()) % 3 == 0
                    and since is not None
                    and now() - since >= 3 * MINUTE
                ):
                    names = [node for node in job.pods.values() if node.startswith("lease-")]
                    if names and (held := self._world.cloud.node(names[0])) is not None:
                        self._world.lose(held)

    async def _partition(self) -> None:
        part = self._random.uniform(0.8, 1.0)
        nodes = [node for node in self._all_nodes() if self._random.random() < part]
        await self._quiet(nodes, self._random.uniform(3 * MINUTE, 40 * MINUTE))

    async def _silent_node(self) -> None:
        if nodes := self._gpu_nodes():
            await self._quiet([self._random.choice(nodes)], self._random.uniform(MINUTE, 20 * MINUTE))

    async def _quiet(self, nodes: list[Node], seconds: float) -> None:
        for held in nodes:
            self._world.server.set_ready(held, "Unknown")
        await asyncio.sleep(seconds)
        for held in nodes:
            again = self._world.cloud.node(held.metadata.name)
            if again is not None and again.metadata.uid == held.metadata.uid:
                self._world.server.set_ready(again, "True")

    async def _fewer_heads(self) -> None:
        for number in range(_HEADS - 1):
            self._world.remove_head_node(number)
        await asyncio.sleep(self._random.uniform(30 * MINUTE, 3 * HOUR))
        for number in range(_HEADS - 1):
            self._world.add_head_node(number)

    def _all_nodes(self) -> list[Node]:
        return sorted(self._world.server.caches[NODE].store, key=lambda node: str(node.metadata.name))

    def _gpu_nodes(self) -> list[Node]:
        return [node for node in self._all_nodes() if GKE_LEASE_LABEL in node.metadata.labels]

    # What has to hold

    async def _watch(self) -> None:
        """Every minute: what each node is for, and that every gang has an end in sight."""
        while True:
            await asyncio.sleep(MINUTE)
            self._world.check_errors()
            self._world.account_all()
            if self._world.life is None or self._world.server.is_down:
                self._unended.clear()
                continue
            live = {gang.key: self._endless(gang) for gang in self._live()}
            for key in self._unended.keys() - {key for key, why in live.items() if why}:
                del self._unended[key]
            for key, why in live.items():
                if why:
                    _, since = self._unended.setdefault(key, (why, now()))
                    state = self._state(self._world.gangs[key])
                    assert now() - since < _STUCK_AFTER, f"{why} since {since}: {state}"

    def _endless(self, gang: Gang) -> str:
        """Why this gang has no end in sight; empty where it has one."""
        world, held = self._world, self._world.server.workload(gang.key)
        if held is None or gang.tenant not in world.kueue.quota:
            return ""
        if not held.spec.active:
            retry_at = parse_history(held).retry_at
            is_late = retry_at is None or (moment() - retry_at).total_seconds() > 0
            return "it is inactive, and its next try is not near" if is_late else ""
        if held.status.holds("Admitted"):
            is_short = any(not each.status.holds("Ready") or closed_for(each) for each in self._all_nodes())
            return "" if world.jobs.is_whole(gang) or is_short else "it is admitted and does not run"
        if not held.status.holds("QuotaReserved"):
            return ""  # Its tenant's other gangs have the quota, and an end in sight.
        entry = held.check_state(CHECK)
        if entry is None or entry.state == "Ready" or "releases at" not in entry.message:
            return "it holds quota, and its check names no deadline"
        since = held.status.since("QuotaReserved")
        limits = self.policy.queue_timeout + 4 * self.policy.provision_timeout
        is_over = since is not None and moment() - since > limits
        return "it holds quota for longer than its deadlines allow" if is_over else ""

    def _state(self, gang: Gang) -> str:
        held = self._world.server.workload(gang.key)
        if held is None:
            return f"{gang.key.name}: deleted"
        entry = held.check_state(CHECK)
        conditions = {each.type: each.status for each in held.status.conditions}
        said = entry.message if entry else ""
        return f"{gang.key.name} {gang.pieces} {conditions} {said!r} {held.metadata.annotations}"

    def _sample(self) -> Day:
        world = self._world
        tables = world.life.tables() if world.life else {}
        for name, count in tables.items():
            self.largest[name] = max(count, self.largest.get(name, 0))
        return Day(
            number=len(self.days) + 1,
            live=len(self._live()),
            finished=world.ended["finished"],
            refused=world.ended["refused"],
            starts=world.starts,
            lives=world.lives,
            objects=sum(len(informer.store) for informer in world.server.caches.values()),
            entries=sum(tables.values()),
            rss_mib=rss_mib(),
        )


def rss_mib() -> float:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20
