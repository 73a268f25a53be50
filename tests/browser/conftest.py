"""Runs the distribution's Chromium, headless and without a network.

A machine that lacks it gets it by apt-get, as it gets what a plane needs; where that is not possible the
tests are skipped and say so.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Route, sync_playwright

from muster.local import packages
from muster.local.build.versions import Package
from muster.local.errors import LocalClusterError
from tests.browser.pages import everything

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def _program() -> str:
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        try:
            packages.install([Package(name="chromium", command="chromium", floor="")])
        except LocalClusterError as error:
            pytest.skip(f"no Chromium: {error}")
        found = shutil.which("chromium")
    assert found is not None
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = _program()
    with sync_playwright() as driver:
        # As root Chromium starts without its sandbox alone; what it opens here are files of our own.
        started = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=60_000
        )
        yield started
        started.close()


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
