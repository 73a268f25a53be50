"""The digest goes into the stack file, and nothing else of it changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.artifacts.publish.build import StackFileError, with_image

TEXT = """\
# A stack.
config: # ours
  muster:cluster: {provider: gke}   # keep me
  # muster:image: an old one
  muster:image: a/b@sha256:1
"""


def test_the_line_is_replaced_and_comments_stay() -> None:
    fresh = with_image(TEXT, "c/d@sha256:2", source="x")
    assert fresh == TEXT.replace("  muster:image: a/b@sha256:1", "  muster:image: c/d@sha256:2")


def test_a_file_without_the_line_gets_it_first() -> None:
    fresh = with_image("config:\n  muster:scheduler: kai\n", "c/d@sha256:2", source="x")
    assert fresh == "config:\n  muster:image: c/d@sha256:2\n  muster:scheduler: kai\n"


def test_a_file_that_is_no_stack_is_refused_with_the_line_to_write() -> None:
    with pytest.raises(StackFileError, match=r"write `  muster:image: c/d"):
        with_image("{}", "c/d@sha256:2", source="x")


@given(st.lists(st.sampled_from(["config:", "  muster:image: x", "  # c", "  muster:a: b", ""]), max_size=6))
def test_writing_twice_is_writing_once(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        once = with_image(text, "r/i@sha256:2", source="x")
    except StackFileError:
        return
    assert with_image(once, "r/i@sha256:2", source="x") == once
