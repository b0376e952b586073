"""The time zone in which a user sees and enters times: the browser's, or a chosen one.

    cookie mq_zone, else what the browser's script said of itself, else UTC ──▶ [zone_of]
    PageLocaleMiddleware ──▶ activated for the request ──▶ {% moment %}, fields, <html data-zone>

Scripts show times in the zone that the page names, never in another one they know of: so what the
server writes and what comes live agree. A field of a form goes with the zone it was shown in.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render, resolve_url
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

UTC_NAME: Final = "UTC"
ZONE_COOKIE: Final = "mq_zone"  # empty or absent: the browser's
BROWSER_COOKIE: Final = "mq_browser_zone"  # set by the script of every page
ZONE_FIELD: Final = "zone"  # of a form with times
_ADDRESS_CHARS_MAX: Final = 2_000
_ODD: Final = ("Etc/", "SystemV/", "posix/", "right/")


@functools.cache
def zone_names() -> tuple[str, ...]:
    """Of places, by name, after UTC."""
    places = (name for name in available_timezones() if "/" in name and not name.startswith(_ODD))
    return (UTC_NAME, *sorted(places))


def find_zone(name: str) -> ZoneInfo | None:
    """None for what is no zone; it may be what a stranger wrote."""
    return ZoneInfo(name) if name in _all_names() else None


def chosen_zone(request: HttpRequest) -> str:
    """What the reader chose; empty: as the browser has it."""
    name = request.COOKIES.get(ZONE_COOKIE, "")
    return name if find_zone(name) is not None else ""


def zone_of(request: HttpRequest) -> ZoneInfo:
    """That of this request's page."""
    name = chosen_zone(request) or request.COOKIES.get(BROWSER_COOKIE, "")
    return find_zone(name) or ZoneInfo(UTC_NAME)


def zone_given(given: Mapping[str, object]) -> ZoneInfo:
    """Which zone the times of a form or an address are in; one that names none has UTC."""
    return find_zone(str(given.get(ZONE_FIELD, ""))) or ZoneInfo(UTC_NAME)


def zone_name() -> str:
    """Of the page that is being made."""
    return str(timezone.get_current_timezone())


lazy_zone_name = lazy(zone_name, str)  # for labels of forms


@require_safe
def choose_zone(request: HttpRequest) -> HttpResponse:
    """A page to choose a zone on, for everybody."""
    regions: dict[str, list[tuple[str, str]]] = {}
    for name in zone_names()[1:]:
        region, _slash, place = name.partition("/")
        regions.setdefault(region, []).append((name, place.replace("_", " ").replace("/", ", ")))
    target = request.GET.get("next", "")[:_ADDRESS_CHARS_MAX]
    is_ours = url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()})
    return render(
        request,
        "console/time_zone.html",
        {
            "regions": regions.items(),
            "title": _("Time zone"),
            "browser_zone": request.COOKIES.get(BROWSER_COOKIE, ""),
            "next": target,
            "back": target if is_ours else resolve_url("console:overview"),
        },
    )


@functools.cache
def _all_names() -> frozenset[str]:
    return frozenset(available_timezones())


assert settings.TIME_ZONE == UTC_NAME, "what is no page writes UTC"
