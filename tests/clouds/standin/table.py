"""Which field of which API each input of a resource is, and what a change of it means.

The tables are explicit on purpose: an input that nobody has looked up is refused, not passed through.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.clouds.standin import amazon, google
from tests.clouds.standin.definition import ApiField, Kind
from tests.clouds.standin.values import Inputs, get


@dataclass(frozen=True, slots=True)
class Own:
    """An input of the provider alone that reaches no API; `why` says what it does."""

    why: str
    kind: Kind = "string"
    choices: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Pairs:
    """A mapping of the SDK that the API takes as a list of pairs at `path`."""

    path: str
    key: str = "Key"
    value: str = "Value"


Place = str | Own | Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One resource type.

    `api` is a discovery document and schema (`container.v1:NodePool`) or a botocore service and operation
    (`eks:CreateNodegroup`); a place may name another (`compute.v1:Router/nats.name`). Inputs are dotted
    paths, lists stepped through. `updates` change in place, `replaces` make a new resource: as the
    provider's schema has it (ForceNew).

    grows: of `updates`, ranges of addresses that may grow in place and are replaced otherwise.
    keeps: inputs that the cloud fills in where nothing is said (Optional and Computed in the provider's
    schema): one that is taken out of the program again stays as it is, without a word.
    refers: inputs that must name something that stands -> resource types.
    unique: the inputs that no two resources of the type may share.
    autonamed: the input that the provider fills with the resource's name and a random suffix.
    outputs: templates (outputs.py) of what the cloud adds.
    counts: outputs that grow with each update.
    brings: what comes into being with it, resource type -> the output that names it.
    follows: words for the templates, word -> (input, what is wanted of the resource that it refers to).
    seconds, timeout: how long the original takes, roughly, and how long its provider waits.
    protects: the provider refuses to delete unless its input deletionProtection says false.
    """

    token: str
    sdk: str
    api: str
    id: str
    replaces: Mapping[str, Place]
    updates: Mapping[str, Place] = field(default_factory=dict)
    grows: frozenset[str] = frozenset()
    keeps: frozenset[str] = frozenset()
    refers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unique: tuple[str, ...] = ()
    autonamed: str | None = None
    outputs: Mapping[str, Any] = field(default_factory=dict)
    counts: tuple[str, ...] = ()
    brings: Mapping[str, str] = field(default_factory=dict)
    follows: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    seconds: float = 5.0
    timeout: float = 1800.0
    protects: bool = False

    @property
    def inputs(self) -> Mapping[str, Place]:
        return {**self.replaces, **self.updates}

    def place(self, path: str) -> Place | None:
        """Where the input goes; a mapping's entries go where the mapping goes."""
        inputs = self.inputs
        while path:
            if path in inputs:
                return inputs[path]
            path = path.rpartition(".")[0]
        return None

    def stays_when_left_out(self, path: str, inputs: Inputs) -> bool:
        """Whether taking this away changes nothing: the whole of an input that the cloud fills in is gone."""
        kept = [each for each in self.keeps if f"{path}.".startswith(f"{each}.")]
        return any(get(inputs, each) is None for each in kept)

    def is_replaced_by(self, path: str) -> bool:
        while path:
            if path in self.replaces:
                return True
            if path in self.updates:
                return False
            path = path.rpartition(".")[0]
        return False


def api_fields(table: Table, place: Place) -> list[ApiField]:
    """What the API says of the value (or of the value's keys and values); NoSuchField where the table is
    wrong.
    """
    if isinstance(place, Own):
        return [ApiField(source=place.why, kind=place.kind, choices=place.choices)]
    if isinstance(place, Pairs):
        return [_field(table.api, f"{place.path}.{name}") for name in (place.key, place.value)]
    return [_field(table.api, place)]


def _field(api: str, path: str) -> ApiField:
    if "/" in path:
        api, _, path = path.partition("/")
    document, _, schema = api.partition(":")
    if "." in document:
        return google.field(document, schema, path)
    return amazon.field(document, schema, path)


def same(*paths: str) -> dict[str, Place]:
    """Inputs that have the API's own names, one or several in a text."""
    return {path: path for path in " ".join(paths).split()}


def under(mine: str, its: str, *paths: str) -> dict[str, Place]:
    """Inputs below `mine` that have the API's own names below `its`, one or several in a text."""
    return {f"{mine}.{path}": f"{its}.{path}" for path in " ".join(paths).split()}
