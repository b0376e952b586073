"""Confirming who one is, for accounts that have neither a password nor a second factor here.

    a guarded page ──▶ [must_sign_on_again] ──▶ single-sign-on/confirm/ ──▶ the provider, which asks
    anew ──▶ [confirmed] ──▶ single-sign-on/confirm/ ──▶ the page

allauth asks everybody else for the password or a factor, but asks these users for nothing.
"""

from __future__ import annotations

import time
from typing import Final
from urllib.parse import urlencode

from allauth.account.internal.flows.login import get_authentication_records, record_authentication
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from mqservice.accounts.models import User
from mqservice.people.single_sign_on import PROVIDER_ID

_METHOD: Final = "socialaccount"


def can_only_sign_on_again(user: object) -> bool:
    """Three queries at most."""
    return (
        bool(settings.MQ_OIDC_ISSUER)
        and isinstance(user, User)
        and not get_reauthentication_flows(user)
        and SocialAccount.objects.filter(user=user, provider=PROVIDER_ID).exists()
    )


def must_sign_on_again(request: HttpRequest) -> bool:
    """Whether that is the user's only proof, and was not given lately. Three queries at most."""
    return can_only_sign_on_again(request.user) and not has_signed_on_again(request)


def has_signed_on_again(request: HttpRequest) -> bool:
    """Within the time for which a password or a factor is good too. No query."""
    user = request.user
    if not isinstance(user, User):
        return False
    since = time.time() - settings.ACCOUNT_REAUTHENTICATION_TIMEOUT
    return any(
        each["method"] == _METHOD and each.get("reauthenticated") and each["at"] > since
        for each in get_authentication_records(request, user)
    )


def confirmed(request: HttpRequest, next_url: str) -> HttpResponse:
    """Remember it in the session, and go on."""
    assert isinstance(request.user, User)
    record_authentication(request, request.user, _METHOD, reauthenticated=True)
    following = f"?{urlencode({'next': next_url})}" if next_url else ""
    return HttpResponseRedirect(reverse("people:single_sign_on_confirm") + following)
