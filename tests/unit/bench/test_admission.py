"""What the bench of admission reads from the wire and from the API server's metrics."""

import pytest

from bench.admission import Spent, spent, spread

_NAME = "apiserver_admission_controller_admission_duration_seconds"
_METRICS = "\n".join(
    f'{_NAME}_{what}{{name="{plugin}",operation="{operation}",rejected="{rejected}",type="validate"}} {value}'
    for what, plugin, operation, rejected, value in (
        ("sum", "ValidatingAdmissionPolicy", "CREATE", "false", "1.5"),
        ("count", "ValidatingAdmissionPolicy", "CREATE", "false", "300"),
        ("sum", "ValidatingAdmissionPolicy", "CREATE", "true", "99"),
        ("sum", "ValidatingAdmissionPolicy", "UPDATE", "false", "99"),
        ("sum", "ResourceQuota", "CREATE", "false", "99"),
    )
)


def test_the_time_in_policies_is_that_of_allowed_creations() -> None:
    assert spent(_METRICS) == Spent(1.5, 300)
    assert spent(_METRICS).since(Spent(0.5, 100)) == pytest.approx(5.0)
    assert Spent(1.0, 5).since(Spent(1.0, 5)) == 0


def test_a_spread_is_the_median_and_both_ends() -> None:
    assert spread([3.0, 1.0, 2.0]) == "2.0 (1.0 to 3.0)"
    assert spread([0.123, 0.456], digits=2) == "0.29 (0.12 to 0.46)"
