"""Writes a new stack file.

Responsible for the first stack of each provider: small and commented, with placeholders that its author
replaces. Never overwrites a file.
"""

from pathlib import Path
from textwrap import wrap
from typing import Final

from muster.config.schema.keys import Key, stack_keys
from muster.errors import MusterError
from muster.model.providers import Provider
from muster.validation.identity import is_dns_label


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
    """The text of a new stack file."""
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
