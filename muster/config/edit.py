"""Changes single values in the text of a stack file, and leaves every other byte: comments, order, style.

Responsible for where a value stands in the text. What stands in more than one place, by an alias or a merge
key, is not changed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Final

import yaml

from muster.config.document import Loader
from muster.config.schema.keys import Key, stack_keys
from muster.errors import MusterError
from muster.model.regions import Provider
from muster.validation.identities import is_dns_label

# Writes a new stack file.
# Never overwrites a file.


class ScaffoldError(MusterError):
    """A stack file could not be written."""


def write_stack(name: str, text: str, *, folder: Path) -> Path:
    """Write `folder/Pulumi.<name>.yaml`. Raises ScaffoldError for an invalid name or an existing file."""
    if not is_dns_label(name):
        raise ScaffoldError(f"{name!r} cannot be a stack's name.", fix="use at most 63 of a-z, 0-9 and -.")
    path = folder / f"Pulumi.{name}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ScaffoldError(f"{path} exists already.", fix="choose another name, or edit it.") from None
    return path


def template(name: str, provider: Provider) -> str:
    return _HEAD.format(name=name) + _POOLS[provider].format(name=name) + _teams()


def _teams() -> str:
    """The queue tree, after a comment with keys of a team as the declaration has them."""
    keys = {key.name: key for key in stack_keys() if key.parent == _TEAM}
    return _TEAMS.replace("  # @KEYS@\n", "".join(_comment(keys[name]) for name in _TEAM_KEYS))


def _comment(key: Key) -> str:
    text = f"{key.name:<11} {key.sentence}" + (f" Default: {key.default}." if key.default else "")
    wrapped = wrap(text, 110, initial_indent="  #   ", subsequent_indent="  #               ")
    return "\n".join(wrapped) + "\n"


_TEAM: Final = "departments.DEPARTMENT.teams.TEAM"
_TEAM_KEYS: Final = ("quota", "borrow", "lend", "weight", "priorities")

_HEAD: Final = """\
# Stack {name}. Check it at any time with `muster validate stacks/Pulumi.{name}.yaml`.
config:
"""

_GKE: Final = """\
  muster:cluster:
    provider: gke
    name: {name}
    region: us-central1
    # Zones that sell the machines below (`muster doctor` compares them). Without this, GKE chooses any zones.
    zones: [us-central1-a, us-central1-b, us-central1-c]
    project: my-project # yours
    # Addresses that can reach the control plane. Without this, `pulumi up` cannot reach it either.
    authorizedNetworks: {{office: 198.51.100.0/24}} # yours

  # A pool has nodes of one machine type and one capacity type:
  #   queued       all nodes of a gang at once, when the cloud has them
  #   on-demand    nodes as pods request them (the default)
  #   spot         like on-demand, but cheaper, and the cloud may reclaim them
  #   reservation  from a reservation of yours; needs `reservation: its-name`
  muster:pools:
    # Heads of gangs and CPU jobs run on the CPU pool.
    cpu: {{machine: e2-standard-8, maxNodes: 10}}
    l4: {{accelerator: nvidia-l4, machine: g2-standard-8, capacity: queued, maxNodes: 8}}
"""

_EKS: Final = """\
  muster:cluster:
    provider: eks
    name: {name}
    region: us-east-1
    zones: [us-east-1a, us-east-1b]
    # Addresses that can reach the control plane. Without this, `pulumi up` cannot reach it either.
    publicCidrs: [198.51.100.0/24] # yours

  # A pool has nodes of one machine type and one capacity type:
  #   queued          a gang waits until all its nodes are ready
  #   on-demand       nodes as pods request them (the default)
  #   spot            like on-demand, but cheaper, and the cloud may reclaim them
  #   reservation     from an on-demand capacity reservation; needs `reservation: cr-...`
  #   capacity-block  from a capacity block; needs `reservation: cr-...`
  muster:pools:
    # Heads of gangs and CPU jobs run on the CPU pool.
    cpu: {{machine: m6i.2xlarge, maxNodes: 10}}
    l4: {{accelerator: nvidia-l4, machine: g6.2xlarge, capacity: queued, maxNodes: 8}}
"""

_EXISTING: Final = """\
  # Muster installs into this cluster and makes neither the cluster nor its nodes. `context` is a context of
  # your kubeconfig. If all nodes exist already, add `autoscaler: none`.
  muster:cluster: {{provider: existing, name: {name}, context: {name}}}

  # A pool has nodes of one machine type, or of one size: in place of `machine` write
  #   node: {{cpu: 96, memory: 1Ti, gpus: 8, accelerator: nvidia-h100-80gb}}
  # Its nodes have the label `muster.dev/pool: <pool>`, and GPU nodes
  # have the taint `nvidia.com/gpu=present:NoSchedule`. Capacity is one of
  #   queued     an autoscaler answers ProvisioningRequests: all nodes of a gang at once
  #   on-demand  nodes exist already, or are made as pods request them (the default)
  muster:pools:
    # Heads of gangs and CPU jobs run on the CPU pool.
    cpu: {{machine: e2-standard-8, maxNodes: 10}}
    l4: {{accelerator: nvidia-l4, machine: g2-standard-8, capacity: queued, maxNodes: 8}}
"""

_POOLS: Final = {Provider.GKE: _GKE, Provider.EKS: _EKS, Provider.EXISTING: _EXISTING}

_TEAMS: Final = """\

  muster:scheduler: kueue

  # Work of a higher priority starts first and, within its team, preempts lower priorities.
  muster:priorities: {prod: 1000, dev: 100}

  # Teams of one department share with each other. Departments share only below a common department
  # (`departments:` below a department, to any depth). The keys of a team:
  # @KEYS@
  muster:departments:
    research:
      teams:
        team-a: {quota: {l4: 4}, borrow: {l4: 2}, weight: 2}
        # Another team is three lines:
        team-b:
          quota: {l4: 4}
          lend: {l4: 2}

  # How long a gang may wait for capacity after the cloud has accepted its request. Then all of it is
  # released. On GKE this is the wait in Google's queue: allow hours where stock is scarce.
  muster:gangAdmission: {provisionTimeout: 30m}
"""


_MERGE = "tag:yaml.org,2002:merge"


class EditError(MusterError):
    """A value that cannot be changed in place."""


class StackText:
    """The text of a stack file with the places of its values. Paths begin below `config:`."""

    def __init__(self, text: str) -> None:
        self.text = text
        loader = Loader(text)
        try:
            self._root = loader.get_single_node()
        finally:
            loader.dispose()
        self._uses = Counter(map(id, _walk(self._root, set())))

    def has(self, path: Sequence[str]) -> bool:
        """Whether the file itself has this value, in a place of its own."""
        try:
            node, rest = self._find(path)
        except EditError:
            return False
        return node is not None and not rest

    def can_write(self, path: Sequence[str]) -> bool:
        """Whether `with_value` takes the path."""
        try:
            self.with_value(path, 0)
        except EditError:
            return False
        return True

    def with_value(self, path: Sequence[str], value: int) -> str:
        """The text with this number at the path. Mappings that are missing are added."""
        node, rest = self._find(path)
        if isinstance(node, yaml.ScalarNode) and not rest and node.value:
            return f"{self.text[: node.start_mark.index]}{value}{self.text[node.end_mark.index :]}"
        # A word, such as `all`, says something about every pool.
        if not (rest and isinstance(node, yaml.MappingNode)):
            raise _no_place(path)
        return self._added(node, f"{rest[0]}: {_nested_text(rest[1:], value)}")

    def _find(self, path: Sequence[str]) -> tuple[yaml.Node | None, Sequence[str]]:
        """The deepest node on the path, and the keys below it that are missing."""
        node: yaml.Node | None = self._root
        for index, key in enumerate(("config", *path)):
            if not isinstance(node, yaml.MappingNode):
                return node, path[max(index - 1, 0) :]
            if any(each.tag == _MERGE for each, _ in node.value):
                raise _no_place(path)
            found = next((below for each, below in node.value if each.value == key), None)
            if found is None:
                return node, path[max(index - 1, 0) :]
            if self._uses[id(found)] > 1:
                raise _no_place(path)
            node = found
        return node, ()

    def _added(self, node: yaml.MappingNode, entry: str) -> str:
        if not node.value:
            place = node.end_mark.index - 1
            return f"{self.text[:place]}{entry}{self.text[place:]}"
        last = node.value[-1][1]
        end = _end(last)
        if node.flow_style:
            return f"{self.text[:end]}, {entry}{self.text[end:]}"
        stop = self.text.find("\n", end)
        stop = len(self.text) if stop < 0 else stop
        newline = "\n"
        if self.text[stop - 1] == "\r":
            stop, newline = stop - 1, "\r\n"
        indent = " " * node.value[0][0].start_mark.column
        return f"{self.text[:stop]}{newline}{indent}{entry}{self.text[stop:]}"


def _nested_text(keys: Sequence[str], value: int) -> str:
    """`16`, or `{h100: 16}` below a key that is missing."""
    text = str(value)
    for key in reversed(keys):
        text = f"{{{key}: {text}}}"
    return text


def _end(node: yaml.Node) -> int:
    """Where its text ends. The mark of a mapping in lines stands at what follows, after comments."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    return end


def _walk(node: yaml.Node | None, seen: set[int]) -> Iterator[yaml.Node]:
    """Every node as often as it is used; what is below an alias is walked once."""
    if node is None:
        return
    yield node
    if id(node) in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(id(node))
    for each in node.value:
        for below in each if isinstance(each, tuple) else (each,):
            yield from _walk(below, seen)


def _no_place(path: Sequence[str]) -> EditError:
    return EditError(
        f"{'.'.join(path)}: cannot be changed in place, because the file writes it as a word, by an alias or "
        "by a merge key.",
        fix="write it as an amount by pool in this file.",
    )
