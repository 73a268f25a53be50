"""Which modules a Go program has: those that the linker lists in it."""

import pytest

from muster.artifacts.publish.bom import BuildInfo, build_info
from muster.errors import MusterError
from tests.unit.artifacts.go_program import MAGIC, go_program


def test_a_program_says_its_go_and_its_modules() -> None:
    program = go_program("dep\ta.b/c\tv1.0.0\th1:\ndep\td.e/f\tv2.0.0\th1:\n")
    assert build_info(program, name="x") == BuildInfo("1.26.8", (("a.b/c", "v1.0.0"), ("d.e/f", "v2.0.0")))


@pytest.mark.parametrize(
    ("listed", "modules"),
    [
        ("dep\ta.b/x\tv1.0.0\n=>\tg.h/f\tv2.0.0\th1:\n", (("g.h/f", "v2.0.0"),)),
        ("mod\ta.b/main\tv3.0.0\n=>\t/tmp/patched\t(devel)\t\n", (("a.b/main", "v3.0.0"),)),
        ("mod\tmuster.dev/programs/x\t(devel)\t\n", ()),
    ],
    ids=["what replaces one", "the program's own, which a patched folder replaced", "ours, of no version"],
)
def test_a_module_is_listed_under_what_was_compiled_and_published(
    listed: str, modules: tuple[tuple[str, str], ...]
) -> None:
    program = go_program(f"{listed}dep\ta.b/c\tv1.0.0\th1:\n")
    assert build_info(program, name="x").modules == (*modules, ("a.b/c", "v1.0.0"))


def test_a_program_that_looks_for_the_list_in_others_is_not_mistaken() -> None:
    program = b"constant" + MAGIC + bytes(10) + go_program("dep\ta.b/c\tv1.0.0\th1:\n")
    assert build_info(program, name="x").modules == (("a.b/c", "v1.0.0"),)


def test_what_is_no_go_program_is_refused_by_name() -> None:
    with pytest.raises(MusterError, match=r"^tool: lists no Go modules\. Fix: "):
        build_info(b"\x7fELF" + bytes(100), name="tool")
