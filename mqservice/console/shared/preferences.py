"""Preferences for all pages, signed in or not: theme, language, time zone, each in a cookie.

form ── POST /console/preferences ──▶ cookie ──▶ [preferences] ──▶ every template
"""

from __future__ import annotations

import enum
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from mqservice.console.assets import version
from mqservice.console.shared.time_zones import ZONE_COOKIE, chosen_zone, find_zone, zone_name

THEME_COOKIE: Final = "mq_theme"
BROWSER_ZONE: Final = "browser"
_ENVIRONMENT_CLASSES: Final = {"production": "badge-bad", "staging": "badge-unsure"}
_COOKIE_AGE_S: Final = 365 * 24 * 60 * 60


class Theme(enum.StrEnum):
    """SYSTEM: as the reader's system has it."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


def theme_of(request: HttpRequest) -> Theme:
    """What the cookie says; anything else is SYSTEM."""
    try:
        return Theme(request.COOKIES.get(THEME_COOKIE, ""))
    except ValueError:
        return Theme.SYSTEM


def preferences(request: HttpRequest) -> dict[str, object]:
    """For every template; a context processor."""
    return {
        "theme": theme_of(request).value,
        "environment": settings.MQ_ENVIRONMENT,
        "environment_class": _ENVIRONMENT_CLASSES.get(
            settings.MQ_ENVIRONMENT.lower(), "badge-accent"
        ),
        "asset_version": version(),
        "languages": settings.LANGUAGES,
        "zone_name": zone_name(),
        "chosen_zone": chosen_zone(request),
    }


@require_POST
def set_preferences(request: HttpRequest) -> HttpResponse:
    """Keeps ``theme``, ``language`` or ``time_zone``, leads back to ``next``; what is unknown is
    ignored.
    """
    target = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}):
        target = resolve_url("console:overview")
    response = HttpResponseRedirect(target)
    theme, language = request.POST.get("theme", ""), request.POST.get("language", "")
    if theme in set(Theme):
        _set_cookie(response, THEME_COOKIE, theme)
    if language in dict(settings.LANGUAGES):
        _set_cookie(response, settings.LANGUAGE_COOKIE_NAME, language)
    zone = request.POST.get("time_zone", "")
    if zone == BROWSER_ZONE:
        response.delete_cookie(ZONE_COOKIE, samesite="Lax")
    elif find_zone(zone) is not None:
        _set_cookie(response, ZONE_COOKIE, zone)
    return response


def _set_cookie(response: HttpResponse, name: str, value: str) -> None:
    response.set_cookie(
        name,
        value,
        max_age=_COOKIE_AGE_S,
        secure=settings.LANGUAGE_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
