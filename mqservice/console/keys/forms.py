"""Forms of keys and invitations. Texts become the JSON of the API, whose reader checks them.

form ── texts ──▶ JSON ──▶ read_new_key, read_overlap, read_invitation ─▶ order
                               └─ Problem: pointer ──▶ field
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import ClassVar, Final

import msgspec
from django import forms
from django.utils.translation import gettext_lazy

from mqservice.accounts.key_schemas import read_new_key, read_overlap
from mqservice.accounts.key_services import NewKey
from mqservice.accounts.limits import KEY_NAME_CHARS_MAX
from mqservice.accounts.models import Role
from mqservice.accounts.people_schemas import NewInvitation, read_invitation
from mqservice.accounts.roles import is_at_most
from mqservice.accounts.scopes import SCOPES_MAX, Scope
from mqservice.accounts.settings import KeyKind
from mqservice.console.shared.forms import RefusableForm

EMAIL_CHARS_MAX: Final = 254
_SCOPE_TEXTS: Final = {
    Scope.PRODUCE: gettext_lazy("Produce: send messages"),
    Scope.CONSUME: gettext_lazy("Consume: receive, settle and read messages"),
    Scope.MANAGE: gettext_lazy("Manage: create and change topics and groups"),
}
ROLE_TEXTS: Final = {
    Role.VIEWER: gettext_lazy("Viewer: settings and metrics"),
    Role.DEVELOPER: gettext_lazy("Developer: also messages, topics and groups"),
    Role.ADMIN: gettext_lazy("Admin: also API keys, members and the audit log"),
    Role.OWNER: gettext_lazy("Owner: everything"),
}
_KIND_TEXTS: Final = {
    KeyKind.API: gettext_lazy("API key: for REST and WebSocket"),
    KeyKind.ACCESS: gettext_lazy("Access key: for AWS SDKs and Celery"),
}
_OVERLAPS: Final = (
    ("0ms", gettext_lazy("immediately")),
    ("1h", gettext_lazy("after 1 hour")),
    ("1d", gettext_lazy("after 1 day")),
    ("7d", gettext_lazy("after 1 week")),
)


def role_choices(own: Role) -> list[tuple[str, object]]:
    """Those that may do nothing that ``own`` may not."""
    return [(role.value, text) for role, text in ROLE_TEXTS.items() if is_at_most(role, own)]


class KeyForm(RefusableForm):
    """A key to be made."""

    POINTERS: ClassVar[Mapping[str, str]] = {
        "/name": "name",
        "/kind": "kind",
        "/scopes": "scopes",
        **{f"/scopes/{index}": "patterns" for index in range(SCOPES_MAX)},
        "/role": "role",
        "/namespace": "place",
        "/expires_in": "expires_in",
        "NAMESPACE_NOT_FOUND": "place",
    }

    name = forms.CharField(
        max_length=KEY_NAME_CHARS_MAX,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Purpose of the key, such as “billing worker”."),
    )
    place = forms.ChoiceField(required=False, label=gettext_lazy("Namespace"))
    kind = forms.ChoiceField(
        choices=[(kind.value, text) for kind, text in _KIND_TEXTS.items()],
        initial=KeyKind.API.value,
        label=gettext_lazy("Kind"),
    )
    role = forms.ChoiceField(initial=Role.DEVELOPER.value, label=gettext_lazy("Role"))
    scopes = forms.MultipleChoiceField(
        choices=[(scope.value, text) for scope, text in _SCOPE_TEXTS.items()],
        initial=[Scope.PRODUCE.value, Scope.CONSUME.value],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label=gettext_lazy("Scopes"),
    )
    patterns = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        label=gettext_lazy("Limit to topics and groups"),
        help_text=gettext_lazy(
            "One per line: orders*, topic/orders, group/billing*. Empty: all topics and groups."
        ),
    )
    expires_in = forms.CharField(
        required=False,
        max_length=20,
        label=gettext_lazy("Expires after"),
        help_text=gettext_lazy("Such as 12h or 90d. Empty: never."),
    )

    def __init__(
        self, *args: object, namespaces: Iterable[str], own: Role, **kwargs: object
    ) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as Django takes them
        places = [(name, name) for name in namespaces]
        all_of_it = ("", gettext_lazy("All namespaces of the tenant"))
        self.fields["place"] = forms.ChoiceField(
            choices=[*places, all_of_it], required=False, label=self.fields["place"].label
        )
        role = self.fields["role"]
        assert isinstance(role, forms.ChoiceField)
        role.choices = role_choices(own)

    def order(self) -> NewKey:
        """Of a valid form. Raises Problem that names every fault."""
        given = self.cleaned_data
        patterns = [line.strip() for line in given["patterns"].splitlines() if line.strip()]
        scopes = [
            f"{scope}:{pattern}" if pattern else scope
            for pattern in patterns or [""]
            for scope in given["scopes"]
        ]
        body: dict[str, object] = {
            "name": given["name"],
            "kind": given["kind"],
            "role": given["role"],
            "scopes": scopes,
        }
        if given["place"]:
            body["namespace"] = given["place"]
        if given["expires_in"]:
            body["expires_in"] = given["expires_in"]
        return read_new_key(msgspec.json.encode(body))


class RotateForm(forms.Form):
    """When the present secret ends."""

    overlap = forms.ChoiceField(
        choices=_OVERLAPS, initial="1d", label=gettext_lazy("Current secret expires")
    )

    def length(self) -> timedelta:
        """Of a valid form."""
        return read_overlap(msgspec.json.encode({"overlap": self.cleaned_data["overlap"]}))


class InvitationForm(RefusableForm):
    """Somebody who is to become a member."""

    POINTERS: ClassVar[Mapping[str, str]] = {
        "/email": "email",
        "/role": "role",
        "/expires_in": "expires_in",
    }

    email = forms.CharField(max_length=EMAIL_CHARS_MAX, label=gettext_lazy("Email"))
    role = forms.ChoiceField(initial=Role.DEVELOPER.value, label=gettext_lazy("Role"))
    expires_in = forms.CharField(
        initial="7d",
        max_length=20,
        label=gettext_lazy("Expires after"),
        help_text=gettext_lazy("At most 30d."),
    )

    def __init__(self, *args: object, own: Role, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as Django takes them
        role = self.fields["role"]
        assert isinstance(role, forms.ChoiceField)
        role.choices = role_choices(own)

    def order(self) -> NewInvitation:
        """Of a valid form. Raises Problem that names every fault."""
        given = {name: self.cleaned_data[name].strip() for name in ("email", "role", "expires_in")}
        return read_invitation(msgspec.json.encode(given))
