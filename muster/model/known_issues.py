"""What Muster cannot do or does not prevent, one row each in known_issues.toml, and what touches a stack."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from muster.model import names
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


_OF_CLUSTERS: Final = ("auto-mode", "channel-none", "eks", "fsx-lustre", "gke", "karpenter")


def traits_of(stack: Stack) -> dict[str, bool]:
    """Every trait that an issue may wait for: whether the stack has it."""
    mode, policy = stack.gang_admission.mode, stack.gang_admission.policy
    accelerators = {str(pool.accelerator) for pool in stack.pools if pool.is_gpu}
    resources = {pool.device for pool in stack.pools if pool.is_gpu}
    programs = (stack.kueue.install, stack.kai.install, stack.kuberay.install, stack.gpu_operator.install)
    return {
        **{name: name in stack.cluster.traits for name in _OF_CLUSTERS},
        **{each.value: each is stack.scheduler for each in Scheduler},
        "amd": names.AMD_RESOURCE in resources,
        "builtin": mode is GangMode.BUILTIN,
        "deployments": Work.DEPLOYMENT in stack.work,
        "egress-all": stack.tenancy.egress is Egress.ALL,
        "gangs": mode is GangMode.MUSTER,
        "gangs-off": mode is not GangMode.MUSTER,
        "hold": policy.on_staggered is OnStaggered.HOLD,
        "jobsets": Work.JOBSET in stack.work and stack.scheduler.traits.admits_jobs,
        "kai-sharing": stack.kai.gpu_sharing,
        "local": stack.artifacts is ArtifactSource.LOCAL,
        "namespaces-existing": stack.tenancy.namespaces is Namespaces.EXISTING,
        "neuron": names.NEURON_RESOURCE in resources,
        "next-flavor": policy.on_stock_out is OnStockOut.NEXT_FLAVOR,
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
