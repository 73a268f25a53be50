"""One stand-in cloud: what stands in it, how long its operations take, what goes wrong in them.

Everything runs on one event loop. An operation, once begun, goes on without its caller, as in the originals:
a `pulumi` that is killed leaves behind what it asked for.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.clouds.standin.faults import Fault, Ordered, said
from tests.clouds.standin.outputs import completed, rendered
from tests.clouds.standin.table import Table
from tests.clouds.standin.values import Inputs

# What one resource may be called by in another's input.
_NAMES = ("id", "name", "selfLink", "arn", "email", "member", "keyId", "allocationId", "url")
# How much of a cloud's second passes here in a second; a cluster of ten minutes takes two thirds of one.
PACE = 900.0


class Refused(Exception):
    """The API says no and nothing has changed."""


class Unfinished(Exception):
    """The API said yes and the provider gave up waiting for `made`, or it is not well."""

    def __init__(self, reason: str, made: Standing) -> None:
        super().__init__(reason)
        self.made = made


@dataclass(slots=True)
class Standing:
    """A resource in the cloud. `ready`: its operation is over; `ends`: when it will be, by the loop's clock.
    `wrong`: what it suffers from.
    """

    table: Table
    id: str
    inputs: dict[str, Any]
    added: dict[str, Any]
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    ends: float = 0.0
    wrong: str | None = None

    @property
    def outputs(self) -> dict[str, Any]:
        return completed(self.inputs, self.added)

    @property
    def names(self) -> set[str]:
        outputs = self.outputs
        said = {outputs.get(key) for key in _NAMES}
        return {self.id, *(name for name in said if isinstance(name, str))}


@dataclass(slots=True)
class Cloud:
    """`name` is gcp or aws. `handed` are the values that outputs may take besides inputs: account, project,
    endpoint and certificate of the cluster that is handed out. `given` stands without having been made
    here: (resource type, id or name). `log` is every change that was asked for, in order. `takes_deprecated`:
    it still gives this customer what it has deprecated.
    """

    name: str
    handed: dict[str, str] = field(default_factory=dict)
    given: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    standing: dict[tuple[str, str], Standing] = field(default_factory=dict)
    faults: list[Ordered] = field(default_factory=list)
    log: list[tuple[str, str, str]] = field(default_factory=list)
    pace: float = PACE
    takes_deprecated: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _made: int = 0

    def of(self, token: str) -> list[Standing]:
        return [each for (kind, _), each in self.standing.items() if kind == token]

    def find(self, token: str, name: Any) -> Inputs | None:
        """The inputs of what stands under this id or name, None where nothing does."""
        if (token, str(name)) in self.given:
            return self.given[token, str(name)]
        bare = str(name).partition(":")[2] if str(name).startswith("serviceAccount:") else str(name)
        for each in self.of(token):
            if {bare, str(name)} & each.names:
                return each.inputs
        for each in self.standing.values():
            if name in at(each.outputs, each.table.brings.get(token, "")):
                return {}
        return None

    def fault(self, table: Table, name: str) -> Fault | None:
        for ordered in self.faults:
            if ordered.token == table.token and ordered.name in name:
                return ordered.fault
        return None

    async def create(self, table: Table, inputs: Inputs, *, urn: str, patience: float) -> Standing:
        """Begins the operation and waits for its end, `patience` of the cloud's seconds at most."""
        label = label_of(table, inputs, urn)
        fault = self.fault(table, label)
        if fault in (Fault.QUOTA, Fault.DENIED):
            raise Refused(said(self.name, fault, label))
        self._refuse_dangling(table, inputs)
        self._refuse_twin(table, inputs)
        self._made += 1
        token = hashlib.sha256(f"{self.name}{self._made}{urn}".encode()).hexdigest()[:17]
        id_, added = rendered(
            table, inputs, hex=token, handed={**self.handed, **self._followed(table, inputs)}
        )
        if (table.token, id_) in self.standing:
            raise Refused(self._exists(table, id_))
        made = Standing(table, id_, dict(inputs), added)
        self.standing[table.token, id_] = made
        self.log.append(("create", table.token, label))
        late = patience * 1.5 if fault is Fault.STALL else 0
        made.ends = asyncio.get_running_loop().time() + (table.seconds + late) / self.pace
        self._begin(self._operate(made, fault, label))
        await self._wait(made, patience)
        return made

    async def update(self, made: Standing, inputs: Inputs, *, patience: float) -> Standing:
        await self.settle(made, patience=patience)
        self._refuse_dangling(made.table, inputs)
        label = label_of(made.table, inputs, "")
        fault = self.fault(made.table, label)
        if fault in (Fault.QUOTA, Fault.DENIED):
            raise Refused(said(self.name, fault, label))
        self.log.append(("update", made.table.token, label))
        made.inputs = dict(inputs)
        made.added |= {name: made.added[name] + 1 for name in made.table.counts}
        return made

    async def settle(self, made: Standing, *, patience: float) -> None:
        """Waits for an operation that an earlier run began, and says what is wrong with the resource."""
        if not made.ready.is_set():
            await self._wait(made, patience)
        if made.wrong:
            fault = self.fault(made.table, label_of(made.table, made.inputs, ""))
            if fault is not Fault.BROKEN:
                made.wrong = None
        if made.wrong:
            raise Unfinished(made.wrong, made)

    async def delete(self, made: Standing) -> None:
        users = sorted(f"{user.table.token} {user.id}" for user in self._users(made))
        if users:
            raise Refused(self._in_use(made, users))
        if made.inputs.get("deletionProtection", made.table.protects):
            raise Refused(
                "Cannot destroy: deletionProtection is true (the provider's default). Set it to false and "
                "update before destroying"
            )
        self.log.append(("delete", made.table.token, label_of(made.table, made.inputs, "")))
        await asyncio.sleep(made.table.seconds / 2 / self.pace)
        self.standing.pop((made.table.token, made.id), None)

    # What it is made of

    async def _operate(self, made: Standing, fault: Fault | None, label: str) -> None:
        await asyncio.sleep(made.ends - asyncio.get_running_loop().time())
        if fault is Fault.BROKEN:
            made.wrong = said(self.name, fault, label)
        made.ready.set()

    async def _wait(self, made: Standing, patience: float) -> None:
        """Whether it is over in time is reckoned, not measured: a busy machine makes no cloud slow."""
        if made.ends - asyncio.get_running_loop().time() > patience / self.pace:
            await asyncio.sleep(patience / self.pace)
            raise Unfinished(said(self.name, Fault.STALL, label_of(made.table, made.inputs, "")), made)
        await made.ready.wait()
        if made.wrong:
            raise Unfinished(made.wrong, made)

    def _followed(self, table: Table, inputs: Inputs) -> dict[str, str]:
        words = {}
        for word, (path, wanted) in table.follows.items():
            for value in at(inputs, path)[:1]:
                others = [self.find(token, value) or {} for token in table.refers[path]]
                words[word] = str(next((other[wanted] for other in others if wanted in other), ""))
        return words

    def _begin(self, operation: Any) -> None:
        task = asyncio.ensure_future(operation)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refuse_dangling(self, table: Table, inputs: Inputs) -> None:
        for path, tokens in table.refers.items():
            for value in at(inputs, path):
                if not any(self.find(token, value) is not None for token in tokens):
                    raise Refused(f"{path}: {value!r} does not exist ({', '.join(tokens)})")

    def _refuse_twin(self, table: Table, inputs: Inputs) -> None:
        if not table.unique:
            return
        wanted = [inputs.get(name) for name in table.unique]
        for other in self.of(table.token):
            if [other.inputs.get(name) for name in table.unique] == wanted:
                raise Refused(self._exists(table, other.id))

    def _users(self, made: Standing) -> Iterator[Standing]:
        for other in self.standing.values():
            for path, tokens in other.table.refers.items():
                if made.table.token in tokens and {*map(str, at(other.inputs, path))} & made.names:
                    yield other

    def _exists(self, table: Table, id_: str) -> str:
        if self.name == "gcp":
            return f"googleapi: Error 409: Already exists: {id_}., alreadyExists"
        return f"operation error: ResourceInUseException: {table.token} already exists with name: {id_}"

    def _in_use(self, made: Standing, users: list[str]) -> str:
        if self.name == "gcp":
            return f"googleapi: Error 400: {made.id} is in use by {', '.join(users)}, resourceInUse"
        return f"api error DependencyViolation: {made.id} has a dependent object: {', '.join(users)}"


def at(inputs: Any, path: str) -> list[Any]:
    """Every value at a dotted path, through lists."""
    if isinstance(inputs, list):
        return [found for each in inputs for found in at(each, path)]
    if not path:
        return [] if inputs is None else [inputs]
    if not isinstance(inputs, Mapping):
        return []
    head, _, rest = path.partition(".")
    return at(inputs.get(head), rest)


def label_of(table: Table, inputs: Inputs, urn: str) -> str:
    """What a person would call the resource."""
    for name in ("name", "nodeGroupName", "clusterName", "accountId", "repositoryId"):
        if isinstance(inputs.get(name), str):
            return str(inputs[name])
    return urn.rpartition("::")[2] or table.token
