"""The two health endpoints. No credentials: they show states, no names and no numbers."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from mqservice.monitoring.degraded_watch import DegradedWatch, ask_engine_or_postgres
from mqservice.monitoring.health import QUOTAS, check_health
from mqservice.quotas.meters import are_quotas_degraded

degraded_watch: Final = DegradedWatch(lambda: ask_engine_or_postgres(settings.MQ_DATABASE_URL))


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers. Waits for nobody, so that a broken database does not restart it.

    What it says of ticks and of damaged records was found out after the question before.
    """
    degraded = [*degraded_watch.known(), *([QUOTAS] if are_quotas_degraded() else [])]
    status = f"degraded: {', '.join(degraded)}" if degraded else "ok"
    return JsonResponse({"status": status, "degraded": degraded})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when database and engine answer, else 503; either way the state of each part."""
    health = check_health()
    status = "not_ready"
    if health.is_ready:
        status = f"degraded: {', '.join(health.degraded)}" if health.degraded else "ready"
    return JsonResponse(
        {"status": status, "parts": health.parts, "degraded": health.degraded},
        status=200 if health.is_ready else 503,
    )
