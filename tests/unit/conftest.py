"""Property tests judge what is true, not how fast this machine is today."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# On top of what is in force already: under CI hypothesis chooses its examples reproducibly by itself.
settings.register_profile(
    "muster", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("muster")
