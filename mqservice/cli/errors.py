"""What can go wrong between a command and the service, as one tree.

    ClientError
    ├── UsageError        the command line or an input line makes no sense; nothing was sent
    ├── Unreachable       no connection; nothing was sent
    ├── ResponseMissing   the request left and no answer came: nobody knows what became of it
    ├── RequestRejected   the service answered with a problem, over HTTP or WebSocket
    └── ResponseMalformed  bytes that are not what the API promises

``str()`` of each is the one line a person sees. ``retriable`` says whether the same request may
succeed later. ``stored`` speaks of produced messages: False is the service's promise that nothing
of the request will ever be delivered, None that nobody knows.
"""

from __future__ import annotations

import os
import re
from typing import ClassVar, Final

_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")

# What helps, by the service's code.
_HINTS: Final = {
    "TOPIC_NOT_FOUND": "create it with `mqservice topic create`, or see `mqservice topic list`",
    "GROUP_NOT_FOUND": "create it with `mqservice group create`, or see `mqservice group list`",
    "NAMESPACE_NOT_FOUND": "see `mqservice namespace list`, and name one with --namespace",
    "QUEUE_NOT_FOUND": "see `mqservice topic show`",
    "ALERT_NOT_FOUND": "create it with `mqservice alert set`, or see `mqservice alert list`",
    "SCHEDULE_NOT_FOUND": "create it with `mqservice schedule set`",
    "MASK_NOT_FOUND": "create it with `mqservice mask set`, or see `mqservice mask list`",
    "SEARCH_NOT_FOUND": "see `mqservice saved-search list`",
    "SCHEMA_NOT_FOUND": "set it with `mqservice schema set`",
    "ISSUE_NOT_FOUND": "see `mqservice issue list`",
    "KEY_NOT_FOUND": "see `mqservice key list`",
    "MEMBER_NOT_FOUND": "see `mqservice member list`",
    "REPORT_NOT_FOUND": "see `mqservice report list`",
    "UNAUTHENTICATED": "save another key with `mqservice login`, or give --api-key",
}


class ClientError(Exception):
    """Root of all errors raised by the client modules."""

    retriable: bool = False
    stored: bool | None = False
    retry_after_ms: int | None = None
    exit_code: ClassVar[int] = 1


class UsageError(ClientError):
    exit_code = 2


class Unreachable(ClientError):
    """Raised before the first byte of a request was sent."""

    retriable = True

    def __init__(self, base_url: str, cause: str) -> None:
        self.base_url = base_url
        super().__init__(
            f"cannot reach {base_url}: {cause}. Is the service running there? "
            "Start it with `mqservice up`, or name another address with --base-url."
        )


class ResponseMissing(ClientError):
    retriable = True
    stored = None

    def __init__(self, what: str, cause: str) -> None:
        super().__init__(f"{what}: no response ({cause}); the outcome is unknown")


class RequestRejected(ClientError):
    """The service said no. ``status`` is 0 for a refusal inside a WebSocket."""

    def __init__(
        self,
        *,
        status: int,
        code: str,
        detail: str,
        retriable: bool = False,
        stored: bool | None = None,
        retry_after_ms: int | None = None,
        request_id: str = "",
    ) -> None:
        self.status = status
        self.code = code
        self.detail = detail
        self.retriable = retriable
        # A 4xx is refused before anything is written, whether or not the answer says so.
        self.stored = False if 400 <= status < 500 else stored
        self.retry_after_ms = retry_after_ms
        self.request_id = request_id
        place = f" (HTTP {status})" if status else ""
        trace = f" [request {request_id}]" if request_id else ""
        hint = f"; {_HINTS[code]}" if code in _HINTS else ""
        super().__init__(f"{code}{place}: {detail}{hint}{trace}")


class ResponseMalformed(ClientError):
    stored = None


def os_cause(exc: Exception) -> str:
    """What the operating system said, where a library wrapped it."""
    inner: BaseException | None = exc
    while inner is not None:
        if type(inner).__module__ == "ssl" and isinstance(inner, OSError):  # its errno is its own
            return str(getattr(inner, "verify_message", "") or inner.strerror or inner).lower()
        if isinstance(inner, OSError) and (numbers := _ERRNO.findall(str(inner))):
            # Of several addresses, or of one; asyncio puts the address into the text.
            return os.strerror(int(numbers[0])).lower()
        if isinstance(inner, OSError) and inner.strerror:
            # asyncio puts the address into strerror; name look-ups have errno of their own kind.
            number = inner.errno or 0
            return (os.strerror(number) if number > 0 else inner.strerror).lower()
        inner = inner.__cause__ or inner.__context__
    return str(exc) or type(exc).__name__
