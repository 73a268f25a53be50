"""What Google says of networks and accounts beyond its definitions."""

import ipaddress
import re
from collections.abc import Iterator

from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.rules import alone
from tests.clouds.standin.tables.compute import NAT, SUBNETWORK_TYPE
from tests.clouds.standin.tables.google_project import (
    ACCOUNT_GRANT,
    ACCOUNT_TYPE,
    BUCKET_GRANT,
    PROJECT_GRANT,
)
from tests.clouds.standin.values import Inputs, each, get


@alone(SUBNETWORK_TYPE)
def ranges_of_a_subnetwork_are_apart(inputs: Inputs) -> Iterator[Refusal]:
    """compute.v1 Subnetwork.ipCidrRange: "must be unique and non-overlapping within a network"."""
    ranges = [("ipCidrRange", get(inputs, "ipCidrRange"))]
    ranges += [
        (f"secondaryIpRanges[{index}].ipCidrRange", each_.get("ipCidrRange"))
        for index, each_ in enumerate(each(inputs, "secondaryIpRanges"))
    ]
    seen: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
    for path, text in ranges:
        if not isinstance(text, str):
            continue
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            yield Refusal(path, f"{error}")
            continue
        for other in seen:
            if network.overlaps(other):
                yield Refusal(path, f"{network} overlaps {other}")
        seen.append(network)


@alone(SUBNETWORK_TYPE)
def nodes_without_addresses_reach_google(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/vpc/docs/private-google-access: nodes without public addresses pull images and
    write logs only with it.
    """
    if inputs.get("secondaryIpRanges") and get(inputs, "privateIpGoogleAccess") is not True:
        yield Refusal("privateIpGoogleAccess", "private nodes reach Google's APIs only with it")


@alone(NAT.token)
def a_nat_has_addresses_or_takes_them(inputs: Inputs) -> Iterator[Refusal]:
    """compute.v1 RouterNat.natIpAllocateOption: MANUAL_ONLY names addresses, AUTO_ONLY none."""
    option, named = get(inputs, "natIpAllocateOption"), bool(inputs.get("natIps"))
    if (option == "MANUAL_ONLY") is not named and option is not None:
        yield Refusal("natIps", f"{option} and natIps do not go together as they are")


@alone(ACCOUNT_TYPE)
def account_ids_are_legal(inputs: Inputs) -> Iterator[Refusal]:
    """iam.v1 CreateServiceAccountRequest.accountId: "unique within a project, must be 6-30 characters long,
    and match the regular expression".
    """
    name = get(inputs, "accountId")
    if isinstance(name, str) and not re.fullmatch(r"[a-z]([-a-z0-9]{4,28}[a-z0-9])", name):
        yield Refusal("accountId", f"{name!r}: 6 to 30 lowercase letters, digits and -")


@alone(ACCOUNT_GRANT.token)
def grants_name_their_account_by_its_path(inputs: Inputs) -> Iterator[Refusal]:
    """iam.v1 projects.serviceAccounts.setIamPolicy: the pattern of `resource`."""
    name = get(inputs, "serviceAccountId")
    if isinstance(name, str) and not re.fullmatch(r"projects/[^/]+/serviceAccounts/[^/]+", name):
        yield Refusal("serviceAccountId", f"{name!r}: projects/PROJECT/serviceAccounts/ADDRESS")


@alone(BUCKET_GRANT.token)
def buckets_have_legal_names(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/storage/docs/buckets#naming"""
    name = get(inputs, "bucket")
    if isinstance(name, str) and not re.fullmatch(r"[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9]", name):
        yield Refusal("bucket", f"{name!r}: 3 to 222 lowercase letters, digits, -, _ and .")


@alone(BUCKET_GRANT.token)
@alone(ACCOUNT_GRANT.token)
@alone(PROJECT_GRANT.token)
def grants_name_a_role_and_a_member(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/iam/docs/reference/rest/v1/Policy#Binding: forms of role and member."""
    role, member = get(inputs, "role"), get(inputs, "member")
    if isinstance(role, str) and not re.fullmatch(r"(projects/.+/|organizations/.+/)?roles/[\w.]+", role):
        yield Refusal("role", f"{role!r} is no role")
    kinds = "user|serviceAccount|group|domain|principal|principalSet"
    if isinstance(member, str) and not re.match(rf"({kinds}):.+|allUsers$|allAuthenticatedUsers$", member):
        yield Refusal("member", f"{member!r} is no member")
