"""Limits of schedules and of what they send."""

from __future__ import annotations

from typing import Final

from mqservice.lib.durations import MINUTE_MS, SECOND_MS

KIB: Final = 1024

SCHEDULES_MAX: Final = 100  # of a namespace
PAGE_MAX: Final = 100
BODY_BYTES_MAX: Final = 64 * KIB  # a message that is a setting lies in PostgreSQL
CRON_CHARS_MAX: Final = 120
ZONE_CHARS_MAX: Final = 64
DESCRIPTION_CHARS_MAX: Final = 200
ERROR_CHARS_MAX: Final = 300
NEXT_RUNS: Final = 10  # shown

# A run that could not begin so long after its time counts as missed: ``catch_up`` says what then.
MISSED_MS: Final = MINUTE_MS
# The engine remembers the key of a run for ten minutes. After half of that it is asked besides
# whether the message is there.
REMEMBERED_MS: Final = 5 * MINUTE_MS
LOOK_UPS_MAX: Final = 4  # pages with one id, which nobody else has
LOOK_UP_MESSAGES_MAX: Final = 8

# One sweep. The messages of a chunk go in one put: 20 * (64 + 32) KiB.
CHUNK_RUNS: Final = 20
TURN_MS_MAX: Final = SECOND_MS // 2
SWEEP_SOFT_LIMIT_S: Final = 40
SWEEP_LIMIT_S: Final = 50
# Between two tries of a run that a busy engine or a full quota refused; twice as long each time.
PAUSE_MS_MIN: Final = 5 * SECOND_MS
PAUSE_MS_MAX: Final = 5 * MINUTE_MS
