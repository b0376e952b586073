"""Whether the parts that answer nobody do their work: they note it in PostgreSQL."""

from __future__ import annotations

from typing import Final

import psycopg

_BEATEN: Final = (
    "SELECT count(*) FROM monitoring_heartbeat WHERE process IN ('worker', 'beat', 'tick')"
    " AND beaten_at > to_timestamp(%s)"
)
_BEATING: Final = 3


def have_beaten_since(database_url: str, epoch_s: float) -> bool:
    """Whether workers, beat and the engine's tick have. Raises psycopg.Error as it is met."""
    with psycopg.connect(database_url) as connection:
        row = connection.execute(_BEATEN, (epoch_s,)).fetchone()
    return row == (_BEATING,)
