"""Single sign-on by OpenID Connect, as far as pages need to know: its name, and why it failed.

Nothing here imports what talks to the provider, which takes 20 MB that only those pay who use it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final
from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

# In place of a sign-in: who is signed in and has no other proof to give signs on again.
CONFIRMATION: Final = "confirm"
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
    WRONG_USER = "wrong_user"  # who confirmed is not who is signed in
    NOT_AGAIN = "not_again"  # the provider does not say that it asked anew


def failed(failure: Failure) -> HttpResponse:
    """Off to the page that says what went wrong. The address of the provider's reply, which is used
    up, is left: the page can be loaded again.
    """
    address = f"{reverse('people:single_sign_on_failed')}?{urlencode({'reason': failure.value})}"
    return HttpResponseRedirect(address)
