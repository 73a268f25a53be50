"""A power cut at a chosen write.

Decides when: at the n-th write of the manager about gangs, or the n-th of one kind, before the server has
heard of it, or after it has written and before the manager knows. Leaves starting the next one to
`Manager.kept`.
"""

from dataclasses import dataclass

from tests.faults.breaks import Break, Call, Fault
from tests.faults.managers import Manager


@dataclass(slots=True)
class Kill:
    """The plan: the manager dies at its write `number`, and with `again` at every such multiple. `kind`: only
    these writes count, as a Call is written ("create podtemplates").
    """

    manager: Manager
    number: int
    kind: str = ""
    before: bool = False
    again: bool = False
    writes: int = 0
    kills: int = 0
    _due: Call | None = None

    @property
    def was_last(self) -> bool:
        """Whether no such write has followed, but for the one that was kept from the server, made again."""
        return self.writes == self.number + self.before

    def judge(self, call: Call) -> Break | None:
        if not call.writes or self.kind not in ("", str(call)):
            return None
        self.writes += 1
        if self.writes % self.number or (self.kills and not self.again):
            return None
        if not self.before:
            self._due = call
            return None
        self._strike()
        return Break(Fault.CUT)

    def done(self, call: Call) -> None:
        if call is self._due:
            self._strike()

    def _strike(self) -> None:
        self._due = None
        self.kills += 1
        self.manager.kill()
