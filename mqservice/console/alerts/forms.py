"""The forms of an alert rule. Their texts become JSON of the API, and its reader checks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from django import forms
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mqservice.alerts.limits import MUTE_REASON_CHARS_MAX
from mqservice.alerts.schemas import Mute, read_change, read_mute
from mqservice.alerts.services import RuleChange
from mqservice.alerts.settings import SETTINGS, AlertKind
from mqservice.console.shared.forms import MomentField, RefusableForm, in_zone
from mqservice.console.shared.setting_fields import SettingsForm
from mqservice.lib.settings_table import Settings


class AlertForm(SettingsForm):
    """A rule; ``name`` only of a new one. The disk is for operators, unless a rule watches it."""

    SETTINGS: ClassVar[Settings] = SETTINGS
    POINTERS: ClassVar[Mapping[str, str]] = {"ILLEGAL_ALERT": "name"}

    def __init__(
        self, *args: Any, has_disk: bool, shown: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:  # Any: as Django takes them
        super().__init__(*args, shown=shown, **kwargs)
        kind, emails = self.fields["kind"], self.fields["emails"]
        assert isinstance(kind, forms.ChoiceField)
        if not has_disk and (shown is None or shown["kind"] != AlertKind.DISK):
            choices: Any = kind.choices  # Any: Django's type allows what no list has
            kind.choices = [each for each in choices if each[0] != AlertKind.DISK]
        if shown is None:
            self.initial.setdefault("for", "1m")
        if not settings.MQ_EMAIL_URL and not (shown is not None and shown["emails"]):
            emails.disabled = True
            emails.help_text = _("This service cannot send email.")

    def clean_threshold(self) -> int | None:
        value: int | None = self.cleaned_data["threshold"]
        needs_none = (AlertKind.NO_CONSUMER, AlertKind.ISSUE)
        if value is None and self.cleaned_data.get("kind") not in needs_none:
            raise forms.ValidationError(_("Enter a threshold."))
        return value

    def change(self) -> RuleChange:
        """Of a valid form. Raises Problem that names every fault."""
        return read_change(msgspec.json.encode(self.document()))


class MuteForm(RefusableForm):
    """How long a rule is muted: one of the lengths, or until a time, which then counts."""

    POINTERS: ClassVar[Mapping[str, str]] = {
        "/for": "length",
        "/until": "until",
        "/reason": "reason",
    }

    length = forms.ChoiceField(
        label=gettext_lazy("Duration"),
        choices=[
            ("1h", gettext_lazy("1 hour")),
            ("4h", gettext_lazy("4 hours")),
            ("1d", gettext_lazy("1 day")),
            ("7d", gettext_lazy("7 days")),
        ],
    )
    until = MomentField(
        required=False,
        label=in_zone(gettext_lazy("Or until")),
        help_text=gettext_lazy("At most 30 days from now."),
    )
    reason = forms.CharField(
        required=False,
        max_length=MUTE_REASON_CHARS_MAX,
        label=gettext_lazy("Reason"),
        help_text=gettext_lazy("Shown to everyone who views this alert."),
    )

    def mute(self) -> Mute:
        """Of a valid form. Raises Problem that names every fault."""
        given = self.cleaned_data
        body = {"reason": given["reason"]}
        if given["until"]:
            body["until"] = given["until"]
        else:
            body["for"] = given["length"]
        return read_mute(msgspec.json.encode(body))
