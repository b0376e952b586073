"""Single sign-on by OpenID Connect, as far as pages need to know: its name, and why it failed.

Nothing here imports what talks to the provider, which takes 20 MB that only those pay who use it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

# Of every identity: there is one provider at a time, and an identity's uid tells its issuer.
PROVIDER_ID: Final = "openid"


class Failure(StrEnum):
    """Why nobody was signed in; the page has a text for each."""

    UNREACHABLE = "unreachable"  # the provider did not answer, or not as one does
    MISCONFIGURED = "misconfigured"  # the provider does not accept this service
    EXPIRED = "expired"  # not begun in this browser, over, or used before
    INVALID = "invalid"  # a reply that does not prove who signed in
    DENIED = "denied"  # by the provider, or the user cancelled it
    NO_EMAIL = "no_email"
    EMAIL_UNVERIFIED = "email_unverified"  # by the provider
    ACCOUNT_UNVERIFIED = "account_unverified"  # an account here claims the address
    OTHER_IDENTITY = "other_identity"  # the account is linked to another user of the provider
    NO_ACCOUNT = "no_account"  # and nobody invited


_STATUSES: Final = {
    Failure.UNREACHABLE: 503,
    Failure.MISCONFIGURED: 502,
    Failure.INVALID: 502,
    Failure.EXPIRED: 400,
}
_REFUSED: Final = 403


def failure_page(request: HttpRequest, failure: Failure) -> HttpResponse:
    """What went wrong, and what one can do now."""
    return render(
        request,
        "account/single_sign_on_failed.html",
        {"failure": failure.value},
        status=_STATUSES.get(failure, _REFUSED),
    )
