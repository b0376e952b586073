"""``/errors/<slug>``: the page that the ``type`` of a problem document leads to."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from mqservice.lib.problem import CODES, RETRYABLE_CODES
from mqservice.lib.prose import prose
from mqservice.protocol.problem_texts import MEANINGS


@require_safe
def error_page(request: HttpRequest, slug: str) -> HttpResponse:
    """What one kind of problem is and what to do about it. No credentials needed."""
    code = slug.upper().replace("-", "_")
    if code not in CODES:
        raise Http404
    status, title = CODES[code]
    meaning, remedy = MEANINGS[code]
    context = {
        "code": code,
        "status": status,
        "title": title,
        "meaning": prose(meaning),
        "remedy": prose(remedy),
        "is_retryable": code in RETRYABLE_CODES,
    }
    return render(request, "console/error_code.html", context)
