"""Language and time zone of pages. The API always responds in English and UTC."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import timezone

from mqservice.console.shared.time_zones import zone_of
from mqservice.lib.middleware import API_PREFIX


class PageLocaleMiddleware(LocaleMiddleware):
    """Cookies, else ``Accept-Language`` and the browser's zone; nothing of it below ``/v1/``."""

    def process_request(self, request: HttpRequest) -> None:
        if request.path_info.startswith(API_PREFIX):
            timezone.deactivate()
            return
        timezone.activate(zone_of(request))
        super().process_request(request)

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if request.path_info.startswith(API_PREFIX):
            return response
        return super().process_response(request, response)
