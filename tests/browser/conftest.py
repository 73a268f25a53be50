"""A browser without a network. Where Chromium cannot be installed the tests are skipped and say so."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Route

from muster.local import LocalClusterError
from tests.browser.chromium import chromium
from tests.browser.pages import everything


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with contextlib.ExitStack() as stack:
        try:
            started = stack.enter_context(chromium())
        except LocalClusterError as error:
            pytest.skip(f"no Chromium: {error}")
        yield started


@pytest.fixture
def asked() -> list[str]:
    """What a page wanted from a network."""
    return []


@pytest.fixture
def context(browser: Browser, asked: list[str]) -> Iterator[BrowserContext]:
    """A window that gets the file it opens, and nothing else."""

    def answer(route: Route) -> None:
        if route.request.url.startswith("file:"):
            route.continue_()
        else:
            asked.append(route.request.url)
            route.abort()

    made = browser.new_context()
    made.route("**/*", answer)
    yield made
    made.close()


@pytest.fixture
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The page, as a file: the report's, or the one that a test names in its parameter."""
    path = tmp_path / "preview.html"
    path.write_text(getattr(request, "param", everything)(), encoding="utf-8")
    return path
