"""Limits of report runs, in one place."""

from __future__ import annotations

import datetime as dt
from typing import Final

from mqservice.lib.durations import DAY_MS, MINUTE_MS, SECOND_MS

# Days that may be asked for: what is before or behind is a slip, and calendars end.
DATE_MIN: Final = dt.date(2000, 1, 1)
DATE_MAX: Final = dt.date(2200, 1, 1)
DUE_DAYS_MAX: Final = 7  # missed ones that are caught up with, the newest
RANGE_DAYS_MAX: Final = 31  # of one answer
REQUESTED_DAYS_MAX: Final = 7  # of a run by hand: as many as nights are caught up with
WAITING_RUNS_MAX: Final = 20  # ordered by all tenants, one of which is running
RETAINED_RUNS_MAX: Final = 1_000
RETAINED_MS: Final = 400 * DAY_MS  # results; a year can be compared with the one before
PAGE_MAX: Final = 100
CSV_ROWS_MAX: Final = 200_000

ATTEMPTS_MAX: Final = 3
RETRY_MS: Final = MINUTE_MS  # after the first failure, then five times as long
RETRY_FACTOR: Final = 5
# A claim that was not renewed for so long belongs to a worker that is gone.
CLAIM_MS: Final = MINUTE_MS
RENEW_MS: Final = 10 * SECOND_MS
QUEUED_MS: Final = MINUTE_MS  # a run that no worker has begun by then is asked for again

STOP_WAIT_S: Final = 10.0  # from SIGTERM to SIGKILL
TAIL_CHARS_MAX: Final = 4_000  # of what Spark said, kept for the log
LINE_BYTES_MAX: Final = 1024 * 1024
INSERTED_PARTS: Final = 50  # by one statement

# The summary by e-mail.
RECIPIENTS_MAX: Final = 10  # of a namespace
EMAIL_CHARS_MAX: Final = 254
EMAIL_ATTEMPTS_MAX: Final = 5
EMAIL_RETRY_MS: Final = 5 * MINUTE_MS  # after the first failure, then twice as long each time
EMAIL_CLAIM_MS: Final = 2 * MINUTE_MS
EMAIL_LIMIT_S: Final = 60
EMAILS_SWEPT_MAX: Final = 50
EMAIL_RETAINED_DAYS: Final = 30  # rows; a night that is made later than that tells nobody again
EMAIL_PAGE_BYTES_MAX: Final = 1024 * 1024  # of the page that is attached
EMAIL_LINES_MAX: Final = 5
