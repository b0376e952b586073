"""Our rules for allauth's accounts: who may sign up, where to go next, how emails are sent."""

from __future__ import annotations

import contextlib
import logging
from typing import Any, Final
from urllib.parse import urlsplit

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.core.exceptions import ImmediateHttpResponse, ReauthenticationRequired
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.shortcuts import render
from django.urls import reverse

from mqservice.accounts.models import User
from mqservice.people import invitation_links
from mqservice.people.confirmation import can_only_sign_on_again, must_sign_on_again
from mqservice.people.own_tenant import may_create_tenant

log = logging.getLogger(__name__)

PASSWORD_CHARS_MAX: Final = 1_000  # a hash of more costs more than it is worth
_SEEN_ANYWAY: Final = ("account/messages/logged_in.txt", "account/messages/logged_out.txt")
_VERIFY_STAGE: Final = "allauth.account.stages.EmailVerificationStage"
_OUR_VERIFY_STAGE: Final = "mqservice.people.stages.VerifyAddressStage"


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """See the module's docstring. Made anew for each request."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """For everybody, or for who has followed an invitation."""
        return settings.MQ_SIGN_UP == "open" or invitation_links.find_stashed(request) is not None

    def get_login_stages(self) -> list[str]:
        stages = super().get_login_stages()
        return [_OUR_VERIFY_STAGE if each == _VERIFY_STAGE else each for each in stages]

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """To the invitation that is being followed, to the founding of a tenant, or on."""
        if invitation_links.find_stashed(request) is not None:
            return reverse("people:join")
        user = request.user
        if isinstance(user, User) and may_create_tenant(user):
            return reverse("people:start")
        return str(super().get_login_redirect_url(request))

    def get_signup_redirect_url(self, request: HttpRequest) -> str:
        """Only a single sign-on signs somebody up and in at once."""
        return self.get_login_redirect_url(request)

    def is_reauthentication_required(self, *, app: str, **more: Any) -> bool:
        """Raises ``ReauthenticationRequired`` for those whom allauth would not ask."""
        if (request := _request()) is not None and must_sign_on_again(request):
            raise ReauthenticationRequired
        return bool(super().is_reauthentication_required(app=app, **more))

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        methods: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        if can_only_sign_on_again(user):
            url = reverse("people:single_sign_on_confirm")
            methods.append({"id": "single_sign_on", "description": "", "url": url})
        return methods

    def clean_password(self, password: str, user: Any = None) -> str:  # Any: as allauth has it
        if len(password) > PASSWORD_CHARS_MAX:
            raise ValidationError(f"Use at most {PASSWORD_CHARS_MAX} characters.")
        return str(super().clean_password(password, user))

    def get_email_confirmation_url(self, request: HttpRequest, emailconfirmation: Any) -> str:
        return _of_service(super().get_email_confirmation_url(request, emailconfirmation))

    def get_reset_password_from_key_url(self, key: str) -> str:
        return _of_service(super().get_reset_password_from_key_url(key))

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        message_context: dict[str, Any] | None = None,  # Any: as allauth has it
        extra_tags: str = "",
        message: str | None = None,
    ) -> None:
        """Nothing of what one sees anyway: that one is signed in, or out."""
        if message_template not in _SEEN_ANYWAY:
            super().add_message(
                request, level, message_template, message_context, extra_tags, message
            )

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """An answer of 503 where the mail server takes none, whoever it was for."""
        ours = {
            "current_site": {"name": "mqservice", "domain": urlsplit(settings.MQ_BASE_URL).netloc}
        }
        try:
            message = self.render_mail(
                template_prefix, email, {"request": _request(), "email": email, **context, **ours}
            )
            message.send()
            _show_operator(email, context)
        except OSError as exc:  # errors of smtplib are of this kind too
            log.error(
                "Could not send an account email",
                extra={"action": "mail_failed", "error": str(exc)},
            )
            page = render(_request(), "account/mail_failed.html", status=503)
            raise ImmediateHttpResponse(page) from exc

    def send_notification_mail(self, *args: Any, **more: Any) -> None:  # Any: as allauth has it
        """That a password or a factor was changed: it is, also where no mail can tell so."""
        with contextlib.suppress(ImmediateHttpResponse):
            super().send_notification_mail(*args, **more)


def _show_operator(email: str, context: dict[str, Any]) -> None:
    """Where mails are files nobody gets one: the operator's screen and log have the link."""
    link = context.get("activate_url")
    if link and not settings.MQ_EMAIL_URL:
        log.info(
            "No mail server is configured (MQ_EMAIL_URL): to confirm %s, open %s",
            email,
            link,
            extra={"action": "confirmation_logged"},
        )


def _request() -> HttpRequest | None:
    request: HttpRequest | None = context.request
    return request


def _of_service(url: str) -> str:
    """The same path at the address by which the service is known, whatever Host was sent."""
    parts = urlsplit(url)
    return f"{settings.MQ_BASE_URL}{parts.path}" + (f"?{parts.query}" if parts.query else "")
