"""Steps of signing in that differ from allauth's."""

from __future__ import annotations

from allauth.account.models import EmailAddress
from allauth.account.stages import EmailVerificationStage
from django.http import HttpResponse

from mqservice.people.same_work import ask_as_for_a_new_account


class VerifyAddressStage(EmailVerificationStage):  # type: ignore[misc]  # allauth has no types
    """Who signed up has to verify an address first.

    Who was made by the operator, or joined by an API, has none on record and signs in without.
    """

    def handle(self) -> tuple[HttpResponse | None, bool]:
        user = self.login.user  # None: an address that signs up again, which is not to show
        if user is None:
            ask_as_for_a_new_account()
        elif not EmailAddress.objects.filter(user_id=user.pk).exists():
            return None, True
        response, goes_on = super().handle()
        return response, bool(goes_on)
