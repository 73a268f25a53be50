"""What `muster check` answers to work that others published is what is right about it."""

import pytest

from tests.unit.check.public_work import Case, cases, differences


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_answers_published_work_rightly(case: Case) -> None:
    assert differences(case) == []
