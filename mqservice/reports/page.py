"""A namespace's day as one self-contained HTML page: no script, no other file, no network.

Day ──▶ [page_of] ── day_view, in English ──▶ frontend/templates/reports/daily.html
"""

from __future__ import annotations

from django.template.loader import render_to_string
from django.utils import translation

from mqservice.lib.timestamps import rfc3339
from mqservice.reports.day import Day
from mqservice.reports.day_view import day_view


def page_of(day: Day) -> str:
    """A part that is missing is said to be so, never drawn as 0."""
    with translation.override("en"):
        context = {"day": day, "made_at": rfc3339(day.made_ms), "view": day_view(day)}
        return render_to_string("reports/daily.html", context)
