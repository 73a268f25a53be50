"""Objects nested deeper than a parser goes end nobody, and are gangs like any other.

Whoever may change a Workload may write its managedFields, and 10 KiB of them are deeper than Python goes.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from muster.model import names
from tests.faults import gangs
from tests.faults.stage import Stage

# Deeper than Python goes unasked. At 9,900 levels the API server itself takes half a minute for a patch.
_LEVELS: Final = 1500


@pytest.fixture(autouse=True)
def deep_enough() -> Iterator[None]:
    """The tests' own `json` gives up like any other. The manager, another process, gets none of this."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(usual + 3 * _LEVELS)
    yield
    sys.setrecursionlimit(usual)


def test_a_deep_workload_ends_no_manager_whether_it_is_listed_or_watched(stage: Stage) -> None:
    listed = stage.submit(managed=[_deep()])
    with stage.manager().kept() as manager:
        watched, plain = stage.submit(managed=[_deep()]), stage.submit()
        stage.runs(listed, watched, plain)
        for name in (listed, watched):
            stored = json.dumps(gangs.read(stage.plane, name))
            assert stored.count('"f:a"') == _LEVELS, f"{name} has lost its depth: nothing was tried"
        stage.end(listed, watched, plain)
        stage.judge()
    assert manager.exits == []


def _deep() -> dict[str, Any]:
    field = json.loads('{"f:a":' * _LEVELS + "{}" + "}" * _LEVELS)
    owned = {"manager": "deep", "operation": "Update", "apiVersion": names.KUEUE_API_VERSION}
    return {**owned, "fieldsType": "FieldsV1", "fieldsV1": field}
