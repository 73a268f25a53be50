"""Pod templates are judged as the API server judges their pods: by the standard of their Namespace.

Each template is tried as a Pod, which the API server's own plugin refuses or not, and as a template of a Ray
object, which only the policy sees. Both have to agree.
"""

from __future__ import annotations

import pytest

from tests.integration.tenancy import works
from tests.integration.tenancy.attacks.templates import UNSAFE_TEMPLATES
from tests.integration.tenancy.cluster import Object, allowed, apply, await_allowed, await_denied, refused
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import changed, head, template

STRICT = "strict"
SPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {
        "name": STRICT,
        "labels": {"muster.dev/team": STRICT, "pod-security.kubernetes.io/enforce": "restricted"},
        "annotations": {"muster.dev/queues": "default", "muster.dev/priorities": "dev"},
    },
}


def _with(**fields: object) -> Object:
    """A template with these fields of its container's security context, beside what `restricted` wants."""
    body = template(restart="Never", securityContext={"seccompProfile": {"type": "RuntimeDefault"}})
    context = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        **fields,
    }
    body["spec"]["containers"][0]["securityContext"] = {k: v for k, v in context.items() if v is not None}
    return body


def _pod_with(**fields: object) -> Object:
    """The same, with these fields of the pod's own security context, and none of its container's there."""
    body = _with(**dict.fromkeys(fields))
    body["spec"]["securityContext"] |= fields
    return body


def _volume(**source: object) -> Object:
    return changed(_with(), "spec", "volumes", value=[{"name": "data", **source}])


# As the standards have them: what passes, what `restricted` alone refuses, what both refuse.
TEMPLATES: dict[str, Object] = {
    "nothing of security": template(restart="Never"),
    "all that restricted wants": _with(),
    "an escalation that nothing forbids": _with(allowPrivilegeEscalation=None),
    "an escalation": _with(allowPrivilegeEscalation=True),
    "root that nothing forbids": _with(runAsNonRoot=None),
    "root": _with(runAsNonRoot=False),
    "no root, of the pod": _pod_with(runAsNonRoot=True),
    "root, of the pod alone": changed(_with(), "spec", "securityContext", "runAsNonRoot", value=False),
    # With runAsNonRoot muster-pod-valid refuses it: the kubelet starts no such container.
    "user 0": _with(runAsUser=0, runAsNonRoot=None),
    "user 0, of the pod": _pod_with(runAsUser=0, runAsNonRoot=False),
    "user 1000": _with(runAsUser=1000),
    "all capabilities": _with(capabilities=None),
    "some capabilities dropped": _with(capabilities={"drop": ["NET_RAW"]}),
    "a default capability": _with(capabilities={"drop": ["ALL"], "add": ["CHOWN"]}),
    "the one that restricted allows": _with(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
    "no filter of system calls": changed(_with(), "spec", "securityContext", value={}),
    "a filter of the container's own": changed(
        _with(seccompProfile={"type": "Localhost", "localhostProfile": "a"}),
        "spec",
        "securityContext",
        value={},
    ),
    "an AppArmor profile of the node": _with(appArmorProfile={"type": "Localhost", "localhostProfile": "a"}),
    "a container's type of SELinux": _with(seLinuxOptions={"type": "container_t"}),
    "a safe setting of the kernel": _pod_with(sysctls=[{"name": "net.ipv4.tcp_syncookies", "value": "1"}]),
    "a volume of no kind": _volume(),
    "an empty directory": _volume(emptyDir={}),
    "a claim": _volume(persistentVolumeClaim={"claimName": "data"}),
    "a share": _volume(nfs={"server": "192.0.2.1", "path": "/"}),
    "an init container of its own": changed(
        _with(), "spec", "initContainers", value=[{"name": "i", "image": "i"}]
    ),
    **{name: attack.template for name, attack in UNSAFE_TEMPLATES.items()},
}


def _ray(body: Object, namespace: str) -> Object:
    found = works.ray_cluster(headGroupSpec=head(template=body))
    found["spec"]["workerGroupSpecs"] = []
    return changed(found, "metadata", "namespace", value=namespace)


@pytest.fixture(scope="module")
def spaces(world: World) -> dict[str, str]:
    apply(world.server, [SPACE])
    await_allowed(world.admin, _ray(_with(), STRICT))
    await_denied(world.admin, _ray(template(), STRICT))
    return {"baseline": works.NAMESPACE, "restricted": STRICT}


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_a_template_is_refused_where_its_pods_would_be(
    world: World, spaces: dict[str, str], level: str
) -> None:
    refused = []
    for name, body in TEMPLATES.items():
        metadata = {"name": "one", "namespace": spaces[level], **body.get("metadata", {})}
        as_pod = world.admin.create({"apiVersion": "v1", "kind": "Pod", **body, "metadata": metadata})
        if as_pod.code == 422:
            continue  # The API server has a reason of its own, whatever the standard.
        as_template = world.admin.create(_ray(body, spaces[level]))
        assert as_pod.is_allowed == as_template.is_allowed, f"{name}: {as_pod} {as_template}"
        if not as_pod.is_allowed:
            assert f'violates PodSecurity "{level}' in as_pod.message, as_pod.message
            assert f"the Pod Security Standard {level}. In spec.head" in as_template.message
            refused.append(name)
    assert ("nothing of security" in refused) == (level == "restricted")
    assert "all that restricted wants" not in refused
    assert len(refused) > (15 if level == "baseline" else 25)


SUBMITTERS = {
    "the submitter's Job": (
        {"submissionMode": "K8sJobMode"},
        "spec.submitterPodTemplate, which is needed here",
    ),
    "the container beside the head": ({"submissionMode": "SidecarMode"}, "use HTTPMode"),
}


@pytest.mark.parametrize("name", SUBMITTERS)
def test_what_kuberay_adds_without_a_security_context_does_not_start_either(
    world: World, spaces: dict[str, str], name: str
) -> None:
    """Gained: nodes for a cluster to which nothing is ever submitted."""
    fields, words = SUBMITTERS[name]
    spec = works.cluster_spec(headGroupSpec=head(template=_with()))
    spec["workerGroupSpecs"][0]["template"] = _with()
    body = changed(
        works.ray_job(rayClusterSpec=spec, **fields), "metadata", "namespace", value=spaces["restricted"]
    )
    refused(world.admin.create(body), words)
    over_http = changed(body, "spec", "submissionMode", value="HTTPMode")
    allowed(world.admin.create(over_http))
