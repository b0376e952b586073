"""The language of pages. The API answers in English whatever a client says it accepts."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware

from mqservice.lib.middleware import API_PREFIX


class PageLocaleMiddleware(LocaleMiddleware):
    """Cookie, else ``Accept-Language``; nothing of it below ``/v1/``."""

    def process_request(self, request: HttpRequest) -> None:
        if not request.path_info.startswith(API_PREFIX):
            super().process_request(request)

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        if request.path_info.startswith(API_PREFIX):
            return response
        return super().process_response(request, response)
