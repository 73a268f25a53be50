"""The distribution's Chromium, headless. A machine that lacks it gets it by apt-get, as it gets what a local
cluster needs.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from muster.local import preflight
from muster.local.builder.versions import Package

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser. LocalClusterError where it cannot be installed."""
    program = _program()
    with sync_playwright() as driver:
        # As root Chromium starts without its sandbox alone; what it opens here are files of our own.
        started = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=60_000
        )
        yield started
        started.close()


def _program() -> str:
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        preflight.install([Package(name="chromium", command="chromium", floor="")])
        found = shutil.which("chromium")
    assert found is not None
    return found
