"""Options of connections to PostgreSQL: timeouts for all, a pool for web processes.

query of DATABASE_URL, kind of process ──▶ [database_options] ──▶ OPTIONS of Django, for psycopg
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl

from mqservice.lib.tcp_timeouts import LIBPQ_OPTIONS

_CONNECT_SECONDS_MAX: Final = 3
# Of an operator's command: nobody's request waits for it, and it would fail where others try again.
_COMMAND_CONNECT_SECONDS_MAX: Final = 30
_COMMAND: Final = "manage"


def database_options(query: str, process: str) -> dict[str, Any]:  # Any: psycopg takes them so
    """What the operator's own URL says comes last, and wins."""
    is_command = process == _COMMAND
    options: dict[str, Any] = {  # Any: as above
        "connect_timeout": _COMMAND_CONNECT_SECONDS_MAX if is_command else _CONNECT_SECONDS_MAX,
        **LIBPQ_OPTIONS,
        "application_name": f"mqservice {process}",
        "options": "-c statement_timeout=15000 -c lock_timeout=5000",
        **dict(parse_qsl(query)),
    }
    if process == "web":
        # Half of them are for pages and look-ups; the threads of ``control_plane`` keep the others.
        options["pool"] = {"min_size": 1, "max_size": 8, "timeout": 5}
    return options
