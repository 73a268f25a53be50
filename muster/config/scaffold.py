"""Writes a new stack file.

Decides what a first stack of each provider looks like: small, valid, commented, and true to what the cloud
can do. Leaves an existing file alone.
"""

from pathlib import Path
from typing import Final

from muster.errors import MusterError
from muster.model.providers import Provider
from muster.validation.identity import is_dns_label


class ScaffoldError(MusterError):
    """A stack file that was not written: why, and what to do."""


def write_stack(name: str, provider: Provider, *, folder: Path) -> Path:
    """Writes `folder/Pulumi.<name>.yaml`; ScaffoldError when the name is no name or the file is there
    already.
    """
    if not is_dns_label(name):
        raise ScaffoldError(f"{name!r} cannot be a stack's name: use at most 63 of a-z, 0-9 and -.")
    path = folder / f"Pulumi.{name}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template(name, provider))
    except FileExistsError:
        raise ScaffoldError(f"{path} exists already: choose another name, or edit it.") from None
    return path


def template(name: str, provider: Provider) -> str:
    """The text of a new stack file."""
    return _HEAD.format(name=name) + _POOLS[provider].format(name=name) + _TEAMS


_HEAD: Final = """\
# Stack {name}. Check it at any time with `muster validate stacks/Pulumi.{name}.yaml`.
config:
"""

_GKE: Final = """\
  muster:cluster:
    provider: gke
    name: {name}
    region: us-central1
    project: my-project # yours
    # From where the control plane answers; without it not even `pulumi up` reaches it.
    authorizedNetworks: {{office: 198.51.100.0/24}} # yours

  # A pool is nodes of one machine type, bought in one way (capacity):
  #   queued       a whole gang's nodes at once, when the cloud has them all
  #   on-demand    nodes as pods ask for them (the default)
  #   spot         the same, cheaper, and they may be taken away
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

  # A pool is nodes of one machine type, bought in one way (capacity):
  #   queued          a gang waits until all its nodes stand
  #   on-demand       nodes as pods ask for them (the default)
  #   spot            the same, cheaper, and they may be taken away
  #   reservation     from an on-demand capacity reservation; needs `reservation: cr-...`
  #   capacity-block  from a capacity block; needs `reservation: cr-...`
  muster:pools:
    # Heads of gangs and CPU jobs run on the CPU pool.
    cpu: {{machine: m6i.2xlarge, maxNodes: 10}}
    l4: {{accelerator: nvidia-l4, machine: g6.2xlarge, capacity: queued, maxNodes: 8}}
"""

_EXISTING: Final = """\
  # Somebody else makes this cluster and its nodes; Muster installs into it. `context` is one of your
  # kubeconfig's.
  muster:cluster: {{provider: existing, name: {name}, context: {name}}}

  # A pool is nodes of one machine type. Its nodes carry the label `muster.dev/pool: <pool>`, and GPU nodes
  # the taint `nvidia.com/gpu=present:NoSchedule`. Capacity is one of
  #   queued     an autoscaler answers ProvisioningRequests: a whole gang's nodes at once
  #   on-demand  nodes stand there, or come as pods ask for them (the default)
  muster:pools:
    # Heads of gangs and CPU jobs run on the CPU pool.
    cpu: {{machine: e2-standard-8, maxNodes: 10}}
    l4: {{accelerator: nvidia-l4, machine: g2-standard-8, capacity: queued, maxNodes: 8}}
"""

_POOLS: Final = {Provider.GKE: _GKE, Provider.EKS: _EKS, Provider.EXISTING: _EXISTING}

_TEAMS: Final = """\

  muster:scheduler: kueue

  # A higher priority goes first and, within its team, preempts lower ones.
  muster:priorities: {prod: 1000, dev: 100}

  # Teams of one department share with each other; departments share nothing unless one holds the others
  # (`departments:` below a department, to any depth). What a team says:
  #   quota       guaranteed to it: GPUs of a GPU pool, CPUs of a CPU pool (unsaid: its share by weight)
  #   borrow      the most it may take of what others leave unused: {pool: amount}, `all` or `none`
  #   lend        the most that others may take of its quota: {pool: amount}, `none` or `all` (the default)
  #   weight      its part when what is free is divided; 1 if nothing is said
  #   priorities  those it may use; all if nothing is said
  muster:departments:
    research:
      teams:
        team-a: {quota: {l4: 4}, borrow: {l4: 2}, weight: 2}
        # Another team is three lines:
        team-b:
          quota: {l4: 4}
          lend: {l4: 2}

  # How long a gang may wait for its capacity once the cloud has accepted it, before all of it is given
  # back. On GKE that is the wait in Google's queue: give it hours where stock is scarce.
  muster:gangAdmission: {provisionTimeout: 30m}
"""
