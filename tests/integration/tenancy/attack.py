"""One attack of a tenant: the object that it writes, what that would gain, and the policy that refuses it.

An attack is tried in every way that its kind has: the object is created as each of three tenants
(`World.tenants`), in the short run as one of them in turn, and an ordinary object of the kind is changed into
it by PUT and by PATCH, as one of them in turn. All of it is dry run.

    Attack(
        name="RayJob in another team's queue",
        body=labelled(works.ray_job(), works.QUEUE, "team-b"),
        gains="another team's GPUs",
        policy="muster-work",
        path=f"RayJob.metadata.labels[{works.QUEUE}]",
        words=("does not belong to this namespace", "one of: default"),
    )
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from zlib import crc32

from tests.integration.tenancy import works
from tests.integration.tenancy.cluster import MERGE, Answer, Caller, Object
from tests.integration.tenancy.cluster import place as path_of
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import named
from tests.length import is_short

# What else refuses a request than one of our policies, and the words by which its refusal is known.
RBAC: Final = "RBAC"
API_SERVER: Final = "the API server"
_OTHERS: Final = {
    RBAC: "cannot ",
    "PodSecurity": "violates PodSecurity",
    "ResourceQuota": "exceeded quota",
    API_SERVER: "is invalid",
}
# What exists, by its address: it is never changed.
_STANDING: Final[dict[str, Object]] = {}


class Way(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    PATCH = "PATCH"
    DELETE = "DELETE"


WRITES: Final = (Way.CREATE, Way.UPDATE, Way.PATCH)
CHANGES: Final = (Way.UPDATE, Way.PATCH)

# What an attack of a kind is changed from, unless it names something else.
ORDINARY: Final[dict[str, Object]] = {
    "RayJob": works.ray_job(),
    "RayCluster": works.ray_cluster(),
    "RayService": works.ray_service(),
    "Job": works.job(),
    "CronJob": works.cron_job(),
    "Service": works.service(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """`path` is the field that carries the attack, in the notation of judgements.yaml. `policy` is a policy
    of Muster or one of `_OTHERS`; `words` are what its message holds besides: what is wrong and what to write
    instead. `by_rbac`: a team's members have no right to the request, so only a tenant with too many rights
    meets the policy. `before` is what exists, where that is not an ordinary object of the kind.
    `made_by`: the controller that made it, where no member did. `also` are policies that refuse it as well,
    in one way or another.
    """

    name: str
    body: Object
    gains: str
    policy: str
    path: str
    words: tuple[str, ...] = ()
    by_rbac: bool = False
    ways: tuple[Way, ...] = ()
    before: Object | None = None
    made_by: str = ""
    subresource: str = ""
    also: tuple[str, ...] = ()

    @property
    def tried(self) -> tuple[Way, ...]:
        if self.ways:
            return self.ways
        has_before = self.before is not None or self.body["kind"] in ORDINARY
        return WRITES if has_before else (Way.CREATE,)

    def attempts(self, world: World) -> Iterator[tuple[Way, Caller, Answer]]:
        standing = self._standing(world) if set(self.tried) & set(CHANGES) else None
        turn = crc32(self.name.encode())
        for way in self.tried:
            turn += 1
            # Where members have no right, the policy is met by the one who has too many.
            callers = (world.tenants[turn % 2], world.trusted) if self.by_rbac else (world.tenants[turn % 3],)
            for caller in world.tenants if way is Way.CREATE and not is_short() else callers:
                yield way, caller, self._attempt(caller, way, standing)

    def check(self, world: World) -> None:
        """Refused in every way to every tenant, by the policy that the attack names."""
        seen: set[str] = set()
        for way, caller, answer in self.attempts(world):
            where = f"{self.name}: {way} as {caller.name}: {answer.code} {answer.message}"
            assert answer.code in (403, 422), where
            refusals = answer.refusals
            seen |= refusals.keys()
            if self.by_rbac and caller is not world.trusted:
                assert "cannot " in answer.message, where
            elif not (way in CHANGES and _is_immutable(answer)):
                message = refusals.get(self.policy) or answer.message
                assert _OTHERS.get(self.policy, "") in message, where
                assert self.policy in refusals or self.policy in _OTHERS, where
                for word in self.words:
                    assert word in message, f"{word!r} is missing: {message}"
        assert seen >= set(self.also), f"{self.name}: refused by {', '.join(sorted(seen))} alone"

    @property
    def _before(self) -> Object:
        """What is changed into the attack; it remains for the other attacks of its kind."""
        kind = self.body["kind"]
        return self.before or named(ORDINARY[kind], f"ordinary-{kind.lower()}")

    def _standing(self, world: World) -> Object:
        path = path_of(self._before)
        if (found := _STANDING.get(world.server.url + path)) is None:
            answer = world.admin.get(path)
            if not answer.is_allowed:
                maker = world.trusted if self.by_rbac else world.member
                maker = world.controllers[self.made_by] if self.made_by else maker
                answer = maker.create(self._before, dry_run=False)
                assert answer.is_allowed, f"{self.name}: what exists before: {answer.message}"
            found = _STANDING.setdefault(world.server.url + path, answer.body)
        return found

    def _attempt(self, caller: Caller, way: Way, standing: Object | None) -> Answer:
        if way is Way.CREATE:
            return caller.create(self.body)
        if way is Way.DELETE:
            return caller.delete(self.before or self.body)
        assert standing is not None
        change = difference(self._before, named(self.body, self._before["metadata"]["name"]))
        path = path_of(standing) + (f"/{self.subresource}" if self.subresource else "") + "?dryRun=All"
        if way is Way.PATCH:
            return caller.send("PATCH", path, change, MERGE)
        return caller.send("PUT", path, merged(standing, change))


def in_each_template(
    name: str, *field: str, value: Any, gains: str, policy: str, words: tuple[str, ...], path: str
) -> tuple[Attack, ...]:
    """The same attack in every pod template that a tenant writes; `path` is relative to the template, and
    `{at}` in a word is where the template is.
    """
    return tuple(
        Attack(
            name=f"{name}, in {place}",
            body=works.in_template(place, *field, value=value),
            gains=gains,
            policy=policy,
            path=f"{place}.{path}",
            words=tuple(word.replace("{at}", _template_at(place)) for word in words),
            before=named(body, f"ordinary-{index}"),
        )
        for index, (place, body) in enumerate(works.TEMPLATES.items())
    )


def _template_at(place: str) -> str:
    """As a policy names it, which has no number for a group."""
    return place.partition(".")[2].replace("[].template", " of gpu")


def difference(before: Object, after: Object) -> Object:
    """The merge patch that makes one of the other."""
    found: Object = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := difference(old, value):
                found[key] = inner
        elif old != value:
            found[key] = value
    return found


def merged(body: Object, change: Object) -> Object:
    """What a merge patch makes of an object."""
    found = {key: value for key, value in body.items() if change.get(key, value) is not None}
    for key, value in change.items():
        old = body.get(key)
        if isinstance(value, dict):
            found[key] = merged(old if isinstance(old, dict) else {}, value)
        elif value is not None:
            found[key] = value
    return found


def _is_immutable(answer: Answer) -> bool:
    return answer.code == 422 and "immutable" in answer.message
