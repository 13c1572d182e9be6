r"""A real browser for the tests of the pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: Set where there has to be a browser, so that no test is left out.
REQUIRED = "REQUIRE_PEERS"
# 4 m away from a screen of 96 pixels per inch.
DISTANCE_CM = 400
TIMEOUT = 20_000  # milliseconds


def find_browser() -> str:
    """The program; without one the test is skipped."""
    found = [path for path in map(shutil.which, NAMES) if path is not None]
    if found:
        return found[0]
    if os.environ.get(REQUIRED):
        pytest.fail("there has to be a browser, but none was found")
    pytest.skip("there is no Chromium on this machine")


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser that shows nothing on the screen."""
    program = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser: Browser, url: str, **options: Any) -> Page:
    """A page in a profile of its own that fails the test on errors of scripts."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(TIMEOUT)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: _note(message, errors))
    page.goto(url)
    page.errors = errors  # type: ignore[attr-defined]
    return page


def _note(message: Any, errors: list[str]) -> None:
    # A refused or lost request is not a mistake of a script.
    if message.type == "error" and "Failed to load resource" not in message.text:
        errors.append(message.text)


def close(page: Page) -> None:
    errors = page.errors  # type: ignore[attr-defined]
    page.context.close()
    assert errors == []


def begin(page: Page) -> None:
    """Go from the welcome to the first letter of an eye chart."""
    page.click("#start")
    page.fill("#distance", str(DISTANCE_CM))
    page.click("#calibrated")
