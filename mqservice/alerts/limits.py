"""Limits of alert rules and of what they send."""

from __future__ import annotations

from typing import Final

from mqservice.lib.durations import DAY_MS, MINUTE_MS, SECOND_MS
from mqservice.sampling.limits import FRESH_MS

RULES_MAX: Final = 100  # of a namespace
EMAILS_MAX: Final = 5  # of a rule
URL_CHARS_MAX: Final = 2_048
ROUTING_KEY_CHARS_MAX: Final = 64  # PagerDuty's have 32
TEST_PAUSE_MS: Final = 10 * SECOND_MS  # between two tests of a rule

MUTE_MS_MIN: Final = MINUTE_MS
MUTE_MS_MAX: Final = 30 * DAY_MS
MUTE_REASON_CHARS_MAX: Final = 200

ISSUES_LISTED_MAX: Final = 20  # in one notification; how many there are more is told

SAMPLE_MS_MAX: Final = FRESH_MS
EVALUATED_MAX: Final = 10_000  # rules in one round, those that wait longest first

EVENTS_RETAINED_MAX: Final = 1_000  # of a rule
EVENTS_RETAINED_MS: Final = 90 * DAY_MS
PAGE_MAX: Final = 100

# Sending. A claim that was not given back for so long belongs to a worker that is gone.
ATTEMPTS_MAX: Final = 8
PAUSE_MS_MIN: Final = 5 * SECOND_MS
PAUSE_MS_MAX: Final = 15 * MINUTE_MS
SWEPT_MAX: Final = 100
CLAIM_MS: Final = 60 * SECOND_MS
SEND_SOFT_LIMIT_S: Final = 30
SEND_LIMIT_S: Final = 40
WEBHOOK_MS_MAX: Final = 10 * SECOND_MS  # from the first byte out to the last one in
WEBHOOK_RESPONSE_BYTES_MAX: Final = 16 * 1024
ADDRESSES_MAX: Final = 16  # of a host that are looked at
ERROR_CHARS_MAX: Final = 300
