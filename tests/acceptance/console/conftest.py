"""A browser that is signed in to the console of the whole service."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.services import Service
from tests.storage_engine.faults.machine import need_chromium

REFUSALS: Final = re.compile("status of (404|409|422)")  # which browsers tell as faults
New = Callable[..., Page]
WAIT_MS: Final = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for the module: as long as it runs, so does a loop on this thread."""
    path = need_chromium()
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])


@pytest.fixture(scope="module")
def session(browser: Browser, service: Service) -> dict[str, object]:
    """Cookies of somebody who has signed in."""
    context = browser.new_context(base_url=service.facts.base_url)
    page = context.new_page()
    page.goto("/account/login/")
    page.get_by_label(re.compile("user ?name|login|e-?mail", re.IGNORECASE)).fill(
        service.facts.username
    )
    page.get_by_label("Password", exact=True).fill(service.facts.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(re.compile(r"/console/demo/"))
    state = context.storage_state()
    context.close()
    return {"storage_state": state, "base_url": service.facts.base_url}


@pytest.fixture
def faults() -> list[str]:
    """What the pages of a test had to complain of; a test takes out what it wanted."""
    return []


@pytest.fixture
def new_page(browser: Browser, session: dict[str, object], faults: list[str]) -> Iterator[New]:
    """Makes a page that is signed in; each has to end without a fault in its console."""
    contexts: list[BrowserContext] = []

    def make(width: int = 1440, **options: object) -> Page:
        given = {**session, "viewport": {"width": width, "height": 900}, **options}
        context = browser.new_context(**given)  # type: ignore[arg-type]  # as Playwright names them
        context.set_default_timeout(WAIT_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "console",
            lambda said: (
                faults.append(said.text)
                if said.type == "error" and not REFUSALS.search(said.text)
                else None
            ),
        )
        return page

    yield make
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def page(new_page: New) -> Page:
    return new_page()
