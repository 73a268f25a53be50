"""Where in the config a `kueue:` section stands."""

from model.kueue import AdmissionCheck
from model.pools import Pool
from model.queues import Department, Team
from model.rules.paths import department_path, team_path
from model.violations import at


def pool_path(pool: Pool, *parts: str | int) -> str:
    return at("muster:pools", pool.name, "kueue", *parts)


def cohort_path(chain: tuple[Department, ...], *parts: str | int) -> str:
    return at(department_path(chain), "kueue", *parts)


def queue_path(chain: tuple[Department, ...], team: Team, *parts: str | int) -> str:
    return at(team_path(chain, team), "kueue", *parts)


def check_path(check: AdmissionCheck, *parts: str | int) -> str:
    return at("muster:kueue", "admissionChecks", check.name, *parts)
