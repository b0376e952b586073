"""The table that marks a database as filled by a restore that has not finished.

backups.database ── made with the rows, dropped at the end ──▶ table ◀── dropped ── migrate

Whoever brings the tables to a version is about to use them: from then on the database is not what
the backup has.
"""

from __future__ import annotations

from typing import Final

STAMP_TABLE: Final = "public.mqservice_restored"
FORGET: Final = f"DROP TABLE IF EXISTS {STAMP_TABLE}"
