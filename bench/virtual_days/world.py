"""Everything that the controller talks to, on virtual time, and what each GPU-minute was spent on."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Final

from bench.virtual_days.cloud import Cloud, Lease
from bench.virtual_days.controller import Life, caches_of, read
from bench.virtual_days.jobs import Jobs
from bench.virtual_days.kueue import Gang, Kueue
from bench.virtual_days.minutes import USED, Minutes
from bench.virtual_days.server import Server, later
from bench.virtual_days.service_levels import ServiceLevels
from muster.controller.gangs.indexes import BY_NODE, BY_OWNER
from muster.controller.gangs.metrics import reason_of
from muster.controller.gangs.objects import NODE, POD, PROVISIONING_REQUEST, Node, ProvisioningRequest
from muster.controller.gangs.retry import parse_history
from muster.controller.gangs.taints import closed_for
from muster.controller.kube.resource import Key
from muster.controller.kueue.identity import WORKLOADS
from muster.controller.kueue.objects import WORKLOAD, Workload
from muster.controller.runtime.lease import RENEW_DEADLINE
from muster.model.gangpolicy import GangPolicy
from muster.model.names import GKE_LEASE_LABEL
from tests.unit.admission.gang_world import CHECK
from tests.unit.controller_runtime.virtual import now
from tests.unit.gangs.paper import node
from tests.unit.gangs.slow_api import moment

_KEPT: Final = 1800.0
"""Seconds for which a Workload that is over is kept."""


SIGN: Final = "AcceleratedHardwareReady"
SET_ASIDE: Final = "its node is broken and set aside"
_CLOSES: Final = 60.0
"""`brokenNodes.after`."""
_SEEN: Final = 10.0
"""Seconds in which the controller has read a sign: from the decision on, a start takes a part of one."""
_EVICTIONS: Final = {
    "AdmissionCheck": "its gang lost nodes",
    "PodsReadyTimeout": "pods of its gang had no node for too long",
}


class World:
    """Stand-ins and one life of the controller after another."""

    def __init__(self, policy: GangPolicy, *, random: Random, stock: dict[str, int], heads: int) -> None:
        self.policy, self.random = policy, random
        self.gangs: dict[Key, Gang] = {}
        self.minutes = Minutes()
        self.levels = ServiceLevels()
        self.ended: Counter[str] = Counter()
        self.broken: dict[str, float] = {}
        """Nodes with a sign, and since when; `mended`: those that have lost it, and when."""
        self.mended: dict[str, float] = {}
        self.starts = 0
        self.server = Server(caches_of(read(policy, {})))
        self.jobs = Jobs(self.server, turned=self._turned, finished=self._finished, given_up=self._given_up)
        self.kueue = Kueue(self.server, self.gangs, start=self._start, stop=self._stop)
        self.cloud = Cloud(
            self.server,
            stock,
            slow={"l4": 120.0, "h100": 480.0},
            random=random,
            bought=self._bought,
            gone=self._gone,
            released=self._released,
            is_used=self._is_used,
        )
        self.life: Life | None = None
        self.lives = 0
        for number in range(heads):
            self.add_head_node(number)

    # The controller

    def start_controller(self) -> None:
        """With caches of its own, read anew. None leads without the server, or beside another one."""
        if self.life is not None or self.server.is_down:
            return
        view = read(self.policy, self.server.caches)
        self.server.caches = caches_of(view)
        self.server.caches[WORKLOAD].store.listen(self.kueue.changed)
        self.server.caches[WORKLOAD].store.listen(self._workload_changed)
        self.server.caches[PROVISIONING_REQUEST].store.listen(self.cloud.changed)
        self.server.caches[PROVISIONING_REQUEST].store.listen(self._request_changed)
        self.life = Life(self.server, view)
        self.life.start()
        self.lives += 1
        self._turn()

    async def kill_controller(self) -> None:
        if self.life is not None:
            self.check_errors()
            await self.life.kill()
            self.life = None
            self._turn()

    async def lose_server(self, seconds: float) -> None:
        """For longer than the controller holds its lease without a renewal: its process ends."""
        self.server.is_down = True
        self._turn()
        await asyncio.sleep(RENEW_DEADLINE)
        await self.kill_controller()
        await asyncio.sleep(seconds - RENEW_DEADLINE)
        self.server.is_down = False
        self.start_controller()
        self._turn()

    def _turn(self) -> None:
        self.levels.turn(acts=self.life is not None and not self.server.is_down, at=now())

    def check_errors(self) -> None:
        if self.life is not None and self.life.errors:
            raise self.life.errors[0]

    # Nodes for heads

    def add_head_node(self, number: int) -> None:
        self.server.put(NODE, node(f"cpu-{number}", "cpu"))

    def remove_head_node(self, number: int) -> None:
        self.server.remove(NODE, Key("", f"cpu-{number}"))
        self.jobs.node_gone(f"cpu-{number}")

    # What happens to gangs

    def _workload_changed(self, before: Workload | None, after: Workload | None) -> None:
        held = after or before
        if held is None:
            return
        self.account(held.key)
        if after is None or not after.status.holds("QuotaReserved") or after.status.holds("Finished"):
            self.levels.release(held.key, at=now())
        gang = self.gangs.get(held.key)
        if after is None or gang is None:
            return
        is_new = before is None or (not parse_history(before).refused and not before.status.holds("Finished"))
        if is_new and after.status.holds("Finished"):
            self.ended["finished"] += 1
            later(_KEPT, self.forget, gang)
        elif is_new and parse_history(after).refused:
            self.ended["refused"] += 1
            later(_KEPT, self.forget, gang)

    def _request_changed(self, before: ProvisioningRequest | None, after: ProvisioningRequest | None) -> None:
        if before is not None and after is None:
            self.account_all()
        if before is None or after is None:
            return
        has_failed = any(
            after.status.holds(kind) > before.status.holds(kind) for kind in ("Failed", "CapacityRevoked")
        )
        (gang,) = WORKLOADS.keys_of(after)
        held = self.server.workload(gang)
        if has_failed and held is not None and held.status.holds("QuotaReserved"):
            self.levels.fail(gang, at=now())

    def forget(self, gang: Gang) -> None:
        if self.gangs.get(gang.key) is gang:
            self.kueue.delete(gang)
            self.account(gang.key)

    def _start(self, gang: Gang) -> None:
        self.starts += 1
        self.jobs.start(gang)
        self._check_start(gang)

    def _check_start(self, gang: Gang) -> None:
        """On no node whose sign the controller has read. A lease that it takes from another gang may have
        more nodes than it needs: one that breaks before it starts is open to its pods until it is closed.
        """
        on = self.jobs.running[gang.key].pods.values()
        for name in self.broken.keys() & set(on):
            held = self.cloud.node(name)
            lease = (
                self.cloud.nodes(held.metadata.labels[GKE_LEASE_LABEL].removeprefix("lease-")) if held else []
            )
            has_more = any(each.metadata.name not in on for each in lease)
            age = now() - self.broken[name]
            assert age < _SEEN + has_more * _CLOSES, (
                f"{gang.key.name} starts on {name}, broken for {age:.0f} s"
            )

    def _stop(self, gang: Gang) -> None:
        leases = self._leases_of(gang.key)
        self.jobs.stop(gang)
        for name in leases:
            self.cloud.unused(name)
            self._account(name)

    def _finished(self, gang: Gang) -> None:
        self._stop(gang)
        self.kueue.finish(gang)

    def _given_up(self, gang: Gang) -> None:
        self.kueue.evict(gang, "PodsReadyTimeout")

    def _turned(self, gang: Gang, is_whole: bool) -> None:
        if is_whole:
            self.minutes.run(gang.key.name, sum(gang.gpus.values()), at=now())
            if self.jobs.is_first_run(gang):
                self.levels.start(
                    self._complete_since(gang), at=now(), takes_nodes=self._takes_nodes(gang.key)
                )
        else:
            self.minutes.stop(gang.key.name, at=now())
        self.account(gang.key)

    def _complete_since(self, gang: Gang) -> Iterator[float]:
        held = self.server.workload(gang.key)
        names = self.jobs.running[gang.key].pods.values()
        yield from (self.mended[name] for name in names if name in self.mended)
        nodes = map(self.cloud.node, names)
        moments = [held.status.since("QuotaReserved") if held else None]
        moments += [each.status.since("Ready") for each in nodes if each is not None]
        yield from (now() - (moment() - each).total_seconds() for each in moments if each is not None)
        yield from (self.cloud.leases[name].unused_since for name in self._leases_of(gang.key))

    def _takes_nodes(self, key: Key) -> bool:
        """It runs on nodes that were left: by another gang, or by itself, as it does when it is preempted."""
        return any(
            (lease.gang != key or lease.after) and self._runs_on(key, lease)
            for lease in self.cloud.leases.values()
        )

    # What happens to nodes

    def _bought(self, held: Node, lease: Lease) -> None:
        self.minutes.buy(held.metadata.name, self._cause(lease), at=now())

    def _gone(self, held: Node) -> None:
        self.jobs.node_gone(held.metadata.name)
        self.minutes.give_back(held.metadata.name, at=now())
        # A pod of it may have gone to a node that was left of the same lease.
        self.account_all()

    async def break_node(self, held: Node) -> None:
        """By its cloud's agent. It is closed after a minute, and repaired or replaced some time later."""
        name = held.metadata.name
        self.broken[name] = now()
        self.server.set_condition(held, SIGN, "False")
        for seconds, is_closed in ((_CLOSES, True), (self.random.uniform(300, 2400), False)):
            await asyncio.sleep(seconds)
            if (there := self.cloud.node(name)) is not None:
                self.server.close(there, is_closed=is_closed)
                self.account_all()
        del self.broken[name]
        self.mended[name] = now()
        if (left := self.cloud.node(name)) is None:
            return
        if self.random.random() < 0.5:
            self.lose(left)
        else:
            self.server.set_condition(left, SIGN, "True")

    def lose(self, held: Node) -> None:
        """A node dies."""
        if held.metadata.labels.get(GKE_LEASE_LABEL):
            self.cloud.kill(held)

    def _leases_of(self, key: Key) -> list[str]:
        """Those that were bought for it, and those of others that it runs on."""
        return [
            name
            for name, lease in self.cloud.leases.items()
            if lease.gang == key or self._runs_on(key, lease)
        ]

    def _runs_on(self, key: Key, lease: Lease) -> bool:
        job = self.jobs.running.get(key)
        prefix = f"lease-{lease.request.key.name}-{lease.request.uid}-"
        return job is not None and any(node.startswith(prefix) for node in job.pods.values())

    def _user_of(self, lease: Lease) -> Gang | None:
        """The gang that runs on it."""
        keys = (lease.gang, *self.jobs.running)
        return next((self.gangs.get(key) for key in keys if self._runs_on(key, lease)), None)

    def _is_used(self, lease: Lease) -> bool:
        return self._user_of(lease) is not None

    def _released(self, lease: Lease) -> str:
        """Why its request is deleted now."""
        held = self.server.workload(lease.gang)
        if held is None:
            return "its gang was deleted"
        history = parse_history(held)
        if held.status.holds("Finished"):
            return "its job is done"
        if history.refused:
            return "its gang was given up"
        if not held.spec.active and history.retry_at:
            lost = "which counts as a failed try" in history.last_failure
            return (
                "its gang lost nodes soon" if lost else f"the try failed: {reason_of(history.last_failure)}"
            )
        if held.status.holds("Evicted"):
            condition = held.status.condition("Evicted")
            return _EVICTIONS.get(condition.reason if condition else "", "its gang was preempted")
        return "it came early and was given back"

    # What it costs

    def account(self, key: Key) -> None:
        """Turn the nodes of this gang to what they cost for now."""
        for name in self._leases_of(key):
            self._account(name)

    def _account(self, name: str) -> None:
        lease = self.cloud.leases[name]
        cause, idle = self._cause(lease), f"idle until the cloud takes it back: {lease.after}"
        for held in self.cloud.nodes(name):
            # Of a lease that was given back, the gang that takes it may use a part: another one, or the same.
            pods = self.server.caches[POD].store.by_index(BY_NODE, held.metadata.name)
            is_left = lease.after and not pods and self._is_used(lease)
            spent_on = idle if is_left else cause
            is_lost = closed_for(held) and spent_on != USED
            self.minutes.turn(held.metadata.name, SET_ASIDE if is_lost else spent_on, at=now())

    def account_all(self) -> None:
        for name in self.cloud.leases:
            self._account(name)

    def _cause(self, lease: Lease) -> str:
        gang, held = self.gangs.get(lease.gang), self.server.workload(lease.gang)
        if (user := self._user_of(lease)) is not None:
            return USED if self.jobs.is_whole(user) else "its gang runs and lacks a node"
        if lease.after:
            return f"idle until the cloud takes it back: {lease.after}"
        if gang is None or held is None or not held.status.holds("QuotaReserved"):
            return "its gang has lost its quota, and its request is still to be deleted"
        if held.status.holds("Admitted"):
            return "its gang starts or lacks a node"
        if self.life is None or self.server.is_down:
            return "the controller or the API server is down"
        return self._gathering(held)

    def _gathering(self, held: Workload) -> str:
        requests = self.server.caches[PROVISIONING_REQUEST].store.by_index(BY_OWNER, held.key)
        pieces = sum(pool != "cpu" for pool, _ in self.gangs[held.key].pieces.values())
        if sum(each.status.holds("Provisioned") for each in requests) < pieces:
            return "the rest of its gang is not provisioned yet"
        nodes = [node for each in requests for node in self.cloud.nodes(each.metadata.name)]
        if not all(each.status.holds("Ready") for each in nodes):
            return "a node of its gang is not Ready"
        entry = held.check_state(CHECK)
        if entry is not None and " for head" in entry.message:
            return "its head has no place"
        return "all nodes are there, and it is about to start"
