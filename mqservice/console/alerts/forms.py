"""The forms of an alert rule. Their texts become JSON of the API, and its reader checks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import msgspec
from django import forms
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mqservice.alerts.limits import (
    EMAILS_MAX,
    MUTE_REASON_CHARS_MAX,
    THRESHOLD_MAX,
    URL_CHARS_MAX,
)
from mqservice.alerts.models import AlertKind, AlertRule
from mqservice.alerts.schemas import Mute, read_change, read_mute
from mqservice.alerts.services import RuleChange
from mqservice.console.shared.forms import DurationField, MomentField, RefusableForm, in_zone
from mqservice.lib.durations import format_duration_ms
from mqservice.lib.names import NAME_CHARS_MAX

KIND_TEXTS: Final = {
    AlertKind.LAG: gettext_lazy("Lag: messages not yet settled"),
    AlertKind.OLDEST_AGE: gettext_lazy("Age of the oldest message, ms"),
    AlertKind.DLQ_GROWTH: gettext_lazy("New dead letters in a time window"),
    AlertKind.NO_CONSUMER: gettext_lazy("No consumers"),
    AlertKind.ISSUE: gettext_lazy("New issues"),
    AlertKind.DISK: gettext_lazy("Storage disk usage, percent"),
}


class AlertForm(RefusableForm):
    """A rule; ``name`` only of a new one. The disk is for operators, unless a rule watches it."""

    POINTERS: ClassVar[Mapping[str, str]] = {
        "/kind": "kind",
        "/group": "group",
        "/topic": "topic",
        "/threshold": "threshold",
        "/for": "for_time",
        "/for_ms": "for_time",
        "/window": "window",
        "/window_ms": "window",
        "/emails": "emails",
        **{f"/emails/{index}": "emails" for index in range(EMAILS_MAX)},
        "/webhook": "webhook",
        "ILLEGAL_ALERT": "name",
    }

    name = forms.CharField(
        max_length=NAME_CHARS_MAX,
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Letters, digits, - and _. Cannot be changed later."),
    )
    kind = forms.ChoiceField(label=gettext_lazy("Condition"))
    group = forms.CharField(
        required=False,
        max_length=NAME_CHARS_MAX,
        label=gettext_lazy("Consumer group"),
        widget=forms.TextInput(attrs={"list": "groups", "autocomplete": "off"}),
    )
    topic = forms.CharField(
        required=False,
        max_length=NAME_CHARS_MAX,
        label=gettext_lazy("Topic"),
        help_text=gettext_lazy("For lag, age and issues. Empty: all topics."),
    )
    threshold = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=THRESHOLD_MAX,
        label=gettext_lazy("Threshold"),
        help_text=gettext_lazy(
            "The alert fires at or above this value. Not used for “No consumers” and “New issues”."
        ),
    )
    for_time = DurationField(
        required=False,
        initial="1m",
        label=gettext_lazy("For at least"),
        help_text=gettext_lazy(
            "How long the condition must hold before the alert fires, up to 24h."
        ),
    )
    window = DurationField(
        required=False,
        initial="5m",
        label=gettext_lazy("Window"),
        help_text=gettext_lazy("For dead letters only: 1m to 60m."),
    )
    emails = forms.CharField(
        required=False,
        max_length=2_000,
        label=gettext_lazy("Email to"),
        help_text=gettext_lazy("Separated by commas, five at most."),
    )
    webhook = forms.CharField(
        required=False,
        max_length=URL_CHARS_MAX,
        label=gettext_lazy("Webhook"),
        help_text=gettext_lazy("An https URL that receives a signed POST."),
    )

    def __init__(
        self,
        *args: object,
        rule: AlertRule | None = None,
        has_disk: bool = False,
        **kwargs: object,
    ) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as Django takes them
        kind = self.fields["kind"]
        assert isinstance(kind, forms.ChoiceField)
        has_disk = has_disk or (rule is not None and rule.kind == AlertKind.DISK)
        kind.choices = [
            (each.value, text)
            for each, text in KIND_TEXTS.items()
            if has_disk or each is not AlertKind.DISK
        ]
        if rule is not None:
            del self.fields["name"]
            self.initial.update(
                kind=rule.kind,
                group=rule.group_name,
                topic=rule.topic,
                threshold=rule.threshold,
                for_time=rule.for_ms,
                window=rule.window_ms,
                emails=", ".join(rule.emails),
                webhook=rule.webhook_url,
            )
        if not settings.MQ_EMAIL_URL and not (rule is not None and rule.emails):
            self.fields["emails"].disabled = True
            self.fields["emails"].help_text = _("This service cannot send email.")

    def clean_threshold(self) -> int | None:
        value: int | None = self.cleaned_data["threshold"]
        needs_none = (AlertKind.NO_CONSUMER, AlertKind.ISSUE)
        if value is None and self.cleaned_data.get("kind") not in needs_none:
            raise forms.ValidationError(_("Enter a threshold."))
        return value

    def change(self) -> RuleChange:
        """Of a valid form. Raises Problem that names every fault."""
        given = self.cleaned_data
        emails = [text.strip() for text in given["emails"].split(",") if text.strip()]
        body: dict[str, object] = {
            "kind": given["kind"],
            "topic": given["topic"] or None,
            "emails": emails,
            "webhook": given["webhook"].strip() or None,
        }
        if given["group"]:
            body["group"] = given["group"]
        if given["threshold"] is not None:
            body["threshold"] = given["threshold"]
        for field, value in (("for", given["for_time"]), ("window", given["window"])):
            if value is not None:
                body[field] = format_duration_ms(value)
        return read_change(msgspec.json.encode(body))


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
