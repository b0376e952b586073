"""The forms of an alert rule. Their texts become JSON of the API, and its reader checks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec
from django import forms
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mqservice.alerts.limits import MUTE_REASON_CHARS_MAX
from mqservice.alerts.schemas import Mute, read_change, read_mute
from mqservice.alerts.services import RuleChange
from mqservice.alerts.settings import (
    GROUPLESS_KINDS,
    SETTINGS,
    AlertKind,
    WebhookFormat,
    unused_settings,
)
from mqservice.console.shared.forms import MomentField, RefusableForm, in_zone
from mqservice.console.shared.setting_fields import SettingsForm
from mqservice.lib.durations import format_duration_ms, parse_duration_ms
from mqservice.lib.settings_table import Settings

_THRESHOLDS: Final = {
    AlertKind.LAG: gettext_lazy("Threshold, messages"),
    AlertKind.OLDEST_AGE: gettext_lazy("Threshold, age"),
    AlertKind.DLQ_GROWTH: gettext_lazy("Threshold, dead letters"),
    AlertKind.DISK: gettext_lazy("Threshold, percent"),
}


class AlertForm(SettingsForm):
    """A rule of one kind, with the fields that it has; ``name`` only of a new one.

    Args:
        groups, topics: names to choose from; empty where there are too many: then they are typed.
    """

    SETTINGS: ClassVar[Settings] = SETTINGS
    POINTERS: ClassVar[Mapping[str, str]] = {"ILLEGAL_ALERT": "name"}

    def __init__(
        self,
        *args: Any,
        kind: AlertKind,
        groups: list[str],
        topics: list[str],
        shown: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:  # Any: as Django takes them
        super().__init__(*args, shown=shown, **kwargs)
        self.kind = kind
        self.unused = unused_settings(kind)
        for name in ("kind", "enabled", *self.unused):
            self.fields.pop(name, None)
        self._offer("group", groups, none=_("All groups") if kind in GROUPLESS_KINDS else "")
        self._offer("topic", topics, none=_("All topics"))
        if "threshold" in self.fields:
            self._fit_threshold()
        if shown is None:
            self.initial.setdefault("for", "1m")
        if not settings.MQ_EMAIL_URL and not (shown is not None and shown["emails"]):
            self.fields["emails"].disabled = True
            self.fields["emails"].help_text = _("This service cannot send email.")

    def _offer(self, name: str, names: list[str], *, none: str) -> None:
        """A list to choose from. Who is gone meanwhile stays chosen; ``none``: what an empty choice
        means.
        """
        if name not in self.fields:
            return
        field = self.fields[name]
        field.required = not none
        if names:
            given = str(self[name].value() or "")
            extra = [given] if given and given not in names else []
            choices = [("", none or _("Choose")), *((each, each) for each in [*extra, *names])]
            field.widget = forms.Select(choices=choices)
            field.widget.is_required = field.required

    def _fit_threshold(self) -> None:
        """Its unit is that of the kind; an age is a duration."""
        field = self.fields["threshold"]
        if self.kind is AlertKind.OLDEST_AGE:
            ms = self.initial.get("threshold")
            if isinstance(ms, int):
                self.initial["threshold"] = format_duration_ms(ms)
            field = forms.CharField(max_length=20, help_text=_("Such as 30s, 5m or 2h."))
            self.fields["threshold"] = field
        field.required = True
        field.error_messages["required"] = _("Enter a threshold.")
        field.label = str(_THRESHOLDS[self.kind])

    def clean_threshold(self) -> object:
        value = self.cleaned_data["threshold"]
        if self.kind is not AlertKind.OLDEST_AGE:
            return value
        try:
            return parse_duration_ms(value.strip())
        except ValueError:
            raise forms.ValidationError(_("Enter a duration such as 30s, 5m or 2h.")) from None

    def document(self) -> dict[str, object]:
        """As ``PUT`` takes it; what the kind has no use for is taken away."""
        body = super().document() | {"kind": self.kind}
        body |= dict.fromkeys(self.unused & {"group", "topic"})
        if body["webhook_format"] != WebhookFormat.PAGERDUTY:
            body["routing_key"] = None
        return body

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
