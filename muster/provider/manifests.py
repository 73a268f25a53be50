"""The objects of a Bundle with their identities, or a list of problems.

Nothing here asks a cluster; whether a kind exists and is namespaced is `api.py`'s business.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.manifests import documents


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """An object's address. `namespace` is empty for a cluster-scoped object."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The same object in two versions of its API has one identity."""
        return self.group, self.kind, self.namespace, self.name

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where}"

    def encode(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.api_version} {self.kind} {where}"

    @classmethod
    def decode(cls, text: str) -> "Ref":
        api_version, kind, where = text.split(" ", 2)
        namespace, _, name = where.rpartition("/")
        return cls(api_version, kind, namespace, name)


@dataclass(frozen=True, slots=True)
class Item:
    """One object of a Bundle and the key of the text that it came from."""

    key: str
    ref: Ref
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the text under one key, and how to put it right."""

    key: str
    message: str


class ManifestError(Exception):
    """A Bundle that cannot be read; `problems` has the reasons, key by key."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"manifests[{problem.key!r}]: {problem.message}" for problem in problems))
        self.problems = problems


def read(manifests: Mapping[str, str]) -> list[Item]:
    """All objects of a Bundle. Raises ManifestError with every problem, not only the first."""
    items: list[Item] = []
    problems: list[Problem] = []
    seen: dict[tuple[str, str, str, str], str] = {}
    for key, text in manifests.items():
        try:
            bodies = documents(text)
        except ValueError as error:
            problems.append(Problem(key, str(error)))
            continue
        for position, body in enumerate(bodies):
            fault = _fault(body)
            if fault:
                problems.append(Problem(key, f"object {position}: {fault}"))
                continue
            ref = ref_of(body)
            if ref.identity in seen:
                problems.append(
                    Problem(key, f"{ref} is under {seen[ref.identity]!r} too. Fix: keep it in one place")
                )
                continue
            seen[ref.identity] = key
            items.append(Item(key, ref, body))
    if problems:
        raise ManifestError(problems)
    return items


def ref_of(body: Mapping[str, Any]) -> Ref:
    metadata = body["metadata"]
    return Ref(body["apiVersion"], body["kind"], metadata.get("namespace") or "", metadata["name"])


def same(one: str, other: str) -> bool:
    """Whether two texts hold the same objects, however they are written."""
    if one == other:
        return True
    try:
        return _by_identity(one) == _by_identity(other)
    except (ValueError, KeyError):
        return False


def _by_identity(text: str) -> dict[Ref, dict[str, Any]]:
    return {ref_of(body): body for body in documents(text)}


def _fault(body: Mapping[str, Any]) -> str | None:
    metadata = body.get("metadata")
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str) or not body[field]:
            return f"{field} is missing; every object needs apiVersion, kind and metadata.name"
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return f"{body['kind']} has no metadata.name (generateName cannot be applied twice); give it a name"
    if "status" in body:
        return f"{body['kind']} {metadata['name']} carries a status; leave it to the cluster"
    return None
