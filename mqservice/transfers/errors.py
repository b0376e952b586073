"""Why an import or export failed, each with one line for people and its own exit code.

TransferError         1  it failed; nothing of it is left
└── TransferRejected  2  the store or the place do not allow it; nothing was done
"""

from __future__ import annotations

from typing import ClassVar


class TransferError(Exception):
    """Root of all errors of this package; its text is what the user sees."""

    exit_code: ClassVar[int] = 1


class TransferRejected(TransferError):
    exit_code = 2
