"""``search?q=``, a page that needs no scripts, and ``search.json?q=``, which the palette asks."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final
from urllib.parse import urlencode

from django.http import HttpResponse, JsonResponse
from django.utils.translation import gettext as _

from mqservice.console.search.entries import entries_for
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.frame import Crumb, Frame, page

TEXT_CHARS_MAX: Final = 512
FOUND_MAX: Final = 8  # of each kind while somebody types
FOUND_PAGE_MAX: Final = 100


@page("")
def search(frame: Frame) -> HttpResponse:
    """Eight queries at most."""
    text = _text_of(frame)
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
    found = entries_for(frame, _text_of(frame), FOUND_MAX)
    return JsonResponse({"groups": [asdict(each) for each in found]})


def _text_of(frame: Frame) -> str:
    return frame.request.GET.get("q", "").strip()[:TEXT_CHARS_MAX]
