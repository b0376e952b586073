"""Revisions as entity tags: ``"7"`` says that the row has been changed six times."""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

from mqservice.lib.problem import Problem

_FORM: Final = re.compile(r'"([0-9]{1,9})"', re.ASCII)


def etag(revision: int) -> str:
    return f'"{revision}"'


def revision_of(if_match: str | None) -> int | None:
    """The revision an ``If-Match`` header asks for; None when it asks for none.

    Raises:
        Problem: PRECONDITION_FAILED for a tag that cannot be one of ours.
    """
    if if_match is None:
        return None
    match = _FORM.fullmatch(if_match.strip())
    if match is None:
        raise Problem.of("PRECONDITION_FAILED", "If-Match must be the ETag of an earlier response")
    return int(match[1])


class _Row(Protocol):
    revision: Any  # Any: a field of the ORM


def require_revision(row: _Row | None, revision: int | None, what: str) -> None:
    """Raises Problem PRECONDITION_FAILED unless ``row`` exists in ``revision``, if that is asked
    for."""
    if revision is not None and (row is None or row.revision != revision):
        raise Problem.of(
            "PRECONDITION_FAILED", f"the {what} has changed since the revision in If-Match"
        )
