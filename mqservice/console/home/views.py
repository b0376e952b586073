"""Read-only pages of a namespace: entry page, home, search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import Value
from django.db.models.functions import Lower, StrIndex
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from mqservice.accounts.models import Namespace
from mqservice.accounts.queries import namespaces_of
from mqservice.console.charts.series import Span
from mqservice.console.charts.views import span_of
from mqservice.console.home.links import linked
from mqservice.console.home.queries import home_page
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.frame import Crumb, Frame, page, signed_in
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.topics.models import Topic

FOUND_MAX: Final = 8  # of each kind while somebody types
FOUND_PAGE_MAX: Final = 100


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Names that contain the text."""

    topics: list[str]
    groups: list[str]


@page("")
def search(frame: Frame) -> HttpResponse:
    """``?q=``: for htmx the part below the search field, else a page. Two queries."""
    text = frame.request.GET.get("q", "").strip()[:NAME_CHARS_MAX]
    is_part = frame.request.headers.get("HX-Request") == "true"
    found = _found(frame.namespace, text, FOUND_MAX if is_part else FOUND_PAGE_MAX)
    template = "console/_found.html" if is_part else "console/search.html"
    root, asked = f"{frame.api_root}", urlencode({"contains": text})
    return frame.render(
        template,
        found=found,
        search_text=text,
        crumbs=[Crumb(title=_("Search"))],
        curl="\n\n".join(curl_of("GET", f"{root}/{kind}?{asked}") for kind in ("topics", "groups")),
    )


def _found(namespace: Namespace, text: str, limit: int) -> Found:
    """What begins with the text before what has it further on: only so many are shown."""
    if not text:
        return Found(topics=[], groups=[])
    place = StrIndex(Lower("name"), Value(text.lower()))
    topics = Topic.objects.filter(namespace=namespace, name__icontains=text)
    groups = ConsumerGroup.objects.filter(namespace=namespace, name__icontains=text)
    return Found(
        topics=list(topics.order_by(place, "name").values_list("name", flat=True)[:limit]),
        groups=list(groups.order_by(place, "name").values_list("name", flat=True)[:limit]),
    )
