"""``/guide`` and below. Nobody needs to be signed in."""

from __future__ import annotations

import hashlib
from http import HTTPStatus

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import get_conditional_response
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from mqservice.console.guide.pages import GuidePage, guide_pages, guide_sections
from mqservice.console.guide.rendering import drawings, rendered
from mqservice.lib.frontend import DOCS_DIR

DRAWING_CACHE_CONTROL = "public, max-age=300"


@gzip_page  # no secret is on such a page, so its compressed size tells nothing
@require_safe
def contents(request: HttpRequest) -> HttpResponse:
    """``/guide``: all guides by section."""
    return _answer(request, "guide/contents.html", None)


@gzip_page
@require_safe
def guide_page(request: HttpRequest, name: str) -> HttpResponse:
    """``/guide/<name>``; for an unknown name a page that leads to the contents."""
    page = guide_pages().get(name)
    if page is None:
        return _answer(request, "guide/missing.html", None, HTTPStatus.NOT_FOUND)
    return _answer(request, "guide/page.html", page)


@require_safe
def drawing(request: HttpRequest, path: str) -> HttpResponse:
    """A drawing of a guide."""
    if path not in drawings():
        raise Http404
    response = HttpResponse((DOCS_DIR / path).read_bytes(), content_type="image/svg+xml")
    response["Cache-Control"] = DRAWING_CACHE_CONTROL
    return response


def _answer(
    request: HttpRequest, template: str, page: GuidePage | None, status: int = HTTPStatus.OK
) -> HttpResponse:
    """The page, or 304 to who has it in the same theme and language."""
    context = {
        "guide": page,
        "guide_sections": guide_sections(),
        "text": rendered(page.name) if page else "",
    }
    response = render(request, template, context, status=status)
    if status != HTTPStatus.OK:
        return response
    # Theme and language are cookies, so the browser asks again each time.
    response["Cache-Control"] = "private, no-cache"
    response["ETag"] = f'"{hashlib.sha256(response.content).hexdigest()[:32]}"'
    found = get_conditional_response(request, etag=response["ETag"], response=response)
    assert isinstance(found, HttpResponse)
    return found
