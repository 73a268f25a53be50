"""Cloud identities of teams: identities and buckets that the stack's cloud can provide."""

from collections.abc import Iterator

from muster.model.clusters import Cluster, EksCluster, ExistingCluster, GkeCluster
from muster.model.identities import POD_ACCOUNT, bound_accounts, is_bucket, is_identity, is_made
from muster.model.queues import Team
from muster.model.stack import Stack
from muster.model.violations import Violation, at
from muster.validation.paths import team_path


def cloud_identity_rules(stack: Stack) -> list[Violation]:
    """Every rule about what a team's pods are in the cloud."""
    found: list[Violation] = []
    for chain, team in stack.teams():
        path = team_path(chain, team)
        if isinstance(stack.cluster, ExistingCluster):
            found += _nothing_made(path, team)
        else:
            found += [*_forms(path, stack.cluster, team), *_rights_of_others(path, team)]
    return [*found, *_alike(stack)]


def _nothing_made(path: str, team: Team) -> Iterator[Violation]:
    """A warning only: the same file may later describe a cluster that Muster makes."""
    said = {"identity": POD_ACCOUNT} if team.access.identity else {}
    said |= {"buckets": POD_ACCOUNT} if team.access.buckets else {}
    said |= {
        at("serviceAccounts", name): name
        for name, identity in team.access.accounts.items()
        if identity is not None
    }
    for key, account in said.items():
        message = "it has no effect in an existing cluster, whose owner makes its cloud identities."
        # An account itself is made there too, and may stay without its identity.
        what = key if account == POD_ACCOUNT else f"the identity of {account}"
        fix = (
            f"bind the ServiceAccount {account} of namespace {' and '.join(team.namespaces)} to an identity "
            f"yourself, or take {what} away."
        )
        yield Violation(at(path, key), message, fix, "warning")


def _forms(path: str, cluster: Cluster, team: Team) -> Iterator[Violation]:
    is_amazon = isinstance(cluster, EksCluster)
    own = {at("serviceAccounts", name): identity for name, identity in team.access.accounts.items()}
    for key, identity in {"identity": team.access.identity, **own}.items():
        if identity is not None and not is_identity(cluster, identity):
            noun = "the ARN of an IAM role" if is_amazon else "the address of a Google service account"
            form = (
                "arn:aws:iam::123456789012:role/name" if is_amazon else "name@project.iam.gserviceaccount.com"
            )
            yield Violation(at(path, key), f"{identity!r} is not {noun}.", f"write one like {form}.")
    for bucket in team.access.buckets:
        if not is_bucket(cluster, bucket):
            message = (
                f"{bucket!r} cannot be the name of a bucket in {'S3' if is_amazon else 'Cloud Storage'}."
            )
            fix = "write only its name, without s3://, gs://, a path or a wildcard."
            yield Violation(at(path, f"buckets.{bucket}"), message, fix)


def _rights_of_others(path: str, team: Team) -> Iterator[Violation]:
    if team.access.identity is not None and team.access.buckets:
        message = "an identity that a team names gets no rights from here, so these would never be granted."
        fix = "take `identity` away, and one is made with these rights; or grant them yourself."
        yield Violation(at(path, "buckets"), message, fix)


def _alike(stack: Stack) -> Iterator[Violation]:
    """Two resources of one name, which Pulumi refuses."""
    seen: dict[tuple[str, str], str] = {}
    for chain, team in stack.teams():
        path = team_path(chain, team)
        for key, kind, name in _resources(stack.cluster, team):
            owner = seen.setdefault((kind, name), path)
            if owner != path:
                message = f"its resource would have the same name as one of {owner}: team-{name}."
                yield Violation(at(path, key) if key else path, message, "rename one of the two teams.")


def _resources(cluster: Cluster, team: Team) -> Iterator[tuple[str, str, str]]:
    """Key, kind and name of what is made in the cloud for a team, former names included."""
    if isinstance(cluster, ExistingCluster):
        return
    has_own = team.access.identity is not None or is_made(cluster, team)
    for each in bound_accounts(team):
        key = "" if each.account == POD_ACCOUNT else at("serviceAccounts", each.account)
        if each.identity is not None or has_own:
            yield key, "binding", f"{team.name}{each.suffix}"
            if each.formerly is not None:
                yield key, "binding", f"{team.name}{each.formerly}"
    if isinstance(cluster, GkeCluster) and is_made(cluster, team):
        for bucket in team.access.buckets:
            yield at("buckets", bucket), "grant", f"{team.name}-{bucket}"
