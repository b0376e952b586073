"""What requests set of API keys, members and invitations: the tables their bodies are made of."""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from mqservice.accounts.limits import (
    INVITATION_LIFE_MAX,
    KEY_LIFE_MAX,
    KEY_NAME_CHARS_MAX,
    OVERLAP_MAX,
)
from mqservice.accounts.scopes import SCOPES_MAX, Grant, parse_grant
from mqservice.lib.durations import MINUTE_MS, SECOND_MS
from mqservice.lib.json_fields import Fields
from mqservice.lib.settings_table import (
    Choice,
    Duration,
    Email,
    Json,
    List,
    Moment,
    Name,
    Setting,
    Settings,
    Text,
    Wrong,
)

MS: Final = timedelta(milliseconds=1)
ENDLESS: Final = -1
_TEXT_CHARS_MAX: Final = 256


class Role(enum.StrEnum):
    """What a member may do, from most to least."""

    OWNER = "owner"
    ADMIN = "admin"
    DEVELOPER = "developer"
    VIEWER = "viewer"


class KeyKind(enum.StrEnum):
    """How a program shows that it has a key."""

    API = "api"  # it sends it
    ACCESS = "access"  # it signs with its secret


class KeyName(Text, frozen=True, kw_only=True):
    """What people see of it, without spaces around it."""

    def parse(self, given: object, fields: Fields, place: str) -> str:
        name = given.strip() if isinstance(given, str) and given.isprintable() else ""
        if not 1 <= len(name) <= self.chars_max:
            raise Wrong(f"must be 1 to {self.chars_max} printable characters", given)
        return name


class Scope(Setting, frozen=True, kw_only=True):
    def parse(self, given: object, fields: Fields, place: str) -> Grant:
        if not isinstance(given, str):
            raise Wrong("must be a scope such as produce:orders*", given)
        try:
            return parse_grant(given)
        except ValueError as exc:
            raise Wrong(str(exc)) from None

    def content(self) -> Json:
        return {"type": "string"}


class Secret(Text, frozen=True, kw_only=True):
    """Characters that no error shows."""

    def parse(self, given: object, fields: Fields, place: str) -> str:
        if isinstance(given, str) and 1 <= len(given) <= self.chars_max and "\0" not in given:
            return given
        raise Wrong(f"must be a string of 1 to {self.chars_max} characters without NUL")


NAME: Final = KeyName(
    name="name", chars_max=KEY_NAME_CHARS_MAX, about="What the key is for, such as its program."
)
SCOPES: Final = List(
    name="scopes",
    column="grants",
    item=Scope(),
    count_max=SCOPES_MAX,
    count_fault=Wrong,
    about="What the key may do: `produce`, `consume` or `manage`, for everything or limited as in "
    "`produce:orders*`, `consume:group/billing`.",
    option="--scope -s",
    option_help="produce, consume or manage, for everything or limited as in produce:orders*, "
    "consume:group/billing. Repeatable.",
)
ROLE: Final = Choice(
    name="role",
    values=Role,
    about="Limits the scopes: a key may do what both its role and its scopes allow.",
)
KIND: Final = Choice(
    name="kind",
    values=KeyKind,
    about="`api`: sent as a Bearer token, by default. `access`: an id and a secret that sign "
    "requests, for AWS SDKs.",
    option_help="api: sent as a Bearer token. access: an id and a secret that sign requests, for "
    "AWS SDKs. api by default.",
)
NAMESPACE: Final = Name(
    name="namespace",
    about="The namespace it is limited to: by default that of who asks, or all.",
    option="--bind",
    metavar="NAMESPACE",
)
EXPIRES_AT: Final = Moment(
    name="expires_at",
    null=ENDLESS,
    about="When it expires; null for never.",
    option_help="When it expires, in RFC 3339; an empty text for never.",
    metavar="TIME",
)
EXPIRES_IN: Final = Duration(
    name="expires_in",
    low=1 * SECOND_MS,
    high=KEY_LIFE_MAX // MS,
    about="How long it is valid, such as `30d`.",
    metavar="DURATION",
)

_CHANGED: Final[Settings] = (ROLE, EXPIRES_AT, EXPIRES_IN)
NEW_KEY: Final[Settings] = (
    replace(NAME, is_required=True), replace(SCOPES, is_required=True), KIND, NAMESPACE,
    *_CHANGED,
)  # fmt: skip
KEY_CHANGE: Final[Settings] = (NAME, SCOPES, *_CHANGED)
ROTATION: Final[Settings] = (
    Duration(
        name="overlap",
        low=0,
        high=OVERLAP_MAX // MS,
        about="How long the present secret stays valid: `1d` by default, `0s` revokes it.",
    ),
)
TICKET: Final[Settings] = (
    Name(
        name="namespace",
        about="Its namespace. By default that of the key; required for a user's session.",
    ),
    replace(SCOPES, about="Like those of a key, and at most your own: all by default."),
)
MEMBER: Final[Settings] = (
    replace(
        ROLE,
        is_required=True,
        about="The role in the tenant.",
        option_help="The role in the tenant: developer by default.",
    ),
)
INVITATION: Final[Settings] = (
    Email(name="email", is_required=True, about="Who is invited."),
    *MEMBER,
    Duration(
        name="expires_in",
        low=1 * MINUTE_MS,
        high=INVITATION_LIFE_MAX // MS,
        about="How long it is valid: `7d` by default.",
        metavar="DURATION",
    ),
)
JOIN: Final[Settings] = tuple(
    Secret(name=name, chars_max=_TEXT_CHARS_MAX, is_required=True, about=about)
    for name, about in (
        ("token", "The token of the invitation."),
        ("username", "The name to sign in with; a new user gets it."),
        ("password", "The password of the user."),
    )
)
