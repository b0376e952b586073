"""How many issues there may be, how long they are retained, and how much one tick reads."""

from __future__ import annotations

from typing import Final

from mqservice.lib.durations import DAY_MS, HOUR_MS, SECOND_MS
from mqservice.store import CAUSE_CHARS_MAX

MIB: Final = 1024 * 1024
ISSUES_MAX: Final = 500  # of a namespace; what is above it counts as other reasons
REASON_CHARS_MAX: Final = CAUSE_CHARS_MAX
SAMPLE_CHARS_MAX: Final = 1_000  # of a reason as it was written
EXAMPLES_MAX: Final = 5  # the newest messages of an issue
HOURS_RETAINED: Final = 48  # with letters, of an issue
EVENTS_RETAINED_MAX: Final = 100  # the newest changes of an issue
RETAINED_MS: Final = 90 * DAY_MS  # one that is resolved or ignored, since it was last seen
PAGE_MAX: Final = 100

# Without a letter for so long an issue is resolved by itself.
QUIET_MS_DEFAULT: Final = 7 * DAY_MS
QUIET_MS_MIN: Final = HOUR_MS
QUIET_MS_MAX: Final = 90 * DAY_MS

# One tick: whose letters wait longest come first, and no group takes more than its batches.
BATCH_LETTERS: Final = 256
BATCH_BYTES_MAX: Final = MIB
BATCHES_MAX: Final = 8  # of one group
SCANNED_MAX: Final = 10_000  # letters of all groups
SCAN_MS_MAX: Final = 2 * SECOND_MS  # of a worker that samples and sends as well
COUNTED_AT_ONCE: Final = 1_000  # groups in one call to the engine
GROUPS_MAX: Final = 10_000  # the newest of more are not looked at
CLEANED_MAX: Final = 1_000  # rows by one statement of the clean-up
