"""Pages of single sign-on: off to the provider, back from it, confirming, unlinking an account."""

from __future__ import annotations

from allauth.account.decorators import reauthentication_required
from allauth.account.internal.flows.reauthentication import resume_request
from allauth.account.utils import get_next_redirect_url
from allauth.decorators import rate_limit
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST, require_safe

from mqservice.accounts.models import User
from mqservice.people.confirmation import can_only_sign_on_again, has_signed_on_again
from mqservice.people.single_sign_on import PROVIDER_ID, Failure, failed
from mqservice.people.social_adapter import tell_operator


@never_cache
@require_GET
@rate_limit(action="single_sign_on", limit_get=True)  # type: ignore[untyped-decorator]  # allauth's
def begin(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        return redirect("console:overview")
    return _sign_in(request, is_back=False)


@never_cache
@require_GET
def finish(request: HttpRequest) -> HttpResponse:
    return _sign_in(request, is_back=True)


@never_cache
@require_safe
@login_required
def confirm(request: HttpRequest) -> HttpResponse:
    """Asks to sign on again. Back from there it goes on with what was asked for."""
    if has_signed_on_again(request):
        return resume_request(request) or redirect("people:account")
    if not can_only_sign_on_again(request.user):
        return redirect("account_reauthenticate")
    page = {"next_url": get_next_redirect_url(request) or ""}
    return render(request, "account/single_sign_on_confirm.html", page)


@never_cache
@require_GET  # browsers let no form of ours end on another site
@login_required
@rate_limit(action="single_sign_on", limit_get=True)  # type: ignore[untyped-decorator]  # as above
def begin_again(request: HttpRequest) -> HttpResponse:
    if not can_only_sign_on_again(request.user):
        return redirect("account_reauthenticate")
    from mqservice.people import openid  # see ``single_sign_on``

    return openid.begin_confirmation(request, get_next_redirect_url(request) or "")


@never_cache
@require_safe
def explain(request: HttpRequest) -> HttpResponse:
    """Why nobody was signed in, and what one can do now."""
    try:
        failure = Failure(request.GET.get("reason", ""))
    except ValueError:
        raise Http404 from None
    page = {"failure": failure.value}
    return render(request, "account/single_sign_on_failed.html", page, status=403)


@never_cache
@require_POST
@reauthentication_required  # type: ignore[untyped-decorator]  # as above
@transaction.atomic
def unlink(request: HttpRequest) -> HttpResponse:
    """The account is signed in to by its password again, and may be linked to somebody else."""
    user = request.user
    assert isinstance(user, User), "reauthentication_required lets only users pass"
    if user.has_usable_password():  # or nobody could sign in any more; the page says so
        for identity in SocialAccount.objects.filter(user=user, provider=PROVIDER_ID):
            identity.delete()  # each, so that the audit tells of it
    return redirect("people:account")


def _sign_in(request: HttpRequest, *, is_back: bool) -> HttpResponse:
    """Off to the provider, or back from it."""
    if not settings.MQ_OIDC_ISSUER:
        raise Http404
    from mqservice.people import openid  # see ``single_sign_on``

    try:
        return openid.finish_sign_in(request) if is_back else openid.begin_sign_in(request)
    except openid.SignInFailed as exc:
        tell_operator(exc.failure, str(exc))
        return failed(exc.failure)
