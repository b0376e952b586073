"""``search?q=``, a page that needs no scripts, and ``search.json?q=``, which the palette asks.

Those below ``/guide`` work without signing in.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from mqservice.accounts.models import User
from mqservice.accounts.queries import namespaces_of
from mqservice.console.guide.pages import guide_sections
from mqservice.console.search.entries import EntryGroup, entries_for, guide_entries_for
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.frame import Crumb, Frame, frame_of, page

TEXT_CHARS_MAX: Final = 512
FOUND_MAX: Final = 8  # of each kind while somebody types
FOUND_PAGE_MAX: Final = 100


@page("")
def search(frame: Frame) -> HttpResponse:
    """Eight queries at most."""
    text = _text_of(frame.request)
    asked = urlencode({"contains": text})
    return frame.render(
        "console/search.html",
        found=entries_for(frame, text, FOUND_PAGE_MAX),
        search_text=text,
        crumbs=[Crumb(title=_("Search"))],
        curl="\n\n".join(
            curl_of("GET", f"{frame.api_root}/{kind}?{asked}") for kind in ("topics", "groups")
        ),
    )


@page("")
def search_json(frame: Frame) -> HttpResponse:
    """Eight queries at most."""
    return _as_json(entries_for(frame, _text_of(frame.request), FOUND_MAX))


@never_cache
@require_safe
def guide_search(request: HttpRequest) -> HttpResponse:
    """Four queries at most, none for a visitor who is not signed in."""
    text = _text_of(request)
    context = {
        "found": guide_entries_for(_guide_frame(request), text, FOUND_PAGE_MAX),
        "search_text": text,
        "guide_sections": guide_sections(),
    }
    return render(request, "guide/search.html", context)


@never_cache
@require_safe
def guide_search_json(request: HttpRequest) -> HttpResponse:
    """Four queries at most, none for a visitor who is not signed in."""
    return _as_json(guide_entries_for(_guide_frame(request), _text_of(request), FOUND_MAX))


def _guide_frame(request: HttpRequest) -> Frame | None:
    user = request.user
    if not isinstance(user, User):
        return None
    return frame_of(request, user, namespaces_of(user), here="")


def _as_json(found: list[EntryGroup]) -> JsonResponse:
    return JsonResponse({"groups": [asdict(each) for each in found]})


def _text_of(request: HttpRequest) -> str:
    return request.GET.get("q", "").strip()[:TEXT_CHARS_MAX]
