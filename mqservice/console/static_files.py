"""Files that are served to browsers, and how long they may be kept.

    /static/build/console.js?v=VERSION ── of the built files that are there ──▶ kept for a year
                             any other, and any other file                  ──▶ for five minutes

A page names its files by the version of its own process. While several versions serve, one may be
asked for a file of another: what it answers is not kept for longer than usual.
"""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from servestatic.middleware import ServeStaticMiddleware

from mqservice.console.assets import version

CACHE_FOREVER: Final = "max-age=31536000, public, immutable"
_CACHEABLE_STATUSES: Final = (200, 206, 304)


class StaticFilesMiddleware(ServeStaticMiddleware):  # type: ignore[misc]  # it has no types
    """The files of ``SERVESTATIC_…``; requests for anything else are passed on."""

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await super().__call__(request)
        if (
            request.path_info.startswith(f"{self.static_prefix}build/")
            and request.GET.get("v") == version()
            and response.status_code in _CACHEABLE_STATUSES
        ):
            response["Cache-Control"] = CACHE_FOREVER
        return response
