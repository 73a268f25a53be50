"""Where one test plays: the plane, a proxy, managers, and the oracle over all that has happened meanwhile."""

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from muster.model.names import LAST_FAILURE_ANNOTATION
from tests.faults import ending, gangs, history, oracle, reservation
from tests.faults.breaks import Calm
from tests.faults.managers import Manager
from tests.faults.plane import KUEUE, PROVISIONING, Plane, items, tail
from tests.faults.proxy import Proxy
from tests.waiting import eventually

_NUMBERS: Final = itertools.count()
_KINDS: Final = (
    f"{KUEUE}/namespaces/{{}}/workloads",
    f"{PROVISIONING}/namespaces/{{}}/provisioningrequests",
    "/api/v1/namespaces/{}/podtemplates",
)


@dataclass(slots=True)
class Stage:
    """`undisturbed`: the end of a story without faults. `began`: where the oracle begins to look."""

    plane: Plane
    proxy: Proxy
    folder: Path
    undisturbed: dict[str, Any] = field(default_factory=dict)
    began: int = 0
    _managers: list[Manager] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.began = history.revision(self.plane.server.etcd)

    @property
    def log(self) -> Path:
        return self.folder / "manager.log"

    def manager(self, **more: Any) -> Manager:
        """One that meets the faults of our proxy."""
        made = Manager(self.plane.manager_kubeconfig(self.proxy.url), self.log, **more)
        self._managers.append(made)
        return made

    def eventually(self, what: str, reached: Callable[[], Any]) -> Any:
        return eventually(what, reached, told=self._told)

    def _told(self) -> str:
        """What a person would look at."""
        server = self.plane.server
        workloads = items(server, f"{KUEUE}/workloads")
        names = ((each["metadata"]["name"], each["metadata"]["namespace"]) for each in workloads)
        others = (*items(server, f"{KUEUE}/clusterqueues"), *items(server, f"{KUEUE}/admissionchecks"))
        alive = ("does not run", "runs")[self.plane.kueue.is_alive]
        return "\n".join(
            (
                *(f"{name}: {ending.picture(self.plane, name, team)}" for name, team in names),
                *(f"{each['metadata']['name']}: {each.get('status')}" for each in (*workloads, *others)),
                f"undisturbed: {self.undisturbed}",
                str(self.proxy.plan),
                f"manager:\n{tail(self.log)}",
                f"Kueue {alive}:\n{tail(server.folder / 'kueue' / 'kueue.log', 3000)}",
            )
        )

    def is_open(self) -> bool:
        """Kueue says that it gives quota in all of its queues."""
        return all(gangs.holds(each, "Active") for each in items(self.plane.server, f"{KUEUE}/clusterqueues"))

    def opens(self) -> None:
        """Until Kueue has seen that our check is active. Who comes in that moment may wait until anything
        else happens (docs/known-issues.md).
        """
        self.eventually("Kueue has opened its queues", self.is_open)

    def submit(self, team: str = gangs.TEAM, **more: Any) -> str:
        """A gang of its own name; a server that has just started takes it a little later."""
        name = f"gang-{next(_NUMBERS)}"

        def submitted() -> bool:
            with suppress(OSError):  # HTTPError is one
                gangs.submit(self.plane, name, team=team, **more)
            return gangs.read(self.plane, name, team) is not None

        self.eventually(f"{name} is submitted", submitted)
        return name

    def runs(self, *names: str, team: str = gangs.TEAM) -> None:
        """Until they run, with all that they were promised and nothing else."""
        for name in names:
            self.eventually(f"{name} is admitted", partial(gangs.is_admitted, self.plane, name, team))
            self.eventually(f"{name} ends as undisturbed", partial(self.stands, name, team))

    def stands(self, name: str, team: str = gangs.TEAM) -> bool:
        """It has come to the end of its story, as if nothing had happened."""
        return ending.picture(self.plane, name, team) == self.undisturbed

    def waits(self, *names: str, team: str = gangs.TEAM) -> None:
        """Until each of them gathers, its check says until when, and nothing lies about that nobody has a
        right to: for any moment at which a manager lives and gangs wait.
        """
        for name in names:
            self.eventually(f"{name} says until when it waits", partial(self._says_its_end, name, team))
        self.eventually("nothing is owed", lambda: not ending.leftovers(self.plane))

    def _says_its_end(self, name: str, team: str) -> bool:
        workload = gangs.read(self.plane, name, team)
        is_told = workload is not None and reservation.says_its_end(workload)
        return is_told and oracle.has_said(self.plane, workload or {}, since=self.began)

    def end(self, *names: str, team: str = gangs.TEAM) -> None:
        """Until nothing is left of them."""
        for name in names:
            gangs.end(self.plane, name, team)
        self.eventually("nothing is left", lambda: not ending.leftovers(self.plane))

    def completes(self, *names: str, team: str = gangs.TEAM) -> None:
        """They run and end, and the oracle has seen nothing wrong."""
        self.runs(*names, team=team)
        self.end(*names, team=team)
        self.judge()

    def released_for(self, name: str) -> set[str]:
        """All that the gang was ever released for."""
        etcd = self.plane.server.etcd
        seen = history.changes(etcd, since=self.began, until=history.revision(etcd))
        held = (each.after for each in seen if each.after and each.name.endswith(f"/{name}"))
        notes = (each["metadata"].get("annotations") or {} for each in held)
        return {each[LAST_FAILURE_ANNOTATION] for each in notes if LAST_FAILURE_ANNOTATION in each}

    def judge(self) -> None:
        """The oracle over everything since the test began."""
        found = ending.leftovers(self.plane)
        assert not found, f"left over: {found}"
        oracle.check(self.plane, since=self.began)

    def finish(self) -> None:
        """No manager writes any more, and what the last of them wrote is judged too."""
        for manager in self._managers:
            manager.end()
        oracle.check(self.plane, since=self.began)

    def clear(self) -> None:
        """For the next test, whatever this one has left."""
        try:
            self.finish()
        finally:
            self.plane.mend()
            self.proxy.plan = Calm()
            eventually("the stage is empty", self._cleared)

    def _cleared(self) -> bool:
        for team in ("team-a", "team-b"):
            for kind in _KINDS:
                self.plane.server.call("DELETE", kind.format(team))
        return True
