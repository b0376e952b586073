"""Masking as two people see it, each in a browser of their own, on the whole service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest
from mqservice_client import Client
from playwright.sync_api import Browser, Page, expect

from tests.services import Service, client_of

pytestmark = [pytest.mark.torture, pytest.mark.acceptance, pytest.mark.timeout(600)]
CARD: Final = "4111-1111"
PASSWORD: Final = "a long and winding phrase"
TOPIC: Final = "masked-cards"
MESSAGES: Final = f"/console/demo/topics/{TOPIC}/messages"


@pytest.fixture
def mq(service: Service) -> Iterator[Client]:
    with client_of(service.facts) as client:
        yield client


def test_developer_sees_masks_where_the_owner_sees_values(
    page: Page, browser: Browser, service: Service, mq: Client
) -> None:
    mq.topics.create(TOPIC, queues=1)
    bodies: tuple[Any, ...] = ({"n": 1, "card": [{"number": CARD}]}, CARD)
    ids = [mq.send(TOPIC, body).id for body in bodies]

    page.goto("/console/demo/masking")
    page.get_by_role("link", name="New rule").first.click()
    page.get_by_label("Name", exact=True).fill("cards")
    page.get_by_label("Topics", exact=True).fill("masked-*")
    page.get_by_label("Field or property").fill("/card/number")
    page.get_by_role("button", name="Create rule").click()
    expect(page.locator("tbody")).to_contain_text("/card/number")
    page.goto(f"{MESSAGES}/{ids[0]}")
    expect(page.get_by_role("group", name="Body as a tree")).to_contain_text(CARD)

    developer = _developer(page, browser, service.facts.base_url)
    developer.goto(MESSAGES)
    expect(developer.locator("tbody tr").first).to_contain_text("hidden from your role")
    expect(developer.locator("tbody tr").nth(1)).to_contain_text("•••••")
    for address in (MESSAGES, *(f"{MESSAGES}/{each}" for each in ids)):
        developer.goto(address)
        assert CARD not in developer.content()
    expect(developer.get_by_text("The body is hidden from your role by masking.")).to_be_visible()
    developer.goto(f"{MESSAGES}/{ids[0]}")
    with developer.expect_download() as download:
        developer.get_by_role("link", name="Download body").click()
    assert download.value.path().read_text() == '{"n": 1, "card": [{"number": "•••••"}]}'
    developer.goto(f"{MESSAGES}?contains={CARD}")
    expect(developer.get_by_role("alert")).to_contain_text("hidden from your role")

    developer.goto(f"/console/demo/tail?topic={TOPIC}")
    developer.get_by_role("button", name="Start").click()
    expect(developer.locator("tbody tr")).to_have_count(2)
    expect(developer.locator("tbody")).to_contain_text("•••••")
    assert CARD not in developer.locator("tbody").inner_text()

    read = mq.messages.get(TOPIC, ids[0])
    assert read.json()["card"][0]["number"] == CARD  # programs with a key are not masked
    page.goto("/console/demo/audit?action=messages.unmasked")
    expect(page.locator("tbody tr").first).to_contain_text(f"topics/{TOPIC}")


def _developer(page: Page, browser: Browser, base_url: str) -> Page:
    """Somebody who was invited as one, signed in; ``page`` is the owner's."""
    page.goto("/console/demo/invite")
    page.get_by_label("Email").fill("dora@example.com")
    page.get_by_label("Role").select_option("developer")
    page.get_by_role("button", name="Create invitation").click()
    token = page.locator("#link").inner_text().strip().rstrip("/").rpartition("/")[2]
    joined = {"token": token, "username": "dora", "password": PASSWORD}
    httpx.post(f"{base_url}/v1/invitations:accept", json=joined).raise_for_status()
    context = browser.new_context(base_url=base_url)
    context.set_default_timeout(60_000)
    theirs = context.new_page()
    theirs.goto("/account/login/")
    theirs.get_by_label("Username or email").fill("dora")
    theirs.get_by_label("Password", exact=True).fill(PASSWORD)
    theirs.get_by_role("button", name="Sign in").click()
    theirs.wait_for_url(re.compile(r"/console/demo/"))
    return theirs
