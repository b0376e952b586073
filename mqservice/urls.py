"""Which app serves which path. The data plane's paths never come here: see ``asgi``."""

from __future__ import annotations

from django.urls import include, path
from django.views.generic import RedirectView

from mqservice.api import api
from mqservice.console.guide import views as guide
from mqservice.console.search.views import guide_search, guide_search_json
from mqservice.console.shared.error_views import error_page
from mqservice.monitoring.views import healthz, readyz
from mqservice.reference import views as reference

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="console:overview")),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    # What the API says of itself
    path("docs", reference.docs, name="docs"),
    path("llms.txt", reference.llms, name="llms"),
    path("openapi.json", reference.openapi),
    path("asyncapi.json", reference.asyncapi),
    path("v1/openapi.json", reference.openapi, name="openapi"),
    path("v1/asyncapi.json", reference.asyncapi, name="asyncapi"),
    # /guide: the pages of docs/
    path("guide", guide.contents, name="guide"),
    path("guide/", RedirectView.as_view(pattern_name="guide")),
    path("guide/search", guide_search, name="guide-search"),
    path("guide/search.json", guide_search_json, name="guide-search-json"),
    path("guide/<slug:name>", guide.guide_page, name="guide-page"),
    path("guide/<path:path>", guide.drawing, name="guide-drawing"),
    # /v1/
    path("v1/", api.urls),
    # /errors/<slug>: what the ``type`` of a problem document leads to
    path("errors/<slug:slug>", error_page, name="error-page"),
    # /account/: signing up, in and out, second factors, sessions
    path("account/", include("mqservice.people.urls")),
    # Before the console's own, which knows no second factor.
    path("console/login", RedirectView.as_view(pattern_name="account_login", query_string=True)),
    # /console/
    path("console/", include("mqservice.console.urls")),
]
