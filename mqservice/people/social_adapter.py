"""Whose account somebody is who was signed in by the OpenID provider.

    identity known here ─────────────────────────────────────▶ its account
    else an address that the provider has not verified ──────▶ refused
    else an account that has verified the same address ──────▶ linked to it, from then on known
    else an account that claims the address, or is linked ───▶ refused
    else open sign-up, or an invitation that is followed ────▶ a new account
    else ────────────────────────────────────────────────────▶ refused, with what to do

An address alone is never believed, and no role comes from the provider.
"""

from __future__ import annotations

import logging
from typing import Any, NoReturn

from allauth.account.models import EmailAddress
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError
from django.conf import settings
from django.db import IntegrityError, transaction
from django.http import HttpRequest

from mqservice.accounts.models import User
from mqservice.people.auditing import OPENID_METHOD, record_user_action
from mqservice.people.confirmation import confirmed
from mqservice.people.same_work import users_of
from mqservice.people.single_sign_on import CONFIRMATION, PROVIDER_ID, Failure, failed

log = logging.getLogger(__name__)

# What an operator has to see; the others are refusals, which the page tells.
_LOGGED = frozenset({Failure.UNREACHABLE, Failure.MISCONFIGURED, Failure.INVALID})


class SocialAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """See the module's docstring. Made anew for each use."""

    def list_apps(
        self, request: HttpRequest, provider: str | None = None, client_id: str | None = None
    ) -> list[SocialApp]:
        """The provider of the environment, and none that a row of the database could name."""
        app = SocialApp(
            provider=PROVIDER_ID,
            provider_id=PROVIDER_ID,
            name=settings.MQ_OIDC_NAME,
            client_id=settings.MQ_OIDC_CLIENT_ID,
            secret=settings.MQ_OIDC_CLIENT_SECRET,
        )
        is_asked_for = provider in (None, PROVIDER_ID) and client_id in (None, app.client_id)
        return [app] if settings.MQ_OIDC_ISSUER and is_asked_for else []

    def get_provider(
        self, request: HttpRequest, provider: str, client_id: str | None = None
    ) -> Any:  # Any: allauth has no types
        from mqservice.people.openid import OpenIdProvider  # see ``single_sign_on``

        return OpenIdProvider(request, app=self.get_app(request, provider, client_id))

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: object,
        error: str | None = None,
        exception: Exception | None = None,
        extra_context: dict[str, Any] | None = None,  # Any: as allauth has it
    ) -> None:
        """Raises ``ImmediateHttpResponse`` with our page."""
        failure = getattr(exception, "failure", Failure.INVALID)
        if exception is None and "state_id" in (extra_context or {}):
            failure = Failure.EXPIRED
        elif error == AuthError.CANCELLED:
            failure = Failure.DENIED
        tell_operator(failure, str(exception or "the provider sent an error in place of a code"))
        raise ImmediateHttpResponse(failed(failure))

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Raises ``ImmediateHttpResponse`` with the page that explains a refusal."""
        sociallogin.token = None  # used up; a session that waits for a second factor would keep it
        if sociallogin.state.get("process") == CONFIRMATION:
            _confirm(request, sociallogin)
        if sociallogin.is_existing:
            return
        emails = [address.email for address in sociallogin.email_addresses if address.verified]
        if not emails:
            is_named = bool(sociallogin.email_addresses)
            _refuse(Failure.EMAIL_UNVERIFIED if is_named else Failure.NO_EMAIL)
        row = EmailAddress.objects.filter(email=emails[0], verified=True).first()
        if row is not None:
            self._link(request, sociallogin, row.user_id)
        elif users_of(emails[0]):
            _refuse(Failure.ACCOUNT_UNVERIFIED)
        elif not self.is_open_for_signup(request, sociallogin):
            _refuse(Failure.NO_ACCOUNT)

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> Any:
        """User, address and identity, or nothing. Any: as allauth has it."""
        try:
            with transaction.atomic():
                return super().save_user(request, sociallogin, form)
        except IntegrityError:  # the same person, a moment ago
            _refuse(Failure.EXPIRED)

    def _link(self, request: HttpRequest, sociallogin: SocialLogin, user_id: int) -> None:
        account = sociallogin.account
        try:
            with transaction.atomic():
                user = User.objects.select_for_update().get(pk=user_id)
                linked = SocialAccount.objects.filter(
                    user=user, provider=PROVIDER_ID, extra_data__iss=account.extra_data["iss"]
                )
                is_free = not linked.exists()
                if is_free and user.is_active:
                    account.user = user
                    account.save()  # which the audit tells of
        except IntegrityError:  # the same person, a moment ago
            _refuse(Failure.EXPIRED)
        if not is_free:
            record_user_action(user, "user.login_fail", {"method": OPENID_METHOD})
            _refuse(Failure.OTHER_IDENTITY)
        sociallogin.user = user
        if user.is_active:
            context = {"account": account, "provider": account.get_provider(request)}
            self.send_notification_mail("socialaccount/email/account_connected", user, context)


def _confirm(request: HttpRequest, sociallogin: SocialLogin) -> NoReturn:
    """Nobody is signed in or out by it."""
    from mqservice.people.openid import was_asked_anew  # see ``single_sign_on``

    if not sociallogin.is_existing or sociallogin.user != request.user:
        _refuse(Failure.WRONG_USER)
    if not was_asked_anew(sociallogin):
        _refuse(Failure.NOT_AGAIN)
    raise ImmediateHttpResponse(confirmed(request, sociallogin.state.get("next") or ""))


def tell_operator(failure: Failure, error: str) -> None:
    """``error`` has no secret in it."""
    if failure in _LOGGED:
        log.warning(
            "Could not complete a single sign-on",
            extra={"action": "single_sign_on_failed", "failure": failure.value, "error": error},
        )


def _refuse(failure: Failure) -> NoReturn:
    raise ImmediateHttpResponse(failed(failure))
