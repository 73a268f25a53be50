"""Cloud identities of teams: identities and buckets that the stack's cloud can provide."""

from collections.abc import Iterator

from muster.model.clusters import Cluster, EksCluster, ExistingCluster
from muster.model.identities import POD_ACCOUNT, is_bucket, is_identity
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
    return found


def _nothing_made(path: str, team: Team) -> Iterator[Violation]:
    """A warning only: the same file may later describe a cluster that Muster makes."""
    for key, said in (("identity", team.access.identity), ("buckets", team.access.buckets)):
        if said:
            message = "it has no effect in an existing cluster, whose owner makes its cloud identities."
            fix = (
                f"bind the ServiceAccount {POD_ACCOUNT} of namespace {team.namespace} to an identity "
                f"yourself, or take {key} away."
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
