"""The mutants that `python -m tests.mutants` tries: code that can be run, and that does something else."""

import ast

import pytest

from tests.budget import ROOT
from tests.mutants import drawn, mutants


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("a < b <= c", ["(a <= b <= c)", "(a < b < c)"]),
        ("a and not b", ["(a or not b)", "a and (b)"]),
        (
            "x = 1 if a else True",
            ["x = 1 if (not a) else True", "x = 2 if a else True", "x = 1 if a else False"],
        ),
        ("warn(min(a, b))", ["pass", "warn((max(a, b)))"]),
        ("é = 'ü' + a == 2", ["é = ('ü' + a != 2)", "é = 'ü' + a == 3"]),
    ],
)
def test_an_expression_is_changed_in_each_way_that_can_matter(code: str, changed: list[str]) -> None:
    assert [mutant.apply(code.encode()).decode() for mutant in mutants("a.py", code.encode())] == changed


@pytest.mark.parametrize(
    "code",
    [
        '"""1 < 2"""',
        "@cache(size=1)\ndef f(a: Literal[1]) -> Literal[2]: ...",
        "class A(B, frozen=True): ...",
        "raise ValueError(f'{a < b}')",
        "f'{a + 1}'",
    ],
)
def test_what_changes_no_decision_is_left_alone(code: str) -> None:
    assert list(mutants("a.py", code.encode())) == []


def test_a_seed_draws_the_same_sample_of_code_that_compiles() -> None:
    sample = drawn(44)
    assert sample == drawn(44)
    assert sample[:20] != drawn(45)[:20]
    assert len({mutant.name for mutant in sample}) == len(sample)
    for mutant in sample[:100]:
        source = (ROOT / mutant.path).read_bytes()
        assert ast.dump(ast.parse(mutant.apply(source))) != ast.dump(ast.parse(source))
