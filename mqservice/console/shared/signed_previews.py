"""Previews that come back signed, so that only what was shown is applied.

    preview ──▶ [signed] ──▶ token in the page ──▶ POST ──▶ [find_signed] ──▶ preview, or None

A preview says for whom it was made, and its page checks that.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
from django.core import signing
from django.utils.translation import gettext_lazy

PREVIEW_SECONDS_MAX: Final = 600
EXPIRED: Final = gettext_lazy(
    "This preview has expired or belongs to someone else. Create a new one."
)

T = TypeVar("T")


def signed(page: str, preview: object) -> str:
    """``preview`` for the form of ``page``."""
    return signing.dumps(msgspec.to_builtins(preview), salt=f"console.{page}", compress=True)


def find_signed(page: str, token: str, kind: type[T]) -> T | None:
    """What was signed for ``page`` in the last ten minutes; None for anything else."""
    try:
        content = signing.loads(token, salt=f"console.{page}", max_age=PREVIEW_SECONDS_MAX)
        return msgspec.convert(content, kind)
    except (signing.BadSignature, msgspec.ValidationError):
        return None
