"""Accepts an invitation for a user without a session: token, user name, password.

    token ──▶ open invitation? ──▶ user there: password right?   ──▶ member
                                   user new:   name, password ok? ──▶ user, member

Nothing costs a hash before the token was right, and one token is worth ``ATTEMPTS_MAX`` tries.
Tries are counted for each address and each user name as well. Who has a second factor cannot join
here, where nothing asks for it, and is answered as with a wrong password.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from allauth.mfa.utils import is_mfa_enabled
from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from mqservice.accounts.invitation_services import (
    accept_invitation,
    find_invitation,
    invalid_token,
    spend_attempt,
)
from mqservice.accounts.models import Invitation, Member, User
from mqservice.lib.json_logs import client_address_var
from mqservice.lib.problem import Problem
from mqservice.lib.throttle import Throttle, network_of
from mqservice.lib.wire import refused

ACCEPTS: Final = Throttle("invitation", limit=30, window_s=60)  # of one address, right or wrong
PASSWORDS: Final = Throttle("joining-password", limit=5, window_s=300)  # of one user name


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """Who wants to join. No part of it is ever logged."""

    token: str
    username: str
    password: str

    def __repr__(self) -> str:
        return f"JoinRequest({self.username})"


def join(wanted: JoinRequest) -> Member:
    """A new member.

    Raises Problem: INVITATION_NOT_FOUND, UNAUTHENTICATED, BAD_REQUEST, CONFLICT, RATE_LIMITED.
    """
    ACCEPTS.spend(
        network_of(client_address_var.get()), "attempts to use an invitation from this address"
    )
    row = find_invitation(wanted.token)
    if row is None:
        raise invalid_token()
    spend_attempt(row)
    if User.objects.filter(username=wanted.username).exists():
        PASSWORDS.spend(wanted.username.lower(), "sign-in attempts for this user")
        user = authenticate(username=wanted.username, password=wanted.password)
        if not isinstance(user, User) or is_mfa_enabled(user):
            raise Problem.of(
                "UNAUTHENTICATED",
                "the user name already exists, with another password or with a "
                "second factor: follow the invitation's link and sign in there",
            )
        return accept_invitation(row, user)
    with transaction.atomic():
        return accept_invitation(row, _new_user(row, wanted))


def _new_user(row: Invitation, wanted: JoinRequest) -> User:
    user = User(username=wanted.username, email=row.email)
    try:
        user.clean_fields(exclude={"password"})
    except ValidationError as exc:
        raise refused("/username", " ".join(exc.messages)) from None
    try:
        validate_password(wanted.password, user)
    except ValidationError as exc:
        raise refused("/password", " ".join(exc.messages)) from None
    user.set_password(wanted.password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError:
        raise Problem.of(
            "CONFLICT", f"the name {user.username} has just been taken by another user"
        ) from None
    return user
