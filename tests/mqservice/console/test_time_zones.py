"""The zone of pages: who chooses it, that times and forms follow it, that addresses say theirs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.template import Context, Template
from django.test import Client
from django.utils import timezone

from mqservice.console.alerts.forms import MuteForm
from mqservice.console.shared.form_times import field_time, utc_of
from mqservice.console.shared.time_zones import zone_names
from mqservice.groups.models import ConsumerGroup
from tests.people import People

PREFERENCES = "/console/preferences"
AUDIT = "/console/acme/audit"


def zone_of_page(client: Client, path: str = AUDIT) -> str:
    found = re.search(r'<html [^>]*data-zone="([^"]*)"', client.get(path).content.decode())
    assert found is not None
    return found[1]


def test_zone_is_the_chosen_one_else_the_browsers_else_utc(alice: Client) -> None:
    assert zone_of_page(alice) == "UTC"
    alice.cookies["mq_browser_zone"] = "Asia/Shanghai"
    assert zone_of_page(alice) == "Asia/Shanghai"
    assert b"data-zone-of-browser" in alice.get(AUDIT).content
    alice.post(PREFERENCES, {"time_zone": "America/New_York"})
    assert b"data-zone-of-browser" not in alice.get(AUDIT).content
    assert zone_of_page(alice) == "America/New_York"
    alice.post(PREFERENCES, {"time_zone": "UTC"})
    assert zone_of_page(alice) == "UTC"
    alice.post(PREFERENCES, {"time_zone": "browser"})
    assert zone_of_page(alice) == "Asia/Shanghai"


@pytest.mark.parametrize("name", ["", "Mars/Base", "../../etc/passwd", '"><b>', "x" * 5_000])
def test_what_is_no_zone_is_none(alice: Client, name: str) -> None:
    assert "mq_zone" not in alice.post(PREFERENCES, {"time_zone": name}).cookies
    alice.cookies["mq_zone"] = alice.cookies["mq_browser_zone"] = name
    assert zone_of_page(alice) == "UTC"
    assert alice.get(AUDIT, {"zone": name, "from": "2026-01-01T00:00"}).status_code == 200


def test_page_of_zones_offers_each_and_leads_back_to_ours_only(alice: Client) -> None:
    page = alice.get("/console/-/time-zone", {"next": AUDIT}).content.decode()
    assert page.count("<option") == len(zone_names()) + 1
    assert f'href="{AUDIT}"' in page
    assert 'value="Europe/Berlin"' in page
    page = alice.get("/console/-/time-zone", {"next": "https://evil.example"}).content.decode()
    assert 'href="https://evil' not in page
    assert alice.post("/console/-/time-zone").status_code == 405


def test_times_of_a_page_are_written_in_its_zone_with_the_distance_from_utc() -> None:
    text = "{% load parts %}{% moment at 'ms' %}"
    at = datetime(2026, 7, 1, 22, 30, 15, 250_000, UTC)
    for zone, shown in (
        ("UTC", "2026-07-01 22:30:15.250 UTC"),
        ("Asia/Kolkata", "2026-07-02 04:00:15.250 +05:30"),
        ("America/New_York", "2026-07-01 18:30:15.250 -04:00"),
    ):
        with timezone.override(ZoneInfo(zone)):
            html = Template(text).render(Context({"at": at}))
            assert Template(text).render(Context({"at": "2026-07-01T22:30:15.250Z"})) == html
        assert 'datetime="2026-07-01T22:30:15.250Z"' in html
        assert f">{shown}<" in html


@pytest.mark.parametrize(
    ("text", "zone", "utc"),
    [
        ("2026-07-01T10:00", "Europe/Berlin", "2026-07-01T08:00:00Z"),
        ("2026-01-01T10:00:05", "Europe/Berlin", "2026-01-01T09:00:05Z"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30:00Z"),  # the first of two
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:30:00Z"),  # there is none such
        ("2026-07-01T10:00Z", "Europe/Berlin", "2026-07-01T10:00:00Z"),
        ("2026-07-01T10:00+02:00", "UTC", "2026-07-01T08:00:00Z"),
        ("some day", "Europe/Berlin", "some day"),
        ("0001-01-01T00:00", "Asia/Tokyo", "0001-01-01T00:00"),
        ("", "UTC", ""),
    ],
)
def test_time_of_a_form_is_in_the_zone_of_the_form(text: str, zone: str, utc: str) -> None:
    assert utc_of(text, ZoneInfo(zone)) == utc


def test_field_shows_again_what_was_typed() -> None:
    with timezone.override(ZoneInfo("Europe/Berlin")):
        assert field_time("2026-07-01T08:00:00Z") == "2026-07-01T10:00:00"
        assert field_time("some day") == "some day"
        assert field_time("2026-07-01T08:00") == "2026-07-01T08:00"  # says no zone


def test_address_that_is_shared_means_the_same_times_for_every_reader(alice: Client) -> None:
    query = {"from": "2026-07-01T10:00", "zone": "Europe/Berlin"}
    alice.cookies["mq_zone"] = "Asia/Tokyo"
    page = alice.get(AUDIT, query).content.decode()
    assert 'value="2026-07-01T17:00:00"' in page
    assert 'name="zone" value="Asia/Tokyo"' in page
    assert "From, Asia/Tokyo" in page
    assert "from=2026-07-01T08%3A00%3A00Z" in page  # of the file and the command
    assert (
        'value="2026-07-01T19:00:00"'
        in alice.get(AUDIT, {"from": "2026-07-01T10:00"}).content.decode()
    )  # one that names no zone has UTC


def test_forms_with_times_say_their_zone_and_mean_it(people: People, alice: Client) -> None:
    alice.cookies["mq_zone"] = "Europe/Berlin"
    form = alice.get("/console/acme/new-group").content.decode()
    assert "Start time, Europe/Berlin" in form
    assert 'name="zone" value="Europe/Berlin"' in form
    with timezone.override(ZoneInfo("Europe/Berlin")):
        mute = MuteForm({"length": "1h", "until": "2026-07-01T10:00", "zone": "America/New_York"})
        assert mute.is_valid()
        assert mute.cleaned_data["until"] == "2026-07-01T14:00:00Z"
        assert 'value="2026-07-01T16:00:00"' in str(mute["until"])
    assert not ConsumerGroup.objects.exists()


def test_api_stays_in_utc(people: People, alice: Client) -> None:
    alice.cookies["mq_zone"] = "Asia/Tokyo"
    alice.get(AUDIT)
    key = {"authorization": f"Bearer {people.acme_admin_key}"}
    times = [row["created_at"] for row in alice.get("/v1/keys", headers=key).json()["keys"]]
    assert times
    assert all(each.endswith("Z") for each in times)
