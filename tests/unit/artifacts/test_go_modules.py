"""Which modules a Go program has: those that the linker lists in it."""

import pytest

from muster.artifacts.publish.bom import BuildInfo, build_info
from muster.errors import MusterError
from tests.unit.artifacts.go_program import MAGIC, go_program


def test_a_program_says_its_go_and_its_modules() -> None:
    program = go_program("dep\ta.b/c\tv1.0.0\th1:\ndep\td.e/f\tv2.0.0\th1:\n")
    assert build_info(program, name="x") == BuildInfo("1.26.8", (("a.b/c", "v1.0.0"), ("d.e/f", "v2.0.0")))


def test_the_replacement_of_a_module_is_listed_in_its_place() -> None:
    program = go_program("dep\ta.b/c\tv1.0.0\n=>\tg.h/f\tv2.0.0\th1:\n")
    assert build_info(program, name="x").modules == (("g.h/f", "v2.0.0"),)


def test_the_program_s_own_module_is_listed_under_its_version_also_where_a_patched_folder_replaced_it() -> (
    None
):
    program = go_program("mod\ta.b/main\tv3.0.0\n=>\t/tmp/patched\t(devel)\t\ndep\ta.b/c\tv1.0.0\th1:\n")
    assert build_info(program, name="x").modules == (("a.b/main", "v3.0.0"), ("a.b/c", "v1.0.0"))


def test_a_module_without_a_version_is_ours_and_not_listed() -> None:
    program = go_program("mod\tmuster.dev/programs/x\t(devel)\t\ndep\ta.b/c\tv1.0.0\th1:\n")
    assert build_info(program, name="x").modules == (("a.b/c", "v1.0.0"),)


def test_a_program_that_looks_for_the_list_in_others_is_not_mistaken() -> None:
    program = b"constant" + MAGIC + bytes(10) + go_program("dep\ta.b/c\tv1.0.0\th1:\n")
    assert build_info(program, name="x").modules == (("a.b/c", "v1.0.0"),)


def test_what_is_no_go_program_is_refused_by_name() -> None:
    with pytest.raises(MusterError, match=r"^tool: lists no Go modules\. Fix: "):
        build_info(b"\x7fELF" + bytes(100), name="tool")
