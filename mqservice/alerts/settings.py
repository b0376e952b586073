"""The settings of an alert rule, and of muting one: the tables that all about them is made of."""

from __future__ import annotations

import enum
from typing import Final

from mqservice.alerts.limits import (
    EMAILS_MAX,
    MUTE_MS_MAX,
    MUTE_MS_MIN,
    MUTE_REASON_CHARS_MAX,
    ROUTING_KEY_CHARS_MAX,
    URL_CHARS_MAX,
)
from mqservice.lib.durations import DAY_MS, MINUTE_MS
from mqservice.lib.settings_table import (
    Boolean,
    Choice,
    Duration,
    Email,
    Integer,
    Json,
    List,
    Moment,
    Name,
    Settings,
    Text,
    Wrong,
    gettext_noop,
)


class AlertKind(enum.StrEnum):
    """What is watched. LAG: messages; OLDEST_AGE: ms; DLQ_GROWTH: dead letters within a window;
    DISK: percent used of the store's disk; NO_CONSUMER: no member reads the group. ISSUE: open
    issues, of the group or of all; each that opens is told, instead of a change of the state.
    """

    LAG = "lag"
    OLDEST_AGE = "oldest_age"
    DLQ_GROWTH = "dlq_growth"
    DISK = "disk"
    NO_CONSUMER = "no_consumer"
    ISSUE = "issue"


class WebhookFormat(enum.StrEnum):
    """What a webhook gets: our own document, signed; a message of Slack's; an event of PagerDuty's
    Events API v2.
    """

    MQSERVICE = "mqservice"
    SLACK = "slack"
    PAGERDUTY = "pagerduty"


# Which settings a kind has; without a group it watches all of the namespace.
TOPIC_KINDS: Final = (AlertKind.LAG, AlertKind.OLDEST_AGE, AlertKind.ISSUE)
GROUPLESS_KINDS: Final = (AlertKind.DISK, AlertKind.ISSUE)
THRESHOLDLESS_KINDS: Final = (AlertKind.NO_CONSUMER, AlertKind.ISSUE)
PAGERDUTY_URL: Final = "https://events.pagerduty.com/v2/enqueue"


class OptionalText(Text, frozen=True, kw_only=True):
    """None is an empty text."""

    def shown(self, value: str) -> Json:
        return {self.name: value or None}


KIND: Final = Choice(
    name="kind",
    values=AlertKind,
    texts={
        AlertKind.LAG: gettext_noop("Lag: messages not yet settled"),
        AlertKind.OLDEST_AGE: gettext_noop("Age of the oldest message"),
        AlertKind.DLQ_GROWTH: gettext_noop("New dead letters in a time window"),
        AlertKind.NO_CONSUMER: gettext_noop("No consumers"),
        AlertKind.ISSUE: gettext_noop("New issues"),
        AlertKind.DISK: gettext_noop("Storage disk usage"),
    },
    about="What the rule watches.",
    label=gettext_noop("Condition"),
)
GROUP: Final = Name(
    name="group",
    column="group_name",
    null="",
    about="The consumer group to watch.",
    label=gettext_noop("Consumer group"),
    suggests="groups",
    option="--group -g",
)
TOPIC: Final = Name(
    name="topic",
    null="",
    about="Only this topic; null for all.",
    label=gettext_noop("Topic"),
    option_help="Only this topic of the group; '' for all.",
)
THRESHOLD: Final = Integer(
    name="threshold",
    low=1,
    high=(1 << 63) - 1,
    about="It fires at this value: messages, ms or percent, depending on the kind.",
    label=gettext_noop("Threshold"),
    help=gettext_noop("The alert fires at or above this value."),
    may_be_empty=True,
)
FOR: Final = Duration(
    name="for",
    column="for_ms",
    low=0,
    high=DAY_MS,
    default=0,
    about="How long the value must last, such as `1m`.",
    label=gettext_noop("For at least"),
    help=gettext_noop("How long the condition must hold before the alert fires, up to 24h."),
    may_be_empty=True,
)
WINDOW: Final = Duration(
    name="window",
    column="window_ms",
    low=MINUTE_MS,
    high=60 * MINUTE_MS,  # as long as the finest samples are kept
    default=5 * MINUTE_MS,
    about="The time over which rates are measured.",
    label=gettext_noop("Window"),
    help=gettext_noop("The dead letters of this time are counted: 1m to 60m."),
    may_be_empty=True,
)
ENABLED: Final = Boolean(
    name="enabled",
    column="is_enabled",
    default=True,
    about="False turns it off.",
    option="--enabled/--silenced",
    option_help="Whether notifications are sent.",
)
EMAILS: Final = List(
    name="emails",
    item=Email(),
    count_max=EMAILS_MAX,
    count_fault=Wrong,
    default=list,
    about="Recipients.",
    label=gettext_noop("Email to"),
    help=gettext_noop("Separated by commas, five at most."),
    may_be_empty=True,
    option="--email",
    option_help="Address to notify (repeatable); replaces all addresses.",
)
WEBHOOK: Final = OptionalText(
    name="webhook",
    column="webhook_url",
    chars_max=URL_CHARS_MAX,
    is_parsed=True,
    null="",
    about="The HTTPS URL that gets a POST; null removes it.",
    label=gettext_noop("Webhook"),
    help=gettext_noop("An https URL that receives a signed POST."),
    option_help="URL to notify; '' removes it.",
)
WEBHOOK_FORMAT: Final = Choice(
    name="webhook_format",
    values=WebhookFormat,
    texts={
        WebhookFormat.MQSERVICE: gettext_noop("Signed JSON"),
        WebhookFormat.SLACK: gettext_noop("Slack message"),
        WebhookFormat.PAGERDUTY: gettext_noop("PagerDuty event"),
    },
    default=WebhookFormat.MQSERVICE.value,
    about="What the webhook gets: a signed document of ours, a Slack message or a PagerDuty event.",
    label=gettext_noop("Webhook format"),
    help=gettext_noop("Mattermost and Discord (URL ending in /slack) take Slack messages, too."),
)
ROUTING_KEY: Final = OptionalText(
    name="routing_key",
    chars_max=ROUTING_KEY_CHARS_MAX,
    null="",
    about="PagerDuty's integration key; only with `webhook_format: pagerduty`.",
    label=gettext_noop("PagerDuty integration key"),
    help=gettext_noop("Of an Events API v2 integration. The URL may be left empty then."),
    may_be_empty=True,
    option_help="PagerDuty's integration key; '' removes it.",
)
NEW_SECRET: Final = Boolean(
    name="new_secret",
    column="is_secret_new",
    about="Create another secret for the webhook's signatures.",
    option="--new-secret",
)


def unused_settings(kind: AlertKind) -> set[str]:
    """Names of the settings that mean nothing to a kind."""
    is_used = {
        GROUP.name: kind is not AlertKind.DISK,
        TOPIC.name: kind in TOPIC_KINDS,
        THRESHOLD.name: kind not in THRESHOLDLESS_KINDS,
        FOR.name: kind is not AlertKind.ISSUE,
        WINDOW.name: kind is AlertKind.DLQ_GROWTH,
    }
    return {name for name, used in is_used.items() if not used}


SETTINGS: Final[Settings] = (
    KIND, GROUP, TOPIC, THRESHOLD, FOR, WINDOW, ENABLED, EMAILS, WEBHOOK, WEBHOOK_FORMAT,
    ROUTING_KEY,
)  # fmt: skip
BODY: Final[Settings] = (*SETTINGS, NEW_SECRET)
MUTE: Final[Settings] = (
    Duration(
        name="for",
        column="for_ms",
        low=MUTE_MS_MIN,
        high=MUTE_MS_MAX,
        about="How long to mute it, such as `1h`.",
    ),
    Moment(name="until", column="until_ms", about="When the mute ends, in place of `for`."),
    Text(name="reason", chars_max=MUTE_REASON_CHARS_MAX, about="Shown to other users."),
)
