"""What a stack registers, as the policies read it.

Responsible for turning inputs into plain values and for finding Kubernetes objects: in Muster's Bundles and
among the resources of the Kubernetes provider.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pulumi_policy import PolicyResource
from pulumi_policy.proxy import UnknownValueError

from muster.manifests import documents

BUNDLE: Final = "muster:k8s:Bundle"
RELEASES: Final = ("kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:Chart")


class Unknown:
    """A value that a preview does not know. It counts as set."""

    def __repr__(self) -> str:
        return "<unknown until the update>"


UNKNOWN: Final = Unknown()


def is_or_may_be(value: Any, wanted: object) -> bool:
    """Whether an input has the wanted value, or is still unknown; an unknown input is no violation."""
    return isinstance(value, Unknown) or value == wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource. `inputs` have UNKNOWN where a preview does not know the value."""

    urn: str
    type: str
    name: str
    inputs: Mapping[str, Any]
    is_protected: bool = False

    def at(self, *keys: str) -> Any:
        """The input at this path. None where there is none; UNKNOWN where it or a parent is unknown."""
        found: Any = self.inputs
        for key in keys:
            if isinstance(found, Unknown):
                return UNKNOWN
            if isinstance(found, list) and found:
                found = found[0]
            found = found.get(key) if isinstance(found, Mapping) else None
        return found


@dataclass(frozen=True, slots=True)
class Item:
    """A Kubernetes object and the resource that brings it."""

    urn: str
    body: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.body.get("kind", ""))

    @property
    def label(self) -> str:
        """How a message names it: `ClusterQueue/team-a`."""
        name = self.body.get("metadata") or {}
        return f"{self.kind}/{name.get('name', '?')}"

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.body.get("spec") or {}


@dataclass(frozen=True, slots=True)
class Registered:
    """Everything that one stack registers."""

    resources: tuple[Resource, ...]

    def of(self, *types: str) -> Iterator[Resource]:
        return (each for each in self.resources if each.type in types)

    def items(self, *kinds: str) -> Iterator[Item]:
        """The Kubernetes objects of these kinds, of all where none is named."""
        for resource in self.resources:
            for body in _bodies(resource):
                item = Item(resource.urn, body)
                if not kinds or item.kind in kinds:
                    yield item


def read(resources: Sequence[PolicyResource]) -> Registered:
    """From the arguments of a stack policy."""
    return Registered(
        tuple(
            Resource(
                urn=each.urn,
                type=each.resource_type,
                name=each.name,
                inputs=_plain(each.props),
                is_protected=each.opts.protect,
            )
            for each in resources
        )
    )


def _plain(value: Any) -> Any:
    """A copy without the proxies that raise on a value that a preview does not know."""
    if isinstance(value, Mapping):
        return {key: _known(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):  # a list, or the proxy of one
        return [_known(value, index) for index in range(len(value))]
    return value


def _known(holder: Any, key: Any) -> Any:
    try:
        return _plain(holder[key])
    except UnknownValueError:
        return UNKNOWN


def _bodies(resource: Resource) -> Iterator[Mapping[str, Any]]:
    if resource.type == BUNDLE:
        texts = resource.at("manifests")
        for text in texts.values() if isinstance(texts, Mapping) else ():
            if isinstance(text, str):
                yield from _objects(text)
    elif resource.type.startswith("kubernetes:") and isinstance(resource.at("kind"), str):
        yield resource.inputs


@lru_cache(maxsize=4096)
def _objects(text: str) -> tuple[Mapping[str, Any], ...]:
    """The objects of one text, as the Bundle's provider reads them. ValueError for a text that it refuses."""
    return tuple(documents(text))
