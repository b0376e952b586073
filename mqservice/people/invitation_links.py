"""The invitation that a visitor follows: its token is in the session, not in URLs or forms.

/account/join/<token>/ ──▶ session ──▶ /account/join/ ──▶ signed in? ──▶ member
"""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest

from mqservice.accounts.invitation_services import find_invitation
from mqservice.accounts.invitation_tokens import parse_token
from mqservice.accounts.models import Invitation

_SESSION_NAME: Final = "mq_invitation"


def stash(request: HttpRequest, token: str) -> None:
    """What cannot be a token is not worth a session."""
    if parse_token(token) is None:
        forget(request)
        return
    request.session[_SESSION_NAME] = token


def forget(request: HttpRequest) -> None:
    request.session.pop(_SESSION_NAME, None)


def find_stashed(request: HttpRequest) -> Invitation | None:
    """The open invitation that is followed. No query without one, one with one."""
    token = request.session.get(_SESSION_NAME)
    return find_invitation(token) if isinstance(token, str) else None
