"""What can go wrong with a replicated log.

    LogError
    ├── Fenced         a newer epoch owns the shard; nothing that this one still appends will count
    ├── Unavailable    nothing was done: the store does not answer, or too many appends wait
    ├── Closed         by the caller; the next open finds whether what waited was stored
    ├── Trimmed        what is asked for is gone; a snapshot covers it
    ├── Damaged        bytes in the store that are ours and not whole, or not ours and in our place
    └── Misconfigured  wrong deployment, bucket, credentials or URL: an operator must act

``retriable`` says whether the same call may succeed later.
"""

from __future__ import annotations

from typing import ClassVar


class LogError(Exception):
    """Root of all errors raised by this package."""

    code: ClassVar[str] = "log_error"
    retriable: ClassVar[bool] = False


class Fenced(LogError):
    code = "fenced"


class Unavailable(LogError):
    code = "unavailable"
    retriable = True


class Closed(LogError):
    code = "closed"


class Trimmed(LogError):
    code = "trimmed"


class Damaged(LogError):
    code = "damaged"


class Misconfigured(LogError):
    code = "misconfigured"
