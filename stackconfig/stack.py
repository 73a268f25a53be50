"""Reads a whole stack.

Decides which keys a stack has and that shape and rules are told in one go. Leaves each key to its reader.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from model.priorities import Priority
from model.rules import check
from model.stack import ArtifactSource, PodsReady, Scheduler, Stack
from model.violations import Violation, at, suggestion
from stackconfig.clusters import read_cluster
from stackconfig.departments import read_department
from stackconfig.document import NAMESPACE, Document, decoded, read
from stackconfig.errors import ConfigError
from stackconfig.gang import read_gang
from stackconfig.pools import read_pool
from stackconfig.section import Section

KEYS: Final = (
    "cluster",
    "pools",
    "scheduler",
    "priorities",
    "departments",
    "gangAdmission",
    "podsReady",
    "artifacts",
)


def load(path: str | Path) -> Stack:
    """The stack that the file at `path` says; ConfigError with every mistake otherwise."""
    return _stack(read(Path(path)))


def parse(values: Mapping[str, object], *, source: str | Path) -> Stack:
    """The stack that the engine's values say. Keys carry the namespace (`muster:pools`) or not; an object
    may be its JSON text. `source` is the stack file, read for line marks alone: it need not exist.
    """
    path = Path(source)
    marks = read(path) if path.is_file() else Document(str(source))
    named = {key if ":" in key else f"{NAMESPACE}{key}": decoded(value) for key, value in values.items()}
    ours = {key: value for key, value in named.items() if key.startswith(NAMESPACE)}
    return _stack(Document(str(source), ours, marks.lines))


def examine(document: Document) -> tuple[Stack | None, list[Violation]]:
    """The stack, if its shape holds, and every violation, warnings included. Rules are asked of sound parts
    only.
    """
    found = list(document.violations)
    if found and not document.values:
        return None, found
    root = _Root(document.values, found)
    stack = root.stack()
    if stack is not None:
        found.extend(check(stack))
    return stack, found


def _stack(document: Document) -> Stack:
    stack, found = examine(document)
    errors = [violation for violation in found if violation.level == "error"]
    if errors or stack is None:
        raise ConfigError(errors, source=document.source, lines=document.lines)
    return stack


class _Root:
    """The top level, whose keys carry the namespace."""

    def __init__(self, values: Mapping[str, object], found: list[Violation]) -> None:
        self._values = values
        self._found = found
        for key in values:
            if key.removeprefix(NAMESPACE) not in KEYS:
                fix = suggestion(key, [NAMESPACE + known for known in KEYS], noun="key")
                found.append(Violation(key, "is not a key that Muster knows.", fix))

    def stack(self) -> Stack | None:
        """None where the cluster or a pool could not be read: judging teams against the wrong pools would
        mislead.
        """
        top = Section(
            {key.removeprefix(NAMESPACE): value for key, value in self._values.items()}, "", self._found
        )
        cluster = read_cluster(self._section("cluster", required=True))
        entries = self._section("pools", required=True)
        pools = {
            name: read_pool(Section(value, at(entries.path, name), self._found), name, cluster)
            for name, value in entries.items()
        }
        sound = MappingProxyType({name: pool for name, pool in pools.items() if pool is not None})
        departments = self._section("departments", required=True)
        tree = [
            read_department(Section(value, at(departments.path, name), self._found), name, sound)
            for name, value in departments.items()
        ]
        priorities = self._priorities()
        gang = read_gang(
            self._values.get(f"{NAMESPACE}gangAdmission"), f"{NAMESPACE}gangAdmission", _Named(top)
        )
        scheduler = _Named(top).choice("scheduler", Scheduler, Scheduler.KUEUE)
        artifacts = _Named(top).choice("artifacts", ArtifactSource, ArtifactSource.UPSTREAM)
        ready = self._pods_ready()
        if cluster is None or len(sound) < len(pools) or scheduler is None or artifacts is None:
            return None
        return Stack(
            cluster=cluster,
            pools=tuple(sound.values()),
            departments=tuple(sorted(tree, key=lambda department: department.name)),
            priorities=priorities,
            scheduler=scheduler,
            gang_admission=gang,
            pods_ready=ready,
            artifacts=artifacts,
        )

    def _section(self, key: str, *, required: bool = False) -> Section:
        path = NAMESPACE + key
        if required and self._values.get(path) is None:
            fix = f"write `{path}:`; `python -m stackconfig new` writes a file with every key."
            self._found.append(Violation(path, "is missing.", fix))
        return Section(self._values.get(path), path, self._found)

    def _priorities(self) -> tuple[Priority, ...]:
        section = self._section("priorities")
        read = {name: section.integer(name, least=-(2**31), most=2**31 - 1) for name, _ in section.items()}
        return tuple(Priority(value, name) for name, value in read.items() if value is not None)

    def _pods_ready(self) -> PodsReady:
        section, known = self._section("podsReady"), PodsReady()
        ready = PodsReady(
            timeout=section.duration("timeout", known.timeout),
            recovery=section.duration("recovery", known.recovery),
            retries=section.integer("retries", known.retries, least=0, most=1000) or 0,
        )
        section.close()
        return ready


class _Named(Section):
    """The top level as a section: its mistakes carry the namespace."""

    def __init__(self, top: Section) -> None:
        super().__init__(dict(top.items()), "", top.found)

    def note(self, key: str, message: str, fix: str) -> None:
        self.found.append(Violation(NAMESPACE + key, message, fix))
