"""Ways into a team's namespace from outside of the cluster: none, regardless of who makes them.

An Ingress, a Gateway or one of its routes is closed as load balancers and ports of nodes are
(render/tenancy/limits.py). KubeRay makes them for a tenant who asks, so its account is not exempt.
"""

from typing import Final

from muster.render.tenancy.policies.policy import Kinds, Policy, Rule
from muster.render.tenancy.policies.who import ADMINISTRATOR, BY_KUBERAY, EVERYWHERE, SYSTEM

_KINDS: Final = (
    Kinds(group="networking.k8s.io", resources=("ingresses",)),
    Kinds(group="gateway.networking.k8s.io", resources=("*",)),
    Kinds(group="gateway.networking.x-k8s.io", resources=("*",)),
    # OpenShift's, which KubeRay makes in place of an Ingress.
    Kinds(group="route.openshift.io", resources=("routes",)),
)


def routes() -> Policy:
    """An ingress controller may write its annotations and finalizers on what exists."""
    return Policy(
        name="muster-routes",
        purpose="Nothing of a team can be reached from outside the cluster, regardless of who creates the "
        "route.",
        kinds=_KINDS,
        unless=(
            ("the-system", f"{SYSTEM} && !({BY_KUBERAY})"),
            ("an-administrator", f"{ADMINISTRATOR} && !({BY_KUBERAY})"),
            ("a-user-of-the-whole-cluster", f"({EVERYWHERE}) && !({BY_KUBERAY})"),
        ),
        rules=(
            Rule(
                holds="false",
                message="'nothing of a team can be reached from outside the cluster: an exposed Ray "
                "dashboard runs "
                "the code of any client that finds it. Remove ' + object.kind + ' ' + object.metadata.name + "
                "', and headGroupSpec.enableIngress of a Ray object that asks for it. To reach a Service "
                "from outside, use kubectl port-forward; for more, ask the platform team'",
            ),
        ),
    )
