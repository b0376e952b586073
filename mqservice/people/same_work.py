"""The same work whether an address has an account here or not: time tells nothing.

    sign-up      new: user and address are committed        known: written as well, and taken back
    forgotten    known: a token is made of the account      unknown: the same questions are asked
    sign-in      known: the failure is audited              unknown: written as well, and taken back

What differs is the mail, of which each gets one. Nothing sleeps: what is done costs what it costs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from allauth.account.internal.flows.email_verification import get_address_for_user
from allauth.account.models import EmailAddress
from allauth.account.utils import has_verified_email
from django.db import transaction

from mqservice.accounts.models import User

_NOBODY_ID: Final = 0  # of no row


@contextmanager
def written(*, kept: bool) -> Iterator[None]:
    """One transaction: what is written inside is committed or, at the same cost, taken back.

    A transaction of which a part was taken back still waits for the disk when it commits.
    """
    with transaction.atomic(), transaction.atomic():
        yield
        if not kept:
            transaction.set_rollback(True)


def users_of(email: str) -> list[User]:
    """Whose address it is: who has verified it, else everybody who claims it. Two queries, always.

    allauth leaves the second out where it finds somebody who has verified the address.
    """
    email = email.lower()
    rows = list(EmailAddress.objects.filter(email=email).select_related("user"))
    claiming = list(User.objects.filter(email=email))
    verified = [row.user for row in rows if row.verified]
    return verified or list({row.user for row in rows} | set(claiming))


def made_up_address() -> str:
    """Nobody's, for an account that is not kept."""
    return f"{secrets.token_hex(8)}@nobody.invalid"


def ask_as_for_a_new_account() -> None:
    """What the sign-up of a new account asks about it before its mail goes out. Four queries."""
    nobody = User(pk=_NOBODY_ID)
    EmailAddress.objects.filter(user_id=_NOBODY_ID).exists()
    has_verified_email(nobody)
    get_address_for_user(nobody)
    User.objects.filter(pk=_NOBODY_ID).first()


def ask_as_for_a_reset_token(email: str) -> None:
    """What making a token that resets a password asks about an account. Two queries."""
    EmailAddress.objects.filter(user_id=_NOBODY_ID, email=email).exists()
    list(EmailAddress.objects.filter(user_id=_NOBODY_ID))
