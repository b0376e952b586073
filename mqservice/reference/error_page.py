"""The table of codes as Markdown: ``docs/errors.md`` is this text, and a test keeps it so.

python -m mqservice.reference.error_page > docs/errors.md
"""

from __future__ import annotations

from typing import Final

from mqservice.lib.problem import CODES, RETRYABLE_CODES
from mqservice.protocol.problem_texts import FRAME_MEANINGS, ITEM_MEANINGS, MEANINGS, RESERVED
from mqservice.reference.parts import table_cell

_HEAD: Final = """\
# Errors

Every error of the API is a problem document (RFC 9457) of type `application/problem+json`; \
[REST](rest.md#errors)
describes its form. Branch on `code`, which never changes its meaning or its status. `type` leads \
to a page of
the service about the code. This page is generated from the table that the service uses:
`python -m mqservice.reference.error_page > docs/errors.md`.

"Retry" is the usual value of `retryable`: the same request may succeed later, after \
`retry_after_ms` or the
header `Retry-After`, or with growing delays.

"""


def error_page() -> str:
    """The whole page."""
    lines = ["| status | code | meaning | what to do | retry |", "|---|---|---|---|---|"]
    for code, (status, _) in CODES.items():
        if code in RESERVED:
            continue
        meaning, remedy = map(table_cell, MEANINGS[code])
        retry = "yes" if code in RETRYABLE_CODES else "no"
        lines.append(f"| {status} | `{code}` | {meaning} | {remedy} | {retry} |")
    reserved = ", ".join(f"`{code}` ({CODES[code][0]})" for code in sorted(RESERVED))
    return (
        _HEAD
        + "\n".join(lines)
        + f"\n\nReserved, and not sent by this version: {reserved}.\n"
        + "\n## Codes of single errors\n\n"
        + "`errors[].code` is one of the codes above, or a more specific one:\n\n"
        + _list(ITEM_MEANINGS)
        + "\n## Codes on a WebSocket\n\n"
        + "`code` of `err` frames, and of `failed` in replies, is one of the above, or:\n\n"
        + _list(FRAME_MEANINGS)
    )


def _list(meanings: dict[str, str]) -> str:
    return "".join(f"* `{code}`: {text}\n" for code, text in sorted(meanings.items()))


if __name__ == "__main__":
    print(error_page(), end="")
