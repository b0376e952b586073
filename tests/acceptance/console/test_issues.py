"""Issues as people meet them, on the whole service: failures come, one issue, resolved, again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from mqservice_client import Client
from playwright.sync_api import Page, expect

from tests.acceptance.console.accessibility import serious_faults
from tests.mqservice.delivery.wait_until import wait_until
from tests.services import Service, client_of

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
GROUP = "issue-makers"
LIST = f"/console/demo/issues?group={GROUP}"


class Failures:
    """Messages that a group gives up for given reasons."""

    def __init__(self, mq: Client) -> None:
        self._mq = mq
        mq.topics.create(GROUP, queues=1)
        mq.groups.create(GROUP)

    def happen(self, *reasons: str) -> None:
        before = self.count()
        with self._mq.subscribe(GROUP, GROUP) as messages:
            for reason in reasons:
                self._mq.send(GROUP, "x")
                message = messages.get("20s")
                assert message is not None
                message.dead_letter(reason)
        wait_until(lambda: self.count() == before + len(reasons))

    def count(self) -> int:
        return sum(issue.count for issue in self._mq.issues.iterate(group=GROUP))


@pytest.fixture
def failures(service: Service) -> Iterator[Failures]:
    with client_of(service.facts) as mq:
        yield Failures(mq)


def faults_of(page: Page) -> list[str]:
    """Of the page for those who see or hear it, in both themes, and on a phone."""
    found: list[str] = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        found += serious_faults(page, theme)
    page.set_viewport_size({"width": 390, "height": 900})
    beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    page.set_viewport_size({"width": 1440, "height": 900})
    return [*found, *([f"{beyond} px too wide"] if beyond > 0 else [])]


@pytest.mark.torture
def test_failures_of_one_cause_are_one_issue_that_comes_back(
    page: Page, failures: Failures
) -> None:
    # Given
    failures.happen(*(f"no stock for order {number}" for number in range(3)), "card refused")
    # When
    page.goto(LIST)
    # Then
    expect(page.locator("tbody tr")).to_have_count(2)
    row = page.locator("tbody tr", has_text="no stock for order <n>")
    expect(row.locator("td.number")).to_have_text("3")
    row.get_by_role("link").first.click()
    expect(page.get_by_text("no stock for order 2")).to_be_visible()
    page.get_by_role("button", name="Resolve").click()
    expect(page.get_by_text("a new dead letter reopens the issue")).to_be_visible()
    page.goto(LIST)
    expect(page.locator("tbody tr")).to_have_count(1)

    # When it happens again
    failures.happen("no stock for order 77")
    page.goto(LIST)
    row = page.locator("tbody tr", has_text="no stock for order <n>")
    expect(row).to_contain_text("reopened")
    row.get_by_role("link").first.click()
    expect(page.get_by_text("new dead letter after it was resolved")).to_be_visible()
    assert faults_of(page) == []
    # Then its messages lead to the dead letter, and can be sent again
    page.locator("tbody a.name").first.click()
    expect(page.get_by_text("no stock for order 77").first).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="Redrive these messages").click()
    expect(page).to_have_url(re.compile(r"/redrive\?id="))
