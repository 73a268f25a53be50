"""Makes the ComputeDomain of each gang that claims channels of one: NVLink across the machines of a rack.

A job claims the ResourceClaimTemplate that is named after it (`compute_domain_template`). NVIDIA's driver
makes that template for the domain, and Kueue gives a Workload no quota before its templates exist: so the
domain comes with the Workload and not with its capacity. The job owns it, through each of its Workloads, and
garbage collection removes it.

Source: https://github.com/NVIDIA/k8s-dra-driver-gpu at 22407113, api/nvidia.com/resource/v1beta1 and
cmd/compute-domain-controller, read 2026-11-27.
"""

from collections.abc import Iterable
from typing import Any, Final

from muster.controller.gangs.actions import EmitEvent
from muster.controller.gangs.create_errors import is_rejection
from muster.controller.gangs.owner import emit_event
from muster.controller.kube.client import Client
from muster.controller.kube.errors import AlreadyExists, ApiError
from muster.controller.kube.resource import Key, Object, OwnerReference, Resource
from muster.controller.kueue.identity import WORKLOADS
from muster.controller.kueue.objects import Workload
from muster.controller.runtime.controller import RequeueAfter, Result
from muster.controller.runtime.events import EventRecorder
from muster.controller.runtime.informer import Informer, unserved
from muster.model.names import OWN_PREFIX, compute_domain_template

BY_DOMAIN: Final = "domain"
UNSERVED_RECHECK: Final = RequeueAfter(30.0)
"""While the driver is not installed; no event shows when it is."""


class ComputeDomain(Object, frozen=True):
    """Only its metadata matters to us: its spec cannot change."""


COMPUTE_DOMAIN: Final = Resource(
    "resource.nvidia.com", "v1beta1", "computedomains", "ComputeDomain", True, ComputeDomain
)


def domains_claimed(workload: Workload) -> Iterable[Key]:
    """The domain that the gang is to have, if it claims one: an index of the cache of Workloads."""
    claims = {
        claim.resource_claim_template_name
        for pod_set in workload.spec.pod_sets
        for claim in pod_set.template.spec.resource_claims
    }
    job = _job(workload) if claims else None
    if job is None or compute_domain_template(job.name) not in claims:
        return ()
    return (Key(workload.metadata.namespace, f"{OWN_PREFIX}{compute_domain_template(job.name)}"),)


class ComputeDomains:
    """Reconciles the domain of a Workload by the Workload's key."""

    def __init__(
        self,
        client: Client,
        workloads: Informer[Workload],
        domains: Informer[ComputeDomain],
        *,
        events: EventRecorder,
    ) -> None:
        self._client, self._workloads, self._domains, self._events = client, workloads, domains, events

    def claimants(self, domain: ComputeDomain) -> list[Key]:
        """The Workloads that need this domain: one that is deleted by hand is made again."""
        return [workload.key for workload in self._workloads.store.by_index(BY_DOMAIN, domain.key)]

    async def reconcile(self, key: Key) -> Result:
        workload = self._workloads.get(key)
        if workload is None or workload.metadata.deletion_timestamp or workload.status.holds("Finished"):
            return None
        job = _job(workload)
        for domain in domains_claimed(workload):
            if job is not None and not await self._ensure(domain, workload, job):
                return UNSERVED_RECHECK
        return None

    async def _ensure(self, key: Key, workload: Workload, job: OwnerReference) -> bool:
        """Whether the API server serves the kind."""
        found = self._domains.get(key)
        if found is None and self._domains.is_unserved:
            self._warn(workload, f"{unserved(COMPUTE_DOMAIN)}. Fix: install NVIDIA's DRA driver")
            return False
        if found is None:
            found = await self._created(key, workload, job)
        owners = found.metadata.owner_references
        # An earlier job of this name may still own it: its end brings this key back.
        if not any((owner.kind, owner.name) == (job.kind, job.name) for owner in owners):
            self._warn(workload, f"ComputeDomain {key} is not of this job. Fix: give the job another name")
        return True

    async def _created(self, key: Key, workload: Workload, job: OwnerReference) -> ComputeDomain:
        try:
            made = await self._client.create(COMPUTE_DOMAIN, _body(key, job), namespace=key.namespace)
        except AlreadyExists:
            made = await self._client.get(COMPUTE_DOMAIN, key)
        except ApiError as error:
            if is_rejection(error):  # Kueue waits for its template, and says no more than that.
                self._warn(workload, f"ComputeDomain {key} cannot be made: {error.status.message}")
            raise
        self._domains.store.add(made)
        return made

    def _warn(self, workload: Workload, message: str) -> None:
        event = EmitEvent(kind="Warning", reason="ComputeDomainMissing", message=message)
        emit_event(self._events, WORKLOADS.of(workload), event)


def _job(workload: Workload) -> OwnerReference | None:
    return next((each for each in workload.metadata.owner_references if each.controller), None)


def _body(key: Key, job: OwnerReference) -> dict[str, Any]:
    owner = {"apiVersion": job.api_version, "kind": job.kind, "name": job.name, "uid": job.uid}
    return {
        "metadata": {"namespace": key.namespace, "name": key.name, "ownerReferences": [owner]},
        "spec": {
            # The driver advises 0 and holds back no pod by it; the gang's own check counts its nodes.
            "numNodes": 0,
            # Kueue cannot count allocationMode All.
            "channel": {
                "resourceClaimTemplate": {"name": compute_domain_template(job.name)},
                "allocationMode": "Single",
            },
        },
    }
