"""How often usage is written, how long it is retained, and how much of it there may be."""

from __future__ import annotations

from typing import Final

from mqservice.lib.durations import DAY_MS, SECOND_MS

WRITE_MS: Final = 10 * SECOND_MS
# Topics that one process counts between two writes; of more the tenant's calls are counted only.
TOPICS_MAX: Final = 20_000
TENANTS_MAX: Final = 20_000
RETAINED_MS: Final = 35 * DAY_MS
ROWS_MAX: Final = 5_000_000  # about 900 MB; the oldest hours go first
DELETED_ROWS_MAX: Final = 50_000  # by one statement of the clean-up
STORAGE_TOPICS: Final = 1_000  # of one call to the engine
PAGE_MAX: Final = 1_000
SPAN_DAYS_MAX: Final = 35
