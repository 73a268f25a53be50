"""The Pod Security Standards in CEL: what in a pod template would make the API server refuse its pods.

The API server enforces the standard of a Namespace on pods alone. A template is accepted, its job is given
quota and nodes, and no pod ever starts. Responsible for the same judgement of a template, by the label that
the API server reads; and of pods, where a stack allows capabilities that no standard does and the label is
`privileged`. The lists are those of Kubernetes 1.34 (k8s.io/pod-security-admission, policy).
"""

from collections.abc import Sequence
from typing import Final

from muster.model import names
from muster.model.stack import Stack
from muster.model.tenancy import Capability
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.policy import (
    ADMINISTRATOR,
    EVERYWHERE,
    NODES,
    SYSTEM,
    Kinds,
    Policy,
    Rule,
    container_faults,
    joined,
    no_faults,
    quoted,
)

# Credentials of a team's accounts: short-lived, and of the account of its pipelines alone.
# A Secret of type service-account-token holds a token of any account of the namespace that never expires.
# With one, a tenant acts as an account that a controller made, such as that of a Ray cluster's autoscaler.
# What such an account may do is in scalers.py.

_TYPE: Final = "kubernetes.io/service-account-token"
_NAMED: Final = "{of}.metadata.?annotations[?'kubernetes.io/service-account.name']"
_INSTEAD: Final = (
    f"A pipeline acts as {names.MEMBER_ACCOUNT}: the platform team gives it a token that expires, by "
    f"kubectl create token {names.MEMBER_ACCOUNT}"
)


def accounts() -> Policy:
    """A user who may write Secrets of the whole cluster writes them for tenants too, so only the system and
    administrators are exempt.
    """
    return Policy(
        name="muster-accounts",
        purpose=(
            "A token of an account that never expires would let a tenant act as an account that a "
            "controller made."
        ),
        kinds=(
            Kinds(group="", resources=("secrets",)),
            Kinds(group="", resources=("serviceaccounts/token",), operations=("CREATE",)),
        ),
        unless=(("the-system", SYSTEM), ("an-administrator", ADMINISTRATOR)),
        rules=(_secrets(), _requests()),
    )


def _secrets() -> Rule:
    same = f"{_NAMED.format(of='object')} == {_NAMED.format(of='oldObject')}"
    return Rule(
        holds=f"request.resource.resource != 'secrets' || object.?type.orValue('') != '{_TYPE}' || "
        f"(request.operation == 'UPDATE' && {same})",
        message=f"'a Secret of type {_TYPE} holds a token that never expires; use another type. {_INSTEAD}'",
    )


def _requests() -> Rule:
    return Rule(
        holds=f"request.resource.resource != 'serviceaccounts' || request.name == '{names.MEMBER_ACCOUNT}' "
        f"|| {NODES} || {EVERYWHERE}",
        message=f"'account ' + request.name + ' is for pods and controllers only. {_INSTEAD}'",
    )


_LABEL: Final = "namespaceObject.metadata.?labels[?'pod-security.kubernetes.io/enforce'].orValue('')"
_BY_THE_API_SERVER: Final = f"{_LABEL} in ['baseline', 'restricted']"

_CAPABILITIES: Final = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
_SYSCTLS: Final = (
    *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies"),
    *("net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start", "net.ipv4.tcp_fin_timeout"),
    *("net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_keepalive_intvl"),
    *("net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
)
_SELINUX_TYPES: Final = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_VOLUMES: Final = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
    *("projected", "secret"),
)
_PROBED: Final = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"

# The security context of the pod and those of its containers; some are absent.
_CONTEXTS: Final = "([pod.spec.?securityContext] + pod.containers.map(each, each.?securityContext))"
_HAS_CONTEXT: Final = (
    "(has(pod.spec.securityContext) || pod.containers.exists(each, has(each.securityContext)))"
)
_LINUX: Final = "pod.spec.?os.?name.orValue('') != 'windows'"


def standard_of(stack: Stack) -> str:
    """The standard that holds in the namespace of a request, in CEL."""
    return f"({_BY_THE_API_SERVER} ? {_LABEL} : '{stack.tenancy.pod_security}')"


def pod_security(stack: Stack) -> Policy:
    """For everybody, as the API server's plugin is. Stacks without capabilities have it, too: when a stack
    takes them back, its policies change before the labels of its namespaces. Of a pod that exists, only
    ephemeral containers can still break a standard.
    """
    beyond = ", ".join(stack.tenancy.capabilities)
    allowed = f", beyond which a container may add {beyond}" if beyond else ""
    return Policy(
        name="muster-pod-security",
        purpose=(
            "Where containers may add capabilities that no Pod Security Standard allows, the API server does "
            "not enforce the standard, and the rest of it holds here."
        ),
        kinds=(
            Kinds(group="", resources=("pods",), operations=("CREATE",)),
            Kinds(group="", resources=("pods/ephemeralcontainers",), operations=("UPDATE",)),
        ),
        words=(
            ("level", standard_of(stack)),
            ("pod", pod_templates.pod_of("''", "dyn(object)")),
            ("faults", f"[variables.pod].map(pod, {standard_faults('variables.level', stack)})[0]"),
        ),
        rules=(
            Rule(
                holds=f"{_BY_THE_API_SERVER} || {no_faults('variables.faults')}",
                message="'the namespace enforces the Pod Security Standard ' + variables.level + "
                f"'{allowed}. In the pod: ' + {joined('variables.faults')}",
            ),
        ),
    )


def standard_faults(level: str, stack: Stack) -> str:
    """What an author has to change in `pod` (pod_templates.pod_of), as a CEL list of lists of sentences, all
    empty where its pods may start.
    """
    baseline, restricted = _baseline(stack.tenancy.capabilities), _restricted(stack.tenancy.capabilities)
    return f"{baseline} + ({level} != 'restricted' ? [] : {restricted})"


def _baseline(capabilities: Sequence[str]) -> str:
    of_host = (
        "['hostNetwork', 'hostPID', 'hostIPC'].filter(field, pod.spec[?field].orValue(false) == true)"
        ".map(field, 'remove spec.' + field)",
        "pod.spec.?volumes.orValue([]).filter(volume, has(volume.hostPath))"
        ".map(volume, 'remove hostPath volume ' + volume.name + "
        "(volume.hostPath.?path.orValue('') == '/dev/shm' ? ', or write emptyDir: {medium: Memory}' : ''))",
    )
    reached = (
        "[each.?livenessProbe, each.?readinessProbe, each.?startupProbe, "
        "each.?lifecycle.?postStart, each.?lifecycle.?preStop].exists(way, "
        "way.?httpGet.?host.orValue('') != '' || way.?tcpSocket.?host.orValue('') != '')"
    )
    of_container = {
        "has(each.ports)": [
            ("each.ports.exists(port, port.?hostPort.orValue(0) != 0)", "'remove hostPort'"),
        ],
        "has(each.securityContext)": [
            ("each.securityContext.?privileged.orValue(false)", "'remove securityContext.privileged'"),
            (
                _added((*_CAPABILITIES, *capabilities)),
                f"'remove capabilities beyond the default ones{_beyond(capabilities)}'",
            ),
            (
                "each.securityContext.?procMount.orValue('Default') != 'Default'",
                "'remove securityContext.procMount'",
            ),
        ],
        " || ".join(f"has(each.{field})" for field in _PROBED): [
            (reached, "'remove host from its probes and lifecycle'"),
        ],
    }
    of_contexts = (
        _context(
            f"!(context.?seLinuxOptions.?type.orValue('') in {quoted(_SELINUX_TYPES)}) || "
            "context.?seLinuxOptions.?user.orValue('') != '' || "
            "context.?seLinuxOptions.?role.orValue('') != ''",
            "remove securityContext.seLinuxOptions",
        ),
        _context(_profile("seccompProfile"), f"set securityContext.seccompProfile.type to {_PROFILES[0]}"),
        _context(_profile("appArmorProfile"), f"set securityContext.appArmorProfile.type to {_PROFILES[0]}"),
        _context("context.?windowsOptions.?hostProcess.orValue(false)", "remove windowsOptions.hostProcess"),
        f"pod.spec.?securityContext.?sysctls.orValue([]).filter(each, !(each.name in {quoted(_SYSCTLS)}))"
        ".map(each, 'remove sysctl ' + each.name)",
    )
    of_notes = (
        f"pod.notes.filter(key, key.startsWith('{_APPARMOR}') && "
        "!(pod.notes[key] in ['', 'runtime/default']) && !pod.notes[key].startsWith('localhost/'))"
        ".map(key, 'remove annotation ' + key)"
    )
    return (
        f"[{' + '.join(of_host)}] + {container_faults(of_container)} + "
        f"[({_HAS_CONTEXT} ? {' + '.join(of_contexts)} : []) + {of_notes}]"
    )


def _restricted(capabilities: Sequence[str]) -> str:
    """In addition to baseline."""
    allowed = ("NET_BIND_SERVICE", *capabilities)
    root = "pod.spec.?securityContext.?runAsNonRoot"
    profile = "seccompProfile.?type.hasValue()"
    # A volume that names no kind is an emptyDir.
    of_volumes = (
        "pod.spec.?volumes.orValue([]).filter(volume, volume.exists(kind, kind != 'name') && "
        f"!has(volume.hostPath) && !{quoted(_VOLUMES)}.exists(kind, kind in volume))"
        ".map(volume, 'use a PersistentVolumeClaim for volume ' + volume.name)"
    )
    of_container = [
        (
            f"{_LINUX} && each.?securityContext.?allowPrivilegeEscalation.orValue(true)",
            "'set securityContext.allowPrivilegeEscalation: false'",
        ),
        (
            f"{_LINUX} && !('ALL' in each.?securityContext.?capabilities.?drop.orValue([]))",
            "'set securityContext.capabilities.drop: [\"ALL\"]'",
        ),
        (
            f"{_LINUX} && {_added(allowed)}",
            f"'remove securityContext.capabilities.add but {', '.join(allowed)}'",
        ),
        (
            f"!each.?securityContext.?runAsNonRoot.orValue({root}.orValue(false))",
            "'set securityContext.runAsNonRoot: true'",
        ),
        (
            f"{_LINUX} && !each.?securityContext.?{profile} && !pod.spec.?securityContext.?{profile}",
            f"'set securityContext.seccompProfile.type: {_PROFILES[0]}'",
        ),
    ]
    of_contexts = (
        f"({root}.orValue(true) ? [] : ['set spec.securityContext.runAsNonRoot: true'])",
        _context("context.?runAsUser.orValue(1) == 0", "set securityContext.runAsUser to another than 0"),
    )
    return f"[{of_volumes}] + {container_faults({'': of_container})} + [{' + '.join(of_contexts)}]"


def _beyond(capabilities: Sequence[str]) -> str:
    if capabilities:
        return f" and {', '.join(capabilities)}"
    return f" (a stack can allow {', '.join(Capability)})"


def _added(allowed: Sequence[str]) -> str:
    added = "each.?securityContext.?capabilities.?add.orValue([])"
    return f"{added}.exists(name, !(name in {quoted(allowed)}))"


def _profile(field: str) -> str:
    return f"!(context.?{field}.?type.orValue('{_PROFILES[0]}') in {quoted(_PROFILES)})"


def _context(condition: str, fix: str) -> str:
    """One fault if the condition applies to any security context, under the name `context`."""
    return f"({_CONTEXTS}.exists(context, {condition}) ? ['{fix}'] : [])"
