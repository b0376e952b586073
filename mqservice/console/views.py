"""Pages of a namespace, read-only: overview, topics, quick start.

    request ─▶ signed in? ─▶ member of the namespace's tenant? ─▶ one page object ─▶ template

A namespace one is no member of answers 404, as one that does not exist.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from mqservice.accounts.models import Namespace, User
from mqservice.accounts.queries import namespaces_of
from mqservice.console.pages import overview_page, topics_page


@require_safe
@login_required
def overview(request: HttpRequest) -> HttpResponse:
    """To the first namespace of the user; who has none is told so."""
    namespaces = namespaces_of(_user(request))
    if namespaces:
        return redirect("console:namespace", ns=namespaces[0].name)
    return render(request, "console/no_namespace.html", {"namespaces": []})


@require_safe
@login_required
def namespace_overview(request: HttpRequest, ns: str) -> HttpResponse:
    """Engine, background processes, topics and groups of a namespace."""
    context, namespace = _context(request, ns, "overview")
    return render(request, "console/overview.html", context | {"page": overview_page(namespace)})


@require_safe
@login_required
def topics(request: HttpRequest, ns: str) -> HttpResponse:
    """All topics with their settings and the offsets of each queue."""
    context, namespace = _context(request, ns, "topics")
    return render(request, "console/topics.html", context | {"page": topics_page(namespace)})


@require_safe
@login_required
def quick_start(request: HttpRequest, ns: str) -> HttpResponse:
    """Commands to paste. The key is a placeholder: its secret is not kept anywhere."""
    context, namespace = _context(request, ns, "quick-start")
    topic = namespace.topics.order_by("name").first()
    group = namespace.groups.order_by("name").first()
    snippets = {
        "base_url": settings.MQ_BASE_URL,
        "ws_url": settings.MQ_BASE_URL.replace("http", "ws", 1) + "/v1/ws",
        "topic": topic.name if topic else "orders",
        "group": group.name if group else "billing",
        "has_topic": topic is not None,
        "has_group": group is not None,
        "keys": list(
            namespace.tenant.api_keys.filter(revoked_at=None).order_by("-created_at")[:10]
        ),
    }
    return render(request, "console/quick_start.html", context | snippets)


def _context(request: HttpRequest, ns: str, here: str) -> tuple[dict[str, object], Namespace]:
    """What the frame of each page needs, and the namespace if the user may see it."""
    namespaces = namespaces_of(_user(request))
    for namespace in namespaces:
        if namespace.name == ns:
            context = {"namespaces": namespaces, "namespace": namespace, "here": here}
            return context, namespace
    raise Http404


def _user(request: HttpRequest) -> User:
    user = request.user
    assert isinstance(user, User), "login_required lets only users pass"
    return user
