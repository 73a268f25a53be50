"""What a person reads where a gang cannot get a ComputeDomain of its own."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from muster.controller.kube.client import Client
from muster.controller.kube.errors import Forbidden, NotFound, Status
from muster.controller.kube.resource import Key
from muster.controller.kueue.compute_domains import (
    COMPUTE_DOMAIN,
    ComputeDomain,
    ComputeDomains,
    domains_claimed,
)
from muster.controller.kueue.objects import WORKLOAD, Workload
from muster.controller.runtime.controller import Result
from muster.controller.runtime.events import EventRecorder, Reference
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.metrics import Metrics
from tests.unit.gangs.cached import cached

KEY = Key("team-a", "job-nccl-1")


class Heard:
    """Events as a person reads them: one on the Workload and one on its job."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def event(self, about: Reference, _kind: str, *, note: str, **_: object) -> None:
        if about.kind == "Job":
            self.notes.append(note)


class Server:
    def __init__(self) -> None:
        self.created: list[Any] = []

    async def create(self, _resource: object, body: Any, **_: object) -> ComputeDomain:
        self.created.append(body)
        return msgspec.convert(body, ComputeDomain)


def workload(claimed: str = "nccl-compute-domain", *, state: str = "") -> Workload:
    claim = {"name": "imex", "resourceClaimTemplateName": claimed}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "nccl", "uid": "1", "controller": True}
    conditions = [{"type": state, "status": "True"}] if state else []
    body = {
        "metadata": {"name": KEY.name, "namespace": KEY.namespace, "ownerReferences": [owner]},
        "spec": {"podSets": [{"name": "main", "template": {"spec": {"resourceClaims": [claim]}}}]},
        "status": {"conditions": conditions},
    }
    return msgspec.convert(body, Workload)


def domain(kind: str, *, uid: str) -> ComputeDomain:
    owner = {"apiVersion": "x/v1", "kind": kind, "name": "nccl", "uid": uid}
    meta = {"name": "muster-nccl-compute-domain", "namespace": KEY.namespace, "ownerReferences": [owner]}
    return msgspec.convert({"metadata": meta}, ComputeDomain)


def reconcile(
    gang: Workload, domains: Informer[ComputeDomain], server: Server, heard: Heard | None = None
) -> tuple[Result, list[str]]:
    heard = heard or Heard()
    reconciler = ComputeDomains(
        cast(Client, server), cached(WORKLOAD, [gang]), domains, events=cast(EventRecorder, heard)
    )
    return asyncio.run(cast(Any, reconciler.reconcile(KEY))), heard.notes


def test_without_the_driver_a_person_is_told_and_it_is_tried_again() -> None:
    missing, server = Informer(cast(Client, None), COMPUTE_DOMAIN, metrics=Metrics()), Server()

    async def fail() -> None:
        missing.failed(NotFound(Status(code=404)))

    asyncio.run(fail())
    again, notes = reconcile(workload(), missing, server)
    assert again is not None
    (note,) = notes
    assert "DRA driver" in note
    assert not server.created


def test_a_domain_that_the_api_server_refuses_is_tried_again_and_its_words_are_read() -> None:
    class Refusing(Server):
        async def create(self, _resource: object, body: Any, **_: object) -> ComputeDomain:
            raise Forbidden(Status(code=403, message="exceeded quota: domains"))

    with pytest.raises(Forbidden):
        reconcile(workload(), cached(COMPUTE_DOMAIN, []), Refusing(), heard := Heard())
    (note,) = heard.notes
    assert "exceeded quota: domains" in note


def test_a_job_of_another_kind_does_not_share_the_domain_of_its_namesake() -> None:
    _, notes = reconcile(workload(), cached(COMPUTE_DOMAIN, [domain("RayJob", uid="2")]), Server())
    (note,) = notes
    assert "another name" in note


def test_the_domain_of_an_earlier_job_of_the_name_is_waited_for_in_silence() -> None:
    server = Server()
    _, notes = reconcile(workload(), cached(COMPUTE_DOMAIN, [domain("Job", uid="0")]), server)
    assert not notes
    assert not server.created


@pytest.mark.parametrize("gang", [workload("other"), workload(state="Finished")])
def test_no_domain_is_made_for_what_claims_none_or_has_ended(gang: Workload) -> None:
    server = Server()
    reconcile(gang, cached(COMPUTE_DOMAIN, []), server)
    assert not server.created


def test_a_gang_whose_workers_claim_it_and_whose_head_does_not_has_one() -> None:
    both = workload()
    head = msgspec.convert({"name": "head"}, type(both.spec.pod_sets[0]))
    spec = msgspec.structs.replace(both.spec, pod_sets=(head, *both.spec.pod_sets))
    assert list(domains_claimed(msgspec.structs.replace(both, spec=spec))) == [
        Key("team-a", "muster-nccl-compute-domain")
    ]
