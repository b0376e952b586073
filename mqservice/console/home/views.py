"""Read-only pages of a namespace: entry page, home."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from mqservice.accounts.queries import namespaces_of
from mqservice.console.charts.series import Span
from mqservice.console.charts.views import span_of
from mqservice.console.home.links import linked
from mqservice.console.home.queries import home_page
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.frame import Frame, page, signed_in


@require_safe
@login_required
def overview(request: HttpRequest) -> HttpResponse:
    """To the first namespace of the user; who has none is told so."""
    namespaces = namespaces_of(signed_in(request))
    if namespaces:
        return redirect("console:namespace", ns=namespaces[0].name)
    return render(request, "console/no_namespace.html")


@page("home")
def home(frame: Frame) -> HttpResponse:
    """What needs attention, and rates, lag and dead letters; to the quick start while no message
    was ever sent.
    """
    found = home_page(frame.namespace, frame.principal)
    if found.is_untouched and found.engine is not None:
        return redirect(frame.url("quick-start"))
    return frame.render(
        "console/home.html",
        page=found,
        items=[linked(frame, item) for item in found.items],
        spans=list(Span),
        span=span_of(frame.request.GET.get("span", "")),
        curl=curl_of("GET", f"{frame.api_root}/attention"),
    )
