"""The documents and the reference page over HTTP. They need no key."""

from __future__ import annotations

import hashlib
from functools import cache

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from mqservice.lib.prose import prose
from mqservice.reference.asyncapi import asyncapi_json
from mqservice.reference.llms import llms_text
from mqservice.reference.openapi import openapi_document, openapi_json
from mqservice.reference.page import reference_sections

CACHE_CONTROL = "public, max-age=300"


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    """``/v1/openapi.json``"""
    return _answer(request, openapi_json(), "application/json")


@require_safe
def asyncapi(request: HttpRequest) -> HttpResponse:
    """``/v1/asyncapi.json``"""
    return _answer(request, asyncapi_json(), "application/json")


@require_safe
def llms(request: HttpRequest) -> HttpResponse:
    """``/llms.txt``"""
    return _answer(request, llms_text().encode(), "text/markdown; charset=utf-8")


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """``/docs``: every operation, with a form that sends it."""
    document = openapi_document()
    context = {
        "info": document["info"],
        "text": prose(document["info"]["description"]),
        "sections": reference_sections(),
        "base_url": settings.MQ_BASE_URL,
    }
    response = render(request, "reference/page.html", context)
    response["Cache-Control"] = CACHE_CONTROL
    return response


@cache
def _etag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _answer(request: HttpRequest, content: bytes, content_type: str) -> HttpResponse:
    """The document, or 304 to one who has it."""
    etag = _etag(content)
    response = HttpResponse(content, content_type=content_type)
    response["ETag"] = etag
    response["Cache-Control"] = CACHE_CONTROL
    found = get_conditional_response(request, etag=etag, response=response)
    assert isinstance(found, HttpResponse)
    return found
