"""Why a backup or restore failed, each with one line for people and its own exit code.

BackupError         1  it could not be made or brought back; nothing of it is left
├── BackupDamaged   3  a file of the backup is not what its manifest says
└── BackupRejected  2  the place, the version or the service do not allow it; nothing was done
"""

from __future__ import annotations

from typing import ClassVar


class BackupError(Exception):
    """Root of all errors of this package; its text is what the user sees."""

    exit_code: ClassVar[int] = 1


class BackupDamaged(BackupError):
    exit_code = 3


class BackupRejected(BackupError):
    exit_code = 2
