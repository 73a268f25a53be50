"""Google's networks and placement policies, API compute.v1.

Which change replaces, and what stays when it is left out, is as in
github.com/GoogleCloudPlatform/magic-modules, mmv1/products/compute: Network.yaml at 02af433e,
Subnetwork.yaml, Router.yaml at 057ced2e, RouterNat.yaml at 0611c0f8 (`immutable`, `default_from_api`).
"""

from typing import Final

from tests.clouds.standin.table import Own, Table, same

NETWORK_TYPE: Final = "gcp:compute/network:Network"
SUBNETWORK_TYPE: Final = "gcp:compute/subnetwork:Subnetwork"
ROUTER_TYPE: Final = "gcp:compute/router:Router"

_PROJECT: Final = Own("the path's project")
_LINK: Final = {"selfLink": "https://www.googleapis.com/compute/v1/{id}"}

NETWORK: Final = Table(
    token=NETWORK_TYPE,
    sdk="pulumi_gcp.compute:NetworkArgs",
    api="compute.v1:Network",
    id="projects/{project}/global/networks/{name}",
    unique=("project", "name"),
    autonamed="name",
    seconds=20,
    timeout=1200,
    replaces={"name": "name", "project": _PROJECT, **same("description autoCreateSubnetworks")},
    updates={
        "mtu": "mtu",
        "routingMode": "routingConfig.routingMode",
        "deleteDefaultRoutesOnCreate": Own(
            "deletes the default route once the network is there", kind="boolean"
        ),
    },
    keeps=frozenset({"mtu", "routingMode"}),
    outputs=_LINK,
)

SUBNETWORK: Final = Table(
    token=SUBNETWORK_TYPE,
    sdk="pulumi_gcp.compute:SubnetworkArgs",
    api="compute.v1:Subnetwork",
    id="projects/{project}/regions/{region}/subnetworks/{name}",
    unique=("project", "region", "name"),
    autonamed="name",
    seconds=15,
    timeout=1200,
    replaces={"name": "name", "project": _PROJECT, **same("region network description purpose")},
    updates={
        **same(
            "ipCidrRange privateIpGoogleAccess stackType secondaryIpRanges.rangeName",
            "secondaryIpRanges.ipCidrRange logConfig.aggregationInterval logConfig.flowSampling",
            "logConfig.metadata",
        )
    },
    # customdiff.ForceNewIfChange("ip_cidr_range", isShrinkageIpCidr) in the provider.
    grows=frozenset({"ipCidrRange"}),
    refers={"network": (NETWORK_TYPE,)},
    outputs=_LINK,
)

ROUTER: Final = Table(
    token=ROUTER_TYPE,
    sdk="pulumi_gcp.compute:RouterArgs",
    api="compute.v1:Router",
    id="projects/{project}/regions/{region}/routers/{name}",
    unique=("project", "region", "name"),
    autonamed="name",
    timeout=1200,
    replaces={"name": "name", "project": _PROJECT, "region": "region", "network": "network"},
    updates={"description": "description", "bgp.asn": "bgp.asn"},
    refers={"network": (NETWORK_TYPE,)},
    outputs=_LINK,
)

NAT: Final = Table(
    token="gcp:compute/routerNat:RouterNat",
    sdk="pulumi_gcp.compute:RouterNatArgs",
    api="compute.v1:RouterNat",
    id="{project}/{region}/{router}/{name}",
    unique=("project", "region", "router", "name"),
    autonamed="name",
    timeout=1200,
    replaces={
        "name": "name",
        "project": _PROJECT,
        "region": Own("the path's region"),
        "router": Own("the router that holds it"),
        "type": "type",
    },
    updates={
        **same(
            "natIpAllocateOption sourceSubnetworkIpRangesToNat natIps minPortsPerVm maxPortsPerVm",
            "enableDynamicPortAllocation enableEndpointIndependentMapping logConfig.enable",
            "logConfig.filter subnetworks.name",
        ),
        "subnetworks.sourceIpRangesToNats": "subnetworks.sourceIpRangesToNat",
        "subnetworks.secondaryIpRangeNames": "subnetworks.secondaryIpRangeNames",
    },
    keeps=frozenset({"natIps", "minPortsPerVm", "enableDynamicPortAllocation"}),
    refers={"router": (ROUTER_TYPE,), "subnetworks.name": (SUBNETWORK_TYPE,)},
)

FIREWALL: Final = Table(
    token="gcp:compute/firewall:Firewall",
    sdk="pulumi_gcp.compute:FirewallArgs",
    api="compute.v1:Firewall",
    id="projects/{project}/global/firewalls/{name}",
    unique=("project", "name"),
    autonamed="name",
    timeout=1200,
    replaces={"name": "name", "project": _PROJECT, "network": "network"},
    updates={
        **same(
            "description direction priority sourceRanges destinationRanges sourceTags targetTags",
            "targetServiceAccounts",
        ),
        "allows.protocol": "allowed.IPProtocol",
        "allows.ports": "allowed.ports",
        "denies.protocol": "denied.IPProtocol",
        "denies.ports": "denied.ports",
    },
    refers={"network": (NETWORK_TYPE,)},
    outputs=_LINK,
)

PLACEMENT: Final = Table(
    token="gcp:compute/resourcePolicy:ResourcePolicy",
    sdk="pulumi_gcp.compute:ResourcePolicyArgs",
    api="compute.v1:ResourcePolicy",
    id="projects/{project}/regions/{region}/resourcePolicies/{name}",
    unique=("project", "region", "name"),
    autonamed="name",
    timeout=1200,
    replaces={
        "name": "name",
        "project": _PROJECT,
        **same(
            "region description groupPlacementPolicy.collocation groupPlacementPolicy.vmCount",
            "groupPlacementPolicy.availabilityDomainCount workloadPolicy.type",
            "workloadPolicy.acceleratorTopology",
        ),
    },
    outputs=_LINK,
)

TABLES: Final = (NETWORK, SUBNETWORK, ROUTER, NAT, FIREWALL, PLACEMENT)
