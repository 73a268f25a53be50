"""Config paths of `kueue:` sections."""

from muster.model.kueue import AdmissionCheck
from muster.model.pools import Pool
from muster.model.queues import Department, Team
from muster.model.violations import at
from muster.validation.paths import department_path, team_path


def pool_path(pool: Pool, *parts: str | int) -> str:
    return at("muster:pools", pool.name, "kueue", *parts)


def cohort_path(chain: tuple[Department, ...], *parts: str | int) -> str:
    return at(department_path(chain), "kueue", *parts)


def queue_path(chain: tuple[Department, ...], team: Team, *parts: str | int) -> str:
    return at(team_path(chain, team), "kueue", *parts)


def check_path(check: AdmissionCheck, *parts: str | int) -> str:
    return at("muster:kueue", "admissionChecks", check.name, *parts)
