"""Pieces of pages: times, small drawings, addresses."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.template import Context, Template
from django.urls import NoReverseMatch
from django.utils import timezone

from mqservice.console.templatetags.parts import moment, trend


@pytest.mark.parametrize(
    ("zone", "precision", "shown"),
    [
        ("UTC", "m", "2026-01-31 23:59 UTC"),
        ("UTC", "s", "2026-01-31 23:59:58 UTC"),
        ("UTC", "ms", "2026-01-31 23:59:58.007 UTC"),
        ("Asia/Kolkata", "ms", "2026-02-01 05:29:58.007 +05:30"),
        ("America/St_Johns", "s", "2026-01-31 20:29:58 -03:30"),
        ("Africa/Abidjan", "s", "2026-01-31 23:59:58 +00:00"),
    ],
)
def test_a_moment_is_shown_in_the_zone_of_the_page(zone: str, precision: str, shown: str) -> None:
    at = datetime(2026, 1, 31, 23, 59, 58, 7_999, tzinfo=UTC)
    with timezone.override(ZoneInfo(zone)):
        text = moment(at, precision)
        assert text == (
            f'<time datetime="2026-01-31T23:59:58.007Z" data-precision="{precision}">{shown}</time>'
        )
        assert moment(int(at.timestamp() * 1000), precision) == text
        assert moment("2026-02-01T01:59:58.007+02:00", precision) == text


def test_a_trend_is_a_line_with_gaps_or_a_few_bars() -> None:
    line = trend([*[None] * 30, 0, 6, None, 12, 12], "Lag <1h>")
    assert '<path d="M30 24.0L31 12.0M33 0.0L34 0.0"/>' in line
    assert 'viewBox="0 0 35 24"' in line
    assert 'aria-label="Lag &lt;1h&gt; – 0 – 12"' in line
    bars = trend([0, None, 3, 4], "Letters")
    assert bars.count("<rect") == 2
    assert '<rect x="2.1" y="6.0" width="0.8" height="18.0"/>' in bars
    assert '<path d=""/>' in trend([None] * 30, "Unknown")


def test_addresses_are_those_of_the_views_and_escaped() -> None:
    def rendered(text: str, **values: object) -> str:
        return Template(text).render(Context(values))

    name = "a&b c"
    for _ in range(2):  # the second time it is remembered
        text = "{% url 'console:topic' 'acme' name %}|{% url 'mfa_edit_webauthn' pk=7 %}"
        topic, factor = rendered(text, name=name).split("|")
        assert topic == "/console/acme/topics/a&amp;b%20c"
        assert factor.endswith("/7/edit/")
    assert rendered("{% url 'console:overview' as home %}<{{ home }}>") == "</console/>"
    with pytest.raises(NoReverseMatch):
        rendered("{% url 'console:nowhere' %}")
