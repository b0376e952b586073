"""Our own pages: following an invitation, creating a tenant, and the account's start page.

A visitor who follows an invitation signs in or up first, and comes back here.
"""

from __future__ import annotations

from typing import Final

from allauth.account import views as allauth_views
from allauth.account.internal.flows.reauthentication import is_reauthentication_required
from allauth.core.exceptions import ReauthenticationRequired
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from mqservice.accounts.invitation_services import accept_invitation, spend_attempt
from mqservice.accounts.join_tenant import ACCEPTS
from mqservice.accounts.models import Member, User
from mqservice.lib.json_logs import client_address_var
from mqservice.lib.problem import Problem
from mqservice.lib.throttle import network_of
from mqservice.people import invitation_links
from mqservice.people.confirmation import must_sign_on_again
from mqservice.people.forms import NewTenantForm
from mqservice.people.own_tenant import create_own_tenant, may_create_tenant
from mqservice.people.single_sign_on import PROVIDER_ID

TOO_MANY_STATUS: Final = 429


@never_cache
@require_safe
def follow(request: HttpRequest, token: str) -> HttpResponse:
    """Take the token out of the address, where histories and logs would keep it."""
    invitation_links.stash(request, token)
    return redirect("people:join")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest) -> HttpResponse:
    """What one is invited to; POST takes it up."""
    row, detail, status = None, "", 200
    try:
        ACCEPTS.spend(
            network_of(client_address_var.get()), "attempts to use an invitation from this address"
        )
        row = invitation_links.find_stashed(request)
        if request.method == "POST" and row is not None:
            if not isinstance(request.user, User):
                return redirect("account_login")
            spend_attempt(row)
            accept_invitation(row, request.user)
            invitation_links.forget(request)
            return redirect("console:overview")
    except Problem as problem:
        row, detail, status = None, problem.detail, problem.status
    if row is None and status != TOO_MANY_STATUS:
        invitation_links.forget(request)
        status = status if detail else 404
    page = {"invitation": row, "detail": detail}
    return render(request, "account/join.html", page, status=status)


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def start(request: HttpRequest) -> HttpResponse:
    """Found the first tenant."""
    user = request.user
    assert isinstance(user, User), "login_required lets only users pass"
    if not may_create_tenant(user):
        return redirect("console:overview")
    form = NewTenantForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            create_own_tenant(user, form.cleaned_data["name"])
        except Problem as problem:
            form.add_error("name", problem.detail)
        else:
            return redirect("console:overview")
    return render(request, "account/start.html", {"form": form})


@never_cache
@login_required
def set_password(request: HttpRequest) -> HttpResponse:
    """allauth's, for users who have confirmed who they are: a password outlives the session."""
    if must_sign_on_again(request) or is_reauthentication_required(request, app="allauth.account"):
        if request.method == "POST":  # the session would keep what was sent
            return redirect("account_set_password")
        raise ReauthenticationRequired
    response: HttpResponse = allauth_views.password_set(request)
    return response


@never_cache
@login_required
@require_safe
def account(request: HttpRequest) -> HttpResponse:
    """Who one is here, and the ways to password, second factors and sessions."""
    user = request.user
    assert isinstance(user, User), "login_required lets only users pass"
    members = Member.objects.filter(user=user).select_related("tenant").order_by("tenant__name")
    page = {
        "members": list(members[:100]),
        "identity": SocialAccount.objects.filter(user=user, provider=PROVIDER_ID).first(),
        "has_password": user.has_usable_password(),
    }
    return render(request, "account/overview.html", page)
