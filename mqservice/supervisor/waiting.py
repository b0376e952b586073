"""``python -m mqservice.supervisor.waiting``: waits until PostgreSQL accepts connections.

    DATABASE_URL ──▶ [main] ── a log-in each second ──▶ PostgreSQL

For units of systemd, which do not start again what waited for a unit that failed: after a power cut
PostgreSQL may be back later than we are. It waits for as long as it takes; whoever started it may
end it. Every new reason is told once.
"""

from __future__ import annotations

import sys
import time
from typing import Final

import psycopg

from mqservice.env import envsecret

CONNECT_SECONDS_MAX: Final = 3
POLL_WAIT_S: Final = 1


def connection_problem(url: str) -> str | None:
    """Why nobody with this URL can log in, in one line; None when somebody can."""
    try:
        psycopg.connect(url, connect_timeout=CONNECT_SECONDS_MAX).close()
    except psycopg.Error as exc:
        return " ".join(str(exc).split())
    return None


def main() -> int:
    """Exit code 0, once a log-in was possible."""
    url = envsecret("DATABASE_URL", chars_min=1)
    told = None
    while (reason := connection_problem(url)) is not None:
        if reason != told:
            print(f"mqservice: waiting for PostgreSQL: {reason}", file=sys.stderr, flush=True)
        told = reason
        time.sleep(POLL_WAIT_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
