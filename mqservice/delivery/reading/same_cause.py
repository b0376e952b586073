"""Which dead letters have the same cause as a reason, or a given cause."""

from __future__ import annotations

import re
from typing import Final

from mqservice.delivery.limits import REASON_QUERY_CHARS_MAX
from mqservice.store import Record, cause_of, find_dead_letter

NO_REASON: Final = "<none>"  # how somebody asks for letters without a reason
_CUT_MARK: Final = "…"
_SIGN: Final = re.compile("<[a-z]+>")


def reason_fault(text: str) -> str | None:
    """Why nothing can be asked for by this reason; None where it can."""
    if len(text) > REASON_QUERY_CHARS_MAX:
        return f"must have at most {REASON_QUERY_CHARS_MAX} characters, found {len(text)}"
    # One of control characters alone would else ask for letters without a reason.
    if not requested_cause(text) and text.strip() != NO_REASON:
        return f"must not be blank; use {NO_REASON} for dead letters without a reason"
    return None


def requested_cause(text: str) -> str:
    """The cause that is meant by a reason, by a cause, or by ``NO_REASON``."""
    return "" if text.strip() == NO_REASON else cause_of(text)


class SameCause:
    """Tells letters of one cause from others, of most of which it never makes the cause.

    What stands between the signs of a cause stands as it is in each reason that has it.
    """

    def __init__(self, cause: str) -> None:
        self._cause = cause
        whole = cause.rpartition(" ")[0] if cause.endswith(_CUT_MARK) else cause  # cut in a sign?
        self._words = _SIGN.sub(" ", whole).split()

    def has(self, record: Record) -> bool:
        """Of a record of a DLQ, as ``matches`` of its reason."""
        letter = find_dead_letter(record)
        return self.matches("" if letter is None else letter.reason)

    def matches(self, reason: str) -> bool:
        """Microseconds for a reason that lacks one of the words, else as ``cause_of``: a few
        milliseconds at most.
        """
        return all(word in reason for word in self._words) and cause_of(reason) == self._cause
