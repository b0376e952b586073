"""The real topics of scheduled messages."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from storage_engine.log.commit_log import CommitLog
from storage_engine.reader.property_values import Values, property_value, property_values
from storage_engine.records.schedule_topic import REAL_TOPIC

REAL_TOPIC_NAME: Final = REAL_TOPIC.encode()
TOPIC_BYTES_MAX: Final = 127


def real_topics(commit_log: CommitLog, physical_offsets: NDArray[np.int64]) -> Values:
    """See ``property_values``."""
    return property_values(commit_log, physical_offsets, [(REAL_TOPIC_NAME, TOPIC_BYTES_MAX)])[0]


def real_topic(properties: bytes) -> bytes:
    """The topic that a scheduled record is for; empty when it does not say so."""
    return property_value(properties, REAL_TOPIC_NAME) or b""
