"""What visitors do, for tests of the pages of people."""

from __future__ import annotations

import re
import time

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, generate_totp_secret, hotp_value
from django.core import mail
from django.http import HttpResponse
from django.test import Client

from mqservice.accounts.models import User
from tests.people import PASSWORD

LOGIN = "/account/login/"
SIGN_UP = "/account/signup/"
FACTOR = "/account/factors/authenticate/"


def sign_in(client: Client, name: str = "alice", password: str = PASSWORD) -> HttpResponse:
    return client.post(LOGIN, {"login": name, "password": password})  # type: ignore[return-value]


def confirm(client: Client, password: str = PASSWORD) -> None:
    """What changes of an account ask for."""
    client.post("/account/reauthenticate/", {"password": password})


def sign_up(client: Client, email: str) -> HttpResponse:
    form = {"email": email, "password1": "a long and winding phrase"}
    return client.post(SIGN_UP, form)  # type: ignore[return-value]


def last_link() -> str:
    """The path of the link in the mail that was sent last."""
    found = re.search(r"https?://[^/\s]+(/\S+)", str(mail.outbox[-1].body))
    assert found is not None, mail.outbox[-1].body
    return found[1]


def address_of(user: User, email: str) -> EmailAddress:
    user.email = email
    user.save(update_fields=["email"])
    return EmailAddress.objects.create(user=user, email=email, verified=True, primary=True)


def give_totp(user: User) -> tuple[str, list[str]]:
    """An authenticator app; its secret, and recovery codes."""
    secret = generate_totp_secret()
    TOTP.activate(user, secret)
    codes = RecoveryCodes.activate(user).get_unused_codes()
    return secret, codes


def totp_code(secret: str, periods_ahead: int = 0) -> str:
    counter = int(time.time()) // 30 + periods_ahead
    return str(format_hotp_value(hotp_value(secret, counter)))


def factor_rows(user: User) -> list[str]:
    return [str(row.data) for row in Authenticator.objects.filter(user=user)]
