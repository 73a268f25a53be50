"""Where a stack lets containers add IPC_LOCK, the API server's plugin is off, and a policy holds the rest of
the Pod Security Standard.

Each pod is tried in a namespace of nobody's, in which the plugin enforces the standard, and in a team's. The
answers differ for the named capability and for nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from muster.model.tenancy import Capability, PodSecurity
from tests import built, envtest
from tests.envtest.process import CRDS, PROVISIONING_CRD
from tests.integration.tenancy import crds, works
from tests.integration.tenancy.cluster import STRATEGIC, Answer, Caller, Object, apply, await_denied, place
from tests.integration.tenancy.conftest import World, described, world_of
from tests.integration.tenancy.test_pod_security import TEMPLATES
from tests.integration.tenancy.works import changed, template
from tests.length import is_short

POLICY = "ValidatingAdmissionPolicy 'muster-pod-security'"
PLAIN = "plain"


# A server of its own for each. The restricted standard has the rules of the baseline too.
STANDARDS = [PodSecurity.RESTRICTED] if is_short() else list(PodSecurity)


@pytest.fixture(scope="module", params=STANDARDS)
def lent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    stack = described()
    tenancy = replace(
        stack.tenancy, pod_security=request.param, capabilities=(Capability.IPC_LOCK, Capability.SYS_PTRACE)
    )
    programs = built.programs(("etcd", "kube-apiserver"), (CRDS, PROVISIONING_CRD))
    kinds = [*crds.kinds(programs), *crds.gateways()]
    with envtest.control_plane(tmp_path_factory.mktemp("lent"), programs, kinds=kinds) as server:
        world = world_of(server, replace(stack, tenancy=tenancy))
        metadata = {"name": PLAIN, "labels": {"pod-security.kubernetes.io/enforce": str(request.param)}}
        apply(server, [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}])
        await_denied(world.admin, _pod(template(hostNetwork=True), works.NAMESPACE))
        yield world


def _pod(body: Object, namespace: str) -> Object:
    metadata = {"name": "one", "namespace": namespace, **body.get("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", **body, "metadata": metadata}


def _adding(*names: str) -> Object:
    """As `restricted` has it, with these capabilities."""
    body = TEMPLATES["all that restricted wants"]
    return changed(body, "spec", "containers", value=[_container(*names)])


def _container(*names: str, name: str = "main") -> Object:
    context = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"], "add": list(names)},
    }
    return {"name": name, "image": "i", "securityContext": context}


def test_the_policy_refuses_what_the_plugin_refuses(lent: World) -> None:
    refused = []
    for name, body in TEMPLATES.items():
        by_plugin = lent.admin.create(_pod(body, PLAIN))
        if by_plugin.code == 422:
            continue  # The API server has a reason of its own, whatever the standard.
        by_policy = lent.admin.create(_pod(body, works.NAMESPACE))
        assert by_plugin.is_allowed == by_policy.is_allowed, f"{name}: {by_plugin} {by_policy}"
        if not by_policy.is_allowed:
            assert POLICY in by_policy.message, by_policy.message
            refused.append(name)
    assert len(refused) > 15


@pytest.mark.parametrize(
    ("names", "is_allowed"),
    [
        (["IPC_LOCK"], True),
        (["IPC_LOCK", "SYS_PTRACE"], True),
        (["IPC_LOCK", "SYS_ADMIN"], False),
        (["SYS_NICE"], False),
        (["NET_ADMIN"], False),
        (["ALL"], False),
    ],
)
def test_the_named_capabilities_alone_are_added(lent: World, names: list[str], is_allowed: bool) -> None:
    """To pods of every author, and to the templates of a team's work."""
    body = _adding(*names)
    for caller in (lent.admin, lent.controllers["jobs"], lent.controllers["kuberay"]):
        answer = caller.create(_pod(body, works.NAMESPACE))
        assert answer.is_allowed == is_allowed, answer
    assert not lent.admin.create(_pod(body, PLAIN)).is_allowed
    answer = lent.member.create(works.job(template=changed(body, "spec", "restartPolicy", value="Never")))
    assert answer.is_allowed == is_allowed, answer


def test_a_container_for_debugging_keeps_to_the_standard_too(lent: World) -> None:
    body = lent.admin.ensure(changed(_pod(_adding(), works.NAMESPACE), "metadata", "name", value="debugged"))

    def added(**context: object) -> Answer:
        container = _container("IPC_LOCK", name="debug")
        container["securityContext"] |= context
        return _debug(lent.admin, body, container)

    assert added().is_allowed
    answer = added(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]})
    assert not answer.is_allowed
    assert POLICY in answer.message


def _debug(caller: Caller, pod: Object, container: Object) -> Answer:
    change = {"spec": {"ephemeralContainers": [container]}}
    return caller.send("PATCH", f"{place(pod)}/ephemeralcontainers?dryRun=All", change, STRATEGIC)
