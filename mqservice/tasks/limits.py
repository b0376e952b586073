"""Limits of long tasks, in one place."""

from __future__ import annotations

from typing import Final

SECOND_MS: Final = 1_000
MIB: Final = 1024 * 1024

ACTIVE_TASKS_MAX: Final = 10  # of a namespace at a time
RETAINED_TASKS_MAX: Final = 1_000  # of a namespace that have ended; the oldest go first
IDS_MAX: Final = 1_000
ID_CHARS_MAX: Final = 255
FAILURES_MAX: Final = 10_000  # listed for a task; what goes beyond is only counted
PAGE_MAX: Final = 1_000

# One step: read a page, move what is on it, save. The page's bytes bound what one append takes.
BATCH_MESSAGES_MAX: Final = 100
BATCH_BYTES_MAX: Final = 4 * MIB
SCANNED_MAX: Final = 256  # read at a time when only some of them can be wanted
LOOK_UPS_MAX: Final = 16  # for one id: others may have it as a key
LOOK_UP_MESSAGES_MAX: Final = 32

# One turn of a worker: steps until so long, then another task may have its turn.
TURN_MS_MAX: Final = 2 * SECOND_MS
TURN_SOFT_LIMIT_S: Final = 40
TURN_LIMIT_S: Final = 50
# A claim that was not renewed for so long belongs to a worker that is gone: longer than a worker
# may take for a whole turn.
CLAIM_MS: Final = 60 * SECOND_MS
QUEUED_MS: Final = 5 * SECOND_MS  # a turn that no worker has begun by then is asked for again
SWEPT_MAX: Final = 100
# A task whose worker dies so often without a step in between would kill the next one too.
LOST_MAX: Final = 5
PAUSE_MS_MIN: Final = SECOND_MS
PAUSE_MS_MAX: Final = 60 * SECOND_MS

# A dry run stops counting after so many messages, or so long.
COUNTED_MAX: Final = 10_000
COUNTING_MS_MAX: Final = 3 * SECOND_MS
