"""The two health endpoints. No credentials: they tell states, no names and no numbers."""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from mqservice.monitoring.health import check_health


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers. Asks nobody else, so that a broken database does not restart it."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when database and engine answer, else 503; either way the state of each part."""
    health = check_health()
    return JsonResponse(
        {"status": "ready" if health.is_ready else "not_ready", "parts": health.parts},
        status=200 if health.is_ready else 503,
    )
