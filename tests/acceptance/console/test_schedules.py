"""A cron schedule from the form to its messages, in a browser, on the whole service with beat."""

from __future__ import annotations

import re
from collections.abc import Callable

import psycopg
import pytest
from playwright.sync_api import Page, expect

from mqservice.lib.clock import SystemClock
from mqservice.supervisor import operator_commands
from tests.acceptance.console.messages import schedule
from tests.services import Service, client_of, consume

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
New = Callable[..., Page]


@pytest.mark.parametrize("width", [1440, pytest.param(390, marks=pytest.mark.torture)])
def test_next_runs_are_seen_as_they_are_typed_and_the_schedule_is_sent(
    new_page: New, width: int
) -> None:
    page = new_page(width, timezone_id="Asia/Shanghai")
    name = f"typed-{width}"
    page.goto("/console/demo/new-schedule?topic=orders")
    expect(page.get_by_label("Time zone")).to_have_value("Asia/Shanghai")
    page.get_by_label("Name", exact=True).fill(name)
    cron = page.get_by_label("Cron expression")
    cron.press_sequentially("61 * * * *")
    expect(page.locator("#runs")).to_contain_text("is invalid in the minute")
    cron.fill("30 9 1 * *")
    expect(page.locator("#runs")).to_contain_text("on day 1 of the month at 09:30")
    expect(page.locator("#runs tbody tr")).to_have_count(10)
    expect(page.locator("#runs tbody time").first).to_contain_text("-01 09:30")
    page.get_by_label("Time zone").fill("UTC")
    page.get_by_label("Time zone").press("Tab")
    expect(page.locator("#runs tbody time").first).to_contain_text("-01 17:30")
    expect(page.locator("#runs tbody td:nth-child(2)").first).to_contain_text("-01 09:30 +0000")
    page.get_by_role("button", name="Create schedule").click()
    page.wait_for_url(f"**/schedules/{name}")

    page.get_by_role("button", name="Send now").click()
    expect(page.get_by_text(re.compile("Stored in queue"))).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("No runs while it is paused.")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("tbody tr")).to_have_count(10)
    page.get_by_role("link", name="Delete").click()
    page.get_by_label(f"Type {name} to confirm").fill(name)
    page.get_by_role("button", name="Delete schedule").click()
    page.wait_for_url("**/schedules")
    expect(page.get_by_role("link", name=name)).to_have_count(0)


def test_beat_sends_it_when_it_is_due_and_the_page_leads_to_the_message(
    new_page: New, service: Service
) -> None:
    with client_of(service.facts) as mq:
        mq.topics.create("years", queues=1)
        mq.groups.create("years")
    schedule(service, "each-year", topic="years", message={"body": "tick"})
    let_come(service, "each-year")
    [first] = consume(service.facts, "years", "years", count=1, wait="30s")
    page = new_page()
    page.goto("/console/demo/schedules/each-year")
    page.locator("dd a code").click()
    expect(page.get_by_text("mq_planned_at")).to_be_visible()
    expect(page.get_by_text(first.id).first).to_be_visible()
    expect(page.locator("pre.body").first).to_have_text("tick")


def let_come(service: Service, name: str) -> None:
    """The planned time of a schedule, so that nobody waits for it."""
    url = operator_commands.service_environment({}, service.data_dir)["DATABASE_URL"]
    now_ms = SystemClock().now_ms()
    with psycopg.connect(url) as connection:
        done = connection.execute(
            "UPDATE schedules_schedule SET next_ms = %s, due_ms = %s WHERE name = %s",
            (now_ms, now_ms, name),
        )
        assert done.rowcount == 1
