"""Property tests judge what is true, not how fast this machine is today."""

import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.length import examples

# On top of what is in force already: under CI hypothesis chooses its examples reproducibly by itself.
settings.register_profile(
    "muster",
    parent=settings(),
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("muster")

# Support of a Kubernetes version ends on a day: a test is about another one where it names it.
os.environ.setdefault("MUSTER_TODAY", "2026-11-23")


@pytest.fixture(autouse=True, scope="module")
def _restored_logs() -> Iterator[None]:
    """A program that a test runs configures the logs of the whole process."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
