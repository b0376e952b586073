"""``/errors/<slug>``: the page that the ``type`` of a problem document leads to."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from mqservice.lib.problem import CODES, RETRYABLE_CODES


@require_safe
def error_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Code, status and title of one kind of problem. No credentials needed."""
    code = slug.upper().replace("-", "_")
    if code not in CODES:
        raise Http404
    status, title = CODES[code]
    return render(
        request,
        "console/error_code.html",
        {"code": code, "status": status, "title": title, "is_retryable": code in RETRYABLE_CODES},
    )
