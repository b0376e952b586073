"""How often to measure, how long samples are retained, and how many there may be."""

from __future__ import annotations

from typing import Final

from mqservice.lib.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

# Consumer offsets: what has changed, and every STEP_MS one step of their history.
OFFSETS_PAGE_ROWS: Final = 10_000
BATCH_PAGES: Final = 10  # in one transaction, and at most so much in memory: about 30 MB
BATCHES_MAX: Final = 10  # in one run; the next one goes on from there
OFFSET_STEP_MS: Final = 5 * MINUTE_MS
OFFSET_STEPS_RETAINED_MS: Final = DAY_MS
OFFSET_STEP_ROWS_MAX: Final = 2_000_000  # about 300 MB; the oldest steps go first

# Samples: each resolution with how long it is kept. A coarser one is made of the one before it.
SAMPLE_MS: Final = 10 * SECOND_MS
RESOLUTIONS_MS: Final = (SAMPLE_MS, MINUTE_MS, HOUR_MS)
RETAINED_MS: Final = {SAMPLE_MS: HOUR_MS, MINUTE_MS: DAY_MS, HOUR_MS: 90 * DAY_MS}
# A sample of a moment is written that late at most; what is younger is not rolled up yet.
LATE_MS: Final = 20 * SECOND_MS
# Marks of what was delivered and settled, for the night: as often as groups are sampled, while a
# day has no more rows than this; with more groups at work they lie further apart.
MARK_ROWS_DAY_MAX: Final = 600_000  # about 100 MB with topics of 16 queues
MARKS_RETAINED_MS: Final = 3 * DAY_MS

# In one round; with more of them the newest are not sampled.
SAMPLED_GROUPS_MAX: Final = 2_000
SAMPLED_TOPICS_MAX: Final = 5_000

POINTS_MAX: Final = 2_200  # of one answer: 90 days of hours are 2,160
DELETED_ROWS_MAX: Final = 50_000  # by one statement of the clean-up
FRESH_MS: Final = MINUTE_MS  # a sample that is older says nothing of now
METRIC_ROWS_MAX: Final = 20_000  # of one answer to Prometheus
