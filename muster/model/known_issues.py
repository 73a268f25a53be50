"""What Muster cannot do or does not prevent, one row each in known_issues.toml, and what touches a stack."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from muster.model import names
from muster.model.clusters import (
    Autoscaler,
    EksCluster,
    ExistingCluster,
    GkeCluster,
    NodeProvisioner,
    ReleaseChannel,
    StorageDriver,
)
from muster.model.gangpolicy import OnStaggered, OnStockOut
from muster.model.ray import RayAuth
from muster.model.regions import LazyTable
from muster.model.stack import ArtifactSource, GangMode, Scheduler, Stack
from muster.model.tenancy import Egress, Namespaces, TenancyMode
from muster.model.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIssue:
    """The keys of a row, which known_issues.toml explains. `section`: its table. Texts are Markdown, with
    links relative to docs/.
    """

    name: str
    section: str
    effect: str
    instead: str = ""
    when: tuple[str, ...] = ()
    fixed_in: str = ""

    def touches(self, traits: frozenset[str]) -> bool:
        return any(traits.issuperset(each.split("+")) for each in self.when)


def _rows() -> dict[str, KnownIssue]:
    text = (files("muster.model") / "known_issues.toml").read_text(encoding="utf-8")
    return {
        name: KnownIssue(name=name, section=section, **{**row, "when": tuple(row.get("when", ()))})
        for section, rows in tomllib.loads(text).items()
        for name, row in rows.items()
    }


KNOWN_ISSUES: Final[Mapping[str, KnownIssue]] = LazyTable(_rows)


def issues_of(stack: Stack) -> Iterator[KnownIssue]:
    """The open issues that a setting of the stack brings. Those of every stack are on the page alone."""
    traits = frozenset(name for name, has in traits_of(stack).items() if has)
    return (each for each in KNOWN_ISSUES.values() if not each.fixed_in and each.touches(traits))


def traits_of(stack: Stack) -> dict[str, bool]:
    """Every trait that an issue may wait for: whether the stack has it."""
    cluster, mode, policy = stack.cluster, stack.gang_admission.mode, stack.gang_admission.policy
    is_kai = stack.scheduler is Scheduler.KAI
    accelerators = {str(pool.accelerator) for pool in stack.pools if pool.is_gpu}
    resources = {pool.device for pool in stack.pools if pool.is_gpu}
    eks = cluster if isinstance(cluster, EksCluster) else None
    gke = cluster if isinstance(cluster, GkeCluster) else None
    own = cluster if isinstance(cluster, ExistingCluster) else None
    programs = (stack.kueue.install, stack.kai.install, stack.kuberay.install, stack.gpu_operator.install)
    return {
        "amd": names.AMD_RESOURCE in resources,
        "auto-mode": eks is not None and eks.autoscaler is NodeProvisioner.AUTO_MODE,
        "builtin": mode is GangMode.BUILTIN,
        "deployments": Work.DEPLOYMENT in stack.work,
        "egress-all": stack.tenancy.egress is Egress.ALL,
        "eks": eks is not None,
        "fsx": eks is not None and StorageDriver.FSX_LUSTRE in eks.storage.drivers,
        "gangs": mode is GangMode.MUSTER,
        "gangs-off": mode is not GangMode.MUSTER,
        "gke": gke is not None,
        "hold": policy.on_staggered is OnStaggered.HOLD,
        "jobsets": Work.JOBSET in stack.work and not is_kai,
        "kai": is_kai,
        "kai-sharing": is_kai and stack.kai.gpu_sharing,
        "karpenter": (eks is not None and eks.autoscaler is NodeProvisioner.KARPENTER)
        or (own is not None and own.autoscaler is Autoscaler.KARPENTER),
        "kueue": not is_kai,
        "local": stack.artifacts is ArtifactSource.LOCAL,
        "namespaces-existing": stack.tenancy.namespaces is Namespaces.EXISTING,
        "neuron": names.NEURON_RESOURCE in resources,
        "next-flavor": policy.on_stock_out is OnStockOut.NEXT_FLAVOR,
        "no-channel": gke is not None and gke.release_channel is ReleaseChannel.NONE,
        "own-programs": False in programs,
        "placeholders": bool(stack.placeholder_pools),
        "queued": bool(stack.queued_pools),
        "rack": any(name.startswith("nvidia-gb") for name in accelerators),
        "ray-preferred": stack.ray.auth is not RayAuth.REQUIRED,
        "recording-volume": stack.recording.enabled and not stack.recording.ephemeral,
        "serving": any(kind.serves for kind in stack.work_kinds),
        "split": mode is GangMode.MUSTER and len([pool for pool in stack.gang_pools if pool.is_gpu]) > 1,
        "tenancy-open": stack.tenancy.mode is not TenancyMode.ENFORCE,
        "topologies": bool(stack.kueue.topologies),
        "tpu": names.TPU_RESOURCE in resources,
        "trainjobs": Work.TRAINJOB in stack.work,
    }
