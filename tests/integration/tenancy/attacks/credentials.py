"""Credentials, Ray's own authentication, and objects that are too large to be stored."""

from __future__ import annotations

from typing import Final

from tests.integration.tenancy import works
from tests.integration.tenancy.attack import ORDINARY, Attack, Way, in_each_template
from tests.integration.tenancy.attacks.sizes import CLUSTERS
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import annotated, changed, cluster_spec, template

_TOKEN: Final = "kubernetes.io/service-account-token"
_KIB: Final = 1024
_RUNS_CODE: Final = "code of any client in the cluster's pods (CVE-2023-48022)"


def _stored(kind: str, **fields: object) -> Object:
    return works.existing("v1", kind, "stored", **fields)


def _large(kind: str, field: str, value: str) -> Attack:
    return Attack(
        name=f"{kind} with a large value in {field}",
        body=_stored(kind, **{field: {"text": value}}),
        before=_stored(kind),
        gains="a gigabyte of etcd, and of every controller's memory, for each thousand objects",
        policy="muster-sizes",
        path=f"{kind}.{field}{{}}",
        words=("KiB, and", "are allowed", "from a bucket or a volume"),
    )


def _token_of(account: str) -> Attack:
    secret = annotated(_stored("Secret"), "kubernetes.io/service-account.name", account)
    return Attack(
        name=f"Secret with a token of account {account}",
        body={**secret, "type": _TOKEN},
        ways=(Way.CREATE,),
        gains="the rights of the account, with a token that never expires",
        policy="muster-accounts",
        path="Secret.type",
        words=("holds a token that never expires", "kubectl create token member"),
    )


def _unguarded() -> Object:
    body = template()
    body["spec"]["containers"][0]["env"] = [{"name": "RAY_AUTH_MODE", "value": "disabled"}]
    return body


ATTACKS: Final = (
    _large("ConfigMap", "data", "x" * 200 * _KIB),
    _large("ConfigMap", "binaryData", "AAAA" * 50 * _KIB),
    _large("Secret", "data", "AAAA" * 50 * _KIB),
    _large("Secret", "stringData", "x" * 200 * _KIB),
    *(_token_of(account) for account in ("member", "default", "elastic")),
    *(
        Attack(
            name=f"{place.partition('.')[0]} without authentication",
            body=make(cluster_spec(authOptions={"mode": "disabled"})),
            gains=_RUNS_CODE,
            policy="muster-ray",
            path=f"{place}.authOptions.mode",
            words=("authOptions.mode has to be token",),
        )
        for place, make in CLUSTERS.items()
    ),
    *(
        attack
        for attack in in_each_template(
            "authentication switched off by a variable",
            value=_unguarded(),
            gains=_RUNS_CODE,
            policy="muster-ray",
            path="spec.containers[].env[].name",
            words=("RAY_AUTH_MODE may not be set by hand",),
        )
        if "GroupSpec" in attack.path
    ),
    *(
        Attack(
            name=f"{kind} in an older version",
            body={**ORDINARY[kind], "apiVersion": "ray.io/v1alpha1"},
            ways=(Way.CREATE,),
            gains=f"{_RUNS_CODE}: the API server drops authOptions",
            policy="muster-ray",
            path=f"{kind}.apiVersion",
            words=("write Ray objects as apiVersion ray.io/v1",),
            # Of a RayService the API server drops upgradeStrategy as well.
            also=("muster-ray-size",) if kind == "RayService" else (),
        )
        for kind in ("RayJob", "RayCluster", "RayService")
    ),
    *(
        Attack(
            name=f"{kind} at a priority of Ray's that is not the team's",
            body=changed(ORDINARY[kind], "metadata", "labels", "ray.io/priority-class-name", value="prod"),
            gains="a place before others, and their GPUs by preemption",
            policy="muster-work",
            path=f"{kind}.metadata.labels{{ray.io/priority-class-name}}",
            words=("priority prod is not available", "one of: dev"),
        )
        for kind in ("RayJob", "RayCluster", "RayService")
    ),
)
