"""`make test-changed` runs what a change can break, and nothing that it cannot."""

import pytest

from tests.changed import Selection, select


def _folders(selection: Selection) -> set[str]:
    return {name.rpartition("/")[0] for name in selection.chosen}


def test_a_change_of_the_report_does_not_run_the_controllers_tests() -> None:
    selection = select(["muster/preview/banner.py"])
    assert {"tests/unit/preview", "tests/browser", "tests/integration/preview"} <= _folders(selection)
    assert not {"tests/unit/admission", "tests/unit/kai", "tests/faults"} & _folders(selection)


def test_a_change_of_the_controller_runs_the_suites_that_start_it() -> None:
    selection = select(["muster/controller/kueue/decide.py"])
    started = {"tests/integration/kueue_api", "tests/faults", "tests/integration/images", "tests/e2e"}
    assert started <= _folders(selection)
    assert not {"tests/unit/preview", "tests/clouds", "tests/policies"} & _folders(selection)


def test_a_policy_of_the_pack_runs_the_tests_of_its_program() -> None:
    assert {"tests/policies", "tests/clouds"} <= _folders(select(["policies/gke.py"]))


def test_data_of_a_package_counts_as_all_of_its_modules() -> None:
    assert "tests/unit/artifacts" in _folders(select(["muster/artifacts/data/versions.toml"]))


def test_a_helper_selects_the_tests_that_import_it() -> None:
    selection = select(["tests/unit/kai/kai_world.py", "tests/integration/kueue_api/world.py"])
    assert {"tests/integration/kueue_api"} <= _folders(selection)
    assert "tests/clouds" not in _folders(selection)


def test_a_page_runs_what_reads_the_pages() -> None:
    selection = select(["docs/kai.md"])
    assert "tests/unit/docs" in _folders(selection)
    assert not {"tests/e2e/test_gang.py", "tests/unit/kai/test_kai_endings.py"} & selection.chosen


@pytest.mark.parametrize("path", ["Makefile", "pyproject.toml", "a-new-file"])
def test_a_file_that_cannot_be_placed_runs_everything(path: str) -> None:
    selection = select([path])
    assert selection.unplaced == (path,)
    assert not selection.skipped


def test_nothing_changed_runs_nothing() -> None:
    assert not select([]).chosen
