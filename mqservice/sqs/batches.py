"""Batches of SQS: what is refused as a whole, and what becomes of each entry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

from mqservice.sqs.errors import SqsError
from mqservice.sqs.replies import BatchError

ENTRIES_MAX: Final = 10
_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,80}", re.ASCII)


class Entry(Protocol):
    @property
    def id(self) -> str: ...


def check_entries(action: str, entries: Sequence[Entry]) -> None:
    """Raises SqsError unless the entries make a batch."""
    if not entries:
        detail = f"There should be at least one {action}RequestEntry in the request."
        raise SqsError("EmptyBatchRequest", detail)
    if len(entries) > ENTRIES_MAX:
        detail = f"Maximum number of entries per request are {ENTRIES_MAX}. You have sent "
        raise SqsError("TooManyEntriesInBatchRequest", f"{detail}{len(entries)}.")
    seen = set()
    for entry in entries:
        if not _ID.fullmatch(entry.id):
            detail = "A batch entry id can only contain alphanumeric characters, hyphens and "
            raise SqsError(
                "InvalidBatchEntryId", f"{detail}underscores. It can be at most 80 letters long."
            )
        if entry.id in seen:
            raise SqsError("BatchEntryIdsNotDistinct", f"Id {entry.id} repeated.")
        seen.add(entry.id)


def failed_entry(entry_id: str, error: SqsError) -> BatchError:
    return BatchError(
        id=entry_id, sender_fault=error.is_sender_fault, code=error.code, message=error.message
    )
