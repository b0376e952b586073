"""The button that leads to the OpenID provider: {% load single_sign_on %}{% single_sign_on %}"""

from __future__ import annotations

from urllib.parse import urlencode

from django import template
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

register = template.Library()


@register.inclusion_tag("account/_single_sign_on.html", takes_context=True)
def single_sign_on(context: template.Context) -> dict[str, object]:
    """Nothing where no provider is set. It leads on to where the page would have."""
    request = context["request"]
    assert isinstance(request, HttpRequest)
    following = request.GET.get("next", "")
    query = f"?{urlencode({'next': following})}" if following else ""
    return {
        "is_on": bool(settings.MQ_OIDC_ISSUER),
        "name": settings.MQ_OIDC_NAME,
        "url": reverse("people:single_sign_on") + query,
    }


@register.simple_tag
def single_sign_on_name() -> str:
    return str(settings.MQ_OIDC_NAME)
