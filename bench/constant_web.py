"""``python -m bench.constant_web``: the service's web process, but everybody is known and may all.

The header is not looked at, and nothing is asked of the principal, which is that of MQ_BENCH_KEY.
All else is as in ``mqservice.web``, of which it takes the settings and the place.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from mqservice.web import __main__ as web


def main() -> int:
    import mqservice.asgi  # sets Django up
    from mqservice.accounts.access import Principal, find_principal
    from mqservice.caches import caches

    principal = find_principal(f"Bearer {os.environ['MQ_BENCH_KEY']}".encode())
    assert principal is not None, "the key of the service"
    allowed: Any = lambda self, scope, kind=None, name="": None  # noqa: E731 reason: as short as can be
    Principal.require = allowed  # type: ignore[method-assign]
    caches.keys.cached = lambda authorization: principal
    assert mqservice.asgi.application is not None
    return web.main()


if __name__ == "__main__":
    sys.exit(main())
